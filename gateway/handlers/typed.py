"""Typed arguments: the body and the fields of a request, as the annotations of its function say.

    @app.send("/app/room/{number}/order")
    async def order(request: Request, number: int, order: Order) -> Receipt: ...

    number    a field of the destination: converted from text
    order     the one argument that is no field and has no default: the body, read as JSON, and checked by pydantic
    Receipt   what the function returns; all but bytes and str goes out as JSON

Without annotations a field is a `str`, as it always was.  `bytes` and `str` stand for the body as it is.

What does not fit is rejected, for it can never succeed: the request becomes a dead letter, whose reason names the place
in the body and repeats nothing of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, to_json

from .request import Body, Reject, Request

JSON = {"content-type": "application/json"}

_AS_TEXT = (inspect.Parameter.empty, str, Any)
_SAID = 3  # errors of one body that are named
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Arguments:
    """How a request becomes the arguments of a function.

    Attributes:
        fields: converters of those fields of the destination that are not plain text, by name.
        body: the name of the argument that takes the body; empty: none does.
        body_type: what the body is read as; None: as it is.
        as_text: the body is taken as text.
        answer_type: what the function returns; None: bytes, text, nothing, or it does not say.
    """

    fields: dict[str, TypeAdapter[Any]]
    body: str
    body_type: TypeAdapter[Any] | None
    as_text: bool
    answer_type: TypeAdapter[Any] | None

    def of(self, request: Request, values: dict[str, str]) -> dict[str, object]:
        """The keyword arguments for a request.  `values`: the fields as text.  Raises Reject: one does not fit."""
        found: dict[str, object] = dict(values)
        for name, converter in self.fields.items():
            try:
                found[name] = converter.validate_strings(values[name])
            except ValidationError as error:
                raise Reject(f"{name} in the destination: {_said(error)}") from None
        if self.body_type is not None:
            try:
                found[self.body] = self.body_type.validate_json(request.body)
            except ValidationError as error:
                raise Reject(f"the body: {_said(error)}") from None
        elif self.body:
            found[self.body] = request.text if self.as_text else request.body
        return found


def encoded(answer: object) -> tuple[Body, dict[str, str]]:
    """The body of a reply, and its headers.  Raises PydanticSerializationError: the answer has no form in JSON."""
    if isinstance(answer, (bytes, bytearray, memoryview, str)):
        return answer, {}
    return to_json(answer), JSON


def arguments_of(call: Callable[..., object], fields: Sequence[str]) -> Arguments:
    """The arguments of a function whose destination has these fields.

    Raises ValueError: it cannot be called with a request; `str()` is the end of a sentence about it.
    """
    parameters, annotations = inspect.signature(call).parameters, _annotations(call)
    bodies = _unfilled(parameters, fields)
    if len(bodies) > 1:
        every = " and ".join(bodies)
        raise ValueError(f"only one argument can be the body, and {every} have neither field nor default")
    body = "".join(bodies)
    wanted = annotations.get(body, inspect.Parameter.empty)
    if body and wanted is inspect.Parameter.empty:
        raise ValueError(f"{body} is no field of the destination; annotate it with the type of the body to be it")
    answer = annotations.get("return")
    is_plain = answer in (None, type(None), bytes, str, bytes | str, bytes | None, str | None, bytes | str | None)
    return Arguments(
        fields={name: _adapter(name, annotations[name]) for name in fields if not _is_text(annotations.get(name))},
        body=body,
        body_type=None if not body or wanted in (str, bytes) else _adapter(body, wanted),
        as_text=wanted is str,
        answer_type=None if is_plain else _adapter("the answer", answer),
    )


def _unfilled(parameters: Any, fields: Sequence[str]) -> list[str]:
    """Arguments behind the request that are no fields, and have no default."""
    each = iter(parameters.values())
    first = next(each, None)
    rest = list(each) if first is not None and first.kind in _POSITIONAL else list(parameters.values())
    return [
        one.name
        for one in rest
        if one.kind in _NAMED and one.name not in fields and one.default is inspect.Parameter.empty
    ]


def _annotations(call: Callable[..., object]) -> dict[str, Any]:
    """The annotations by name, those that can be evaluated: a module may import some for its type checker alone."""
    target = call if inspect.isroutine(call) or hasattr(call, "func") else type(call).__call__
    function = inspect.unwrap(getattr(target, "func", target))  # `functools.partial` has `func`
    scope = getattr(function, "__globals__", {})
    found: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        if not isinstance(annotation, str):
            found[name] = annotation
            continue
        try:
            found[name] = eval(annotation, scope)  # as `typing.get_type_hints` does, but one by one
        except Exception as error:  # noqa: BLE001 - whatever the operator's own code raises
            found[name] = _Unknown(annotation, error)
    return found


@dataclass(frozen=True, slots=True)
class _Unknown:
    """An annotation that cannot be evaluated."""

    text: str
    error: Exception


def _is_text(annotation: object) -> bool:
    return annotation is None or annotation in _AS_TEXT or isinstance(annotation, _Unknown)


def _adapter(name: str, annotation: Any) -> TypeAdapter[Any]:
    if isinstance(annotation, _Unknown):
        what = f"the type of {name}, {annotation.text}"
        raise ValueError(f"{what}, is not known where the function stands: {annotation.error}")
    try:
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        raise ValueError(f"the type of {name} cannot be checked: {error.message.partition('.')[0]}") from None


def _said(error: ValidationError) -> str:
    """The first errors, each with its place; nothing of the value itself."""
    every = error.errors(include_url=False, include_input=False, include_context=False)
    more = f"; and {len(every) - _SAID} more" if len(every) > _SAID else ""
    return "; ".join(_one(each) for each in every[:_SAID]) + more


def _one(error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else error["msg"]
