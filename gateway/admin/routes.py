"""Routes: each request is let in, parsed, carried out and written to the audit log.

    access          may the client use the API; 401, 403, 429
    parse_query     and `parse_body`; 400, 408, 413, 415
    call            the endpoint's own method
    audit           a line for each change, and for each change that was refused or failed

There is one route for each path, so that a wrong method is answered 405, and not left to the static files.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.admin import audit
from gateway.admin.access import AccessControl
from gateway.admin.endpoint import BASE, EVENT_STREAM, ApiError, Endpoint
from gateway.admin.request_parsing import parse_body, parse_query


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
        if endpoint.path.startswith(BASE):
            found["query"] = parse_query(request, endpoint.query)
        if endpoint.body is not None:
            found["body"] = await parse_body(request, endpoint.body)
        return await endpoint.call(**{name: found[name] for name in endpoint.arguments})
