"""What a request asks, read and checked against its endpoint before anything is done.

    query   the parameters that the endpoint has, each of its type; another name is refused, for it is a slip
    body    JSON of at most 1 MiB that fits the endpoint's model, and says that it is JSON: no form of another site's
            page can send that without asking first

The sentence of an error names the parameter or field, and repeats no value: one may be a passcode in the wrong place.
A name may be that, too; so the log is not told of any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from typing import TypeVar

import trio
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gateway.admin.endpoint import Parameter
from gateway.admin.errors import BadQuery, Refused

MOST_OCTETS = 1024 * 1024
"""Of a body.  A message that is to be published is in it as text, so it may have as much, nearly."""

PATIENCE = 30.0
"""Seconds for a body to come: the HTTP server has no such limit, and each that does not come keeps a descriptor."""

Value = str | float | bool | None
Model = TypeVar("Model", bound=BaseModel)

_SWITCHES = {"true": True, "false": False}
# Of a number; int() would parse a megabyte of digits otherwise.
_MOST_DIGITS = 15


def query_of(request: Request, parameters: tuple[Parameter, ...]) -> dict[str, Value]:
    """Every parameter with its value.

    Raises:
        BadQuery: one is unknown, missing, given twice, or wrong.
    """
    known = [each.name for each in parameters]
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadQuery(f"this has no parameter {name[:40]!r}; {has}", logged="an unknown parameter")
        if given.count(name) > 1:
            raise BadQuery(f"{name} is given more than once")
    return {each.name: _value(each, request.query_params.get(each.name)) for each in parameters}


def _value(parameter: Parameter, text: str | None) -> Value:
    name = parameter.name
    if text is None:
        if parameter.required:
            raise BadQuery(f"{name} is missing: {parameter.description}")
        return parameter.default
    if parameter.type == "integer":
        return _number(parameter, text)
    if parameter.type == "number":
        return _real(parameter, text)
    if parameter.type == "boolean":
        if text not in _SWITCHES:
            raise BadQuery(f"{name} must be true or false")
        return _SWITCHES[text]
    if parameter.enum and text not in parameter.enum:
        raise BadQuery(f"{name} must be one of {', '.join(parameter.enum)}")
    return text


def _number(parameter: Parameter, text: str) -> int:
    least, most = parameter.least or 0, parameter.most or 10**12
    # `isascii`: int() would take other scripts' digits, too.
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and least <= int(text) <= most):
        raise BadQuery(f"{parameter.name} must be a number from {least} to {most}")
    return int(text)


def _real(parameter: Parameter, text: str) -> float:
    least, most = parameter.least or 0, parameter.most or 10**12
    # The form is JSON's without exponent: float() would take "nan", too.
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text) and least <= float(text) <= most:
        return float(text)
    raise BadQuery(f"{parameter.name} must be a number from {least} to {most}, like 12.5")


async def body_of(request: Request, model: type[Model]) -> Model:
    """The body, as the model has it.

    Raises:
        Refused: 415, it does not say that it is JSON; 413, it is too large; 408, it does not come; 400, it does not
            fit.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused(415, f"the body must be application/json, not {media_type[:80] or 'without a content-type'}")
    octets = None
    with trio.move_on_after(PATIENCE):
        octets = await _read(request)
    if octets is None:
        raise Refused(408, f"the body did not come within {PATIENCE:g} s")
    try:
        return model.model_validate_json(octets, strict=True)
    except ValidationError as error:
        raise Refused(400, f"body: {_sentence(error)}", logged="the body is not what is asked for") from None


async def _read(request: Request) -> bytes:
    """All octets of a body."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > _MOST_DIGITS or int(length) > MOST_OCTETS):
        raise _too_large()
    octets = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            octets += chunk
            if len(octets) > MOST_OCTETS:
                raise _too_large()
    request.state.is_read = True
    return bytes(octets)


def _too_large() -> Refused:
    return Refused(413, f"the body is larger than {MOST_OCTETS} octets")


def _sentence(error: ValidationError) -> str:
    """The first fault: the field, and what is wrong with it."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part)[:40] for part in first["loc"])
    kind, said = first["type"], first["msg"].removeprefix("Value error, ")
    said = said[:1].lower() + said[1:]
    if kind == "extra_forbidden":
        return f"there is no field {field!r}"
    if kind == "missing":
        return f"the field {field!r} is missing"
    return f"the field {field!r}: {said}" if field else said


def keep(request: Request, query: Mapping[str, Value], body: BaseModel | None) -> None:
    """Put what was read where `number`, `text` and `body` find it."""
    request.state.query, request.state.body = query, body


def number(request: Request, name: str) -> int:
    """A parameter of the query that is an integer and has a default."""
    value = request.state.query[name]
    assert isinstance(value, int)  # `query_of` has seen to that
    return value


def real(request: Request, name: str) -> float:
    """A parameter of the query that is a number and has a default."""
    value = request.state.query[name]
    assert isinstance(value, (float, int))
    return value


def text(request: Request, name: str) -> str:
    """A parameter of the query that is a string; empty: it is not given."""
    value = request.state.query[name]
    assert value is None or isinstance(value, str)
    return value or ""


def body(request: Request, model: type[Model]) -> Model:
    """The body."""
    found = request.state.body
    assert isinstance(found, model)
    return found
