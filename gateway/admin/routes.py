"""Routes: each request is let in, parsed, carried out and written to the audit log.

    access          may the client use the API; 401, 403, 429
    parse_query     and `parse_body`; 400, 408, 413, 415
    call            the endpoint's own method
    audit           a line for each change, and for each change that was refused or failed

Query and body are read through the models of their endpoint before anything is done.  A parameter is given at most
once, and an unknown one is refused, because it is a typing error.  A body is JSON of at most 1 MiB with the
content-type of JSON: a form of another site cannot send that without asking first.

The sentence of an error names the parameter or field, and repeats no value, because a value may be a passcode in the
wrong place.  A name may be one, too; so the log is told of neither.

There is one route for each path, so that a wrong method is answered 405, and not left to the static files.
"""

from collections.abc import Iterable
from contextlib import aclosing
from typing import TypeVar

import trio
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.admin import audit
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import BASE, EVENT_STREAM, ApiError, Endpoint


def routes_of(endpoints: Iterable[Endpoint], access: AccessControl) -> list[Route]:
    """A route for each path of the table, in its order."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method] = each
    return [Route(path, _Methods(methods, access)) for path, methods in paths.items()]


class _Methods:
    def __init__(self, methods: dict[str, Endpoint], access: AccessControl) -> None:
        self._methods = methods
        self._access = access
        get = methods.get("GET")
        if get is not None and get.media_type != EVENT_STREAM:  # the headers of a stream come with its events only
            methods.setdefault("HEAD", get)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        endpoint = self._methods.get(request.method)
        if endpoint is None:
            raise ApiError(405, "method not allowed", {"allow": ", ".join(sorted(self._methods))})
        response = await self._answer(request, endpoint)
        await response(scope, receive, send)

    async def _answer(self, request: Request, endpoint: Endpoint) -> Response:
        request.state.is_read = False
        entry = audit.AuditEntry(request, endpoint.action, self._access.address_of, self._access.refusals)
        try:
            response = await self._call(request, endpoint, entry)
        except ApiError as reason:
            entry.write(audit.REFUSED, reason.logged)
            if endpoint.body is not None and not request.state.is_read and request.scope["http_version"] < "2":
                # The client would send its next request behind the rest of this body, so the connection must end.
                reason.headers["connection"] = "close"
            raise
        except ClientDisconnect:
            entry.write(audit.REFUSED, "the body has no end")
            raise
        except trio.Cancelled:
            entry.write(audit.FAILED, "the gateway stopped meanwhile")
            raise
        except BaseException:
            entry.write(audit.FAILED)
            raise
        entry.write(audit.DONE)
        return response

    async def _call(self, request: Request, endpoint: Endpoint, entry: audit.AuditEntry) -> Response:
        found: dict[str, object] = {"request": request, "audit": entry}
        if endpoint.guarded:
            caller = found["caller"] = await self._access.admit(request, scraper=endpoint.scrapers)
            entry.let_in(caller.user, caller.via)
        if endpoint.path.startswith(BASE) or "query" in endpoint.arguments:
            found["query"] = parse_query(request, endpoint.query)
        if endpoint.body is not None:
            found["body"] = await parse_body(request, endpoint.body)
        return await endpoint.call(**{name: found[name] for name in endpoint.arguments})


MAX_BODY = 1024 * 1024  # bytes of a body. A message to publish is in it as text, so it may have nearly as much.

PATIENCE = 30.0
"""Seconds for a body to come: the HTTP server has no such limit, and each that does not come keeps a descriptor."""

# Of a content-length; `int` would parse a megabyte of digits otherwise.
_MAX_DIGITS = 15

Model = TypeVar("Model", bound=BaseModel)


def parse_query(request: Request, model: type[Model]) -> Model:
    """The parameters of the query.  Raises ApiError: 400, one is unknown, missing, given twice, or wrong."""
    given = request.query_params.multi_items()
    names, known = [name for name, _ in given], list(model.model_fields)
    for name in names:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ApiError(400, f"this has no parameter {name[:40]!r}; {has}", logged="an unknown parameter")
        if names.count(name) > 1:
            raise ApiError(400, f"{name} is given more than once")
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            raise ApiError(400, f"{name} is missing: {model.model_fields[name].description}") from None
        raise ApiError(400, f"{name} {_said(first['msg'])}") from None


async def parse_body(request: Request, model: type[Model]) -> Model:
    """The body, as the model has it; raises ApiError: 415, 413, 408 where it does not come, 400 where it does not
    fit."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ApiError(415, f"the body must be application/json, not {media_type[:80] or 'without a content-type'}")
    data = await body_of(request, MAX_BODY)
    try:
        return model.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise ApiError(400, f"body: {sentence_of(error)}", logged="the body does not fit its model") from None


async def body_of(request: Request, most: int) -> bytes:
    """The body, of at most so many bytes.  Raises ApiError: 413 if it is larger, 408 if it does not come."""
    data = None
    with trio.move_on_after(PATIENCE):
        data = await _read(request, most)
    if data is None:
        raise ApiError(408, f"the body did not come within {PATIENCE:g} s")
    return data


async def _read(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > _MAX_DIGITS or int(length) > most):
        raise _too_large(most)
    data = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > most:
                raise _too_large(most)
    request.state.is_read = True
    return bytes(data)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body is larger than {most} bytes")


def sentence_of(error: ValidationError) -> str:
    """The first error: the field, and what is wrong with it."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part)[:40] for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no field {field!r}"
    if first["type"] == "missing":
        return f"the field {field!r} is missing"
    said = _said(first["msg"])
    said = said[:1].lower() + said[1:]
    return f"the field {field!r}: {said}" if field else said


def _said(message: str) -> str:
    """The words of a ValueError, without those that pydantic puts before them."""
    return message.removeprefix("Value error, ")
