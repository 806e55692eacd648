"""From the table of endpoints to routes: who asks, what is asked, the call, and the line of the audit log.

    guard   who asks; 401, 403, 429
    asked   query and body; 400, 408, 413, 415
    call    the endpoint's own
    audit   where it changes something, whatever became of it

There is one route for each path, so that a method that it does not have is 405, and not the static files' affair.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.admin import asked, audit
from gateway.admin.access import Guard
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import Refused

BASE = "/api/"
"""Below it, unknown parameters of a query are refused: they are slips.  Elsewhere scrapers and load balancers ask."""

STREAM = "text/event-stream"


def routes_of(endpoints: Iterable[Endpoint], guard: Guard) -> list[Route]:
    """A route for each path of the table, in its order."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method] = each
    return [Route(path, _Methods(methods, guard)) for path, methods in paths.items()]


class _Methods:
    """The endpoints of one path."""

    def __init__(self, methods: dict[str, Endpoint], guard: Guard) -> None:
        self._methods = methods
        self._guard = guard
        get = methods.get("GET")
        if get is not None and get.media_type != STREAM:  # a stream has no head that could be looked at alone
            methods.setdefault("HEAD", get)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive)
        endpoint = self._methods.get(request.method)
        if endpoint is None:
            raise Refused(405, "method not allowed", {"allow": ", ".join(sorted(self._methods))})
        response = await self._answer(request, endpoint)
        await response(scope, receive, send)

    async def _answer(self, request: Request, endpoint: Endpoint) -> Response:
        request.state.is_read = False
        entry = request.state.audit = audit.Entry(request, endpoint, self._guard)
        try:
            response = await self._call(request, endpoint, entry)
        except Refused as reason:
            entry.write(audit.REFUSED, reason.logged)
            if endpoint.body is not None and not request.state.is_read and request.scope["http_version"] < "2":
                # What is left of the body is in the way of another request; without this a client would send one.
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

    async def _call(self, request: Request, endpoint: Endpoint, entry: audit.Entry) -> Response:
        if endpoint.guarded:
            visitor = request.state.visitor = await self._guard.admit(request, scraper=endpoint.scrapers)
            entry.visitor(visitor)
        query = asked.query_of(request, endpoint.query) if endpoint.path.startswith(BASE) else {}
        body = None if endpoint.body is None else await asked.body_of(request, endpoint.body)
        asked.keep(request, query, body)
        return await endpoint.call(request)
