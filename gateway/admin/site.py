"""The Starlette application: the table of endpoints, the static files, and what holds for every answer.

Static files lie in `static/` of a checkout and in `gateway/static` of an installed wheel.  They are sent with
`no-cache`, so that a page is asked for again after an upgrade and answered by 304 when it is still the same.

The content security policy lets pages run only scripts of our own and connect to the WebSocket, wherever it
is: its port is not the page's.  Headers are set by a plain ASGI wrapper, for every answer alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

import gateway
from gateway.admin.access import Guard
from gateway.admin.api import Api
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import Refused, error
from gateway.admin.kept import Kept
from gateway.admin.lists import Lists
from gateway.admin.login import Login
from gateway.admin.openapi import Reference
from gateway.admin.overview import Overview
from gateway.admin.publish import Publisher
from gateway.admin.queues import Queues
from gateway.admin.serving import routes_of
from gateway.admin.tap import TapRoom
from gateway.admin.tickets import TicketOffice

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.auth.tickets import Tickets
    from gateway.config.settings import Settings
    from gateway.observe.sampler import Sampler
    from gateway.runtime.gateway import Gateway

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def build(
    open_gateway: Gateway,
    settings: Settings,
    *,
    tickets: Tickets | None = None,
    static: Path | None = None,
    sampler: Sampler | None = None,
) -> ASGIApp:
    """The HTTP application over an open gateway.

    Args:
        open_gateway: the gateway that the routes read.
        settings: its settings.
        tickets: of its authenticator; None: nobody has to log in.
        static: folder of static files instead of the one that was installed.
        sampler: whose samples the overview tells; None: there are none.
    """
    guard = Guard(open_gateway, settings)
    open_gateway.in_force.on_change.append(guard.take)
    open_gateway.reloadables.append(guard.visits)  # behind the users
    table = endpoints(open_gateway, settings, guard, tickets=tickets, sampler=sampler)
    routes: list[BaseRoute] = [*routes_of(table, guard)]
    folder = static or static_folder()
    if folder is not None:
        routes.append(Mount("/", StaticFiles(directory=folder, html=True)))
    handlers = {Refused: _refused, HTTPException: _http_error, ClientDisconnect: _gone, Exception: _broken}
    # Around Starlette, not among its middleware: the answer to a fault of ours leaves that behind.
    return _Headers(Starlette(routes=routes, exception_handlers=handlers))


def endpoints(
    open_gateway: Gateway,
    settings: Settings,
    guard: Guard,
    *,
    tickets: Tickets | None = None,
    sampler: Sampler | None = None,
) -> list[Endpoint]:
    """The table of all endpoints; see `build`."""
    table = [
        *Api(open_gateway, settings).endpoints(),
        *Overview(open_gateway, settings, sampler).endpoints(),
        *Lists(open_gateway).endpoints(),
        *TapRoom(open_gateway).endpoints(),
        *Queues(open_gateway).endpoints(),
        *Kept(open_gateway).endpoints(),
        *Publisher(open_gateway, settings).endpoints(),
        *Login(open_gateway, settings, guard).endpoints(),
        *TicketOffice(open_gateway, settings, tickets, guard.strangers).endpoints(),
    ]
    table += Reference(table).endpoints()
    return table


def static_folder() -> Path | None:
    """Where the static files are, or None when they were not installed."""
    package = Path(gateway.__file__).parent
    return next((folder for folder in (package / "static", package.parent / "static") if folder.is_dir()), None)


class _Headers:
    """Puts HEADERS on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


async def _refused(request: Request, reason: Exception) -> Response:
    assert isinstance(reason, Refused)
    return error(reason.status, str(reason), reason.headers)


async def _gone(request: Request, reason: Exception) -> Response:
    """The client has gone while its body came; nobody reads this."""
    return error(400, "the body has no end")


async def _http_error(request: Request, reason: Exception) -> Response:
    """404 and 405 of the router and of the static files."""
    assert isinstance(reason, HTTPException)
    return error(reason.status_code, reason.detail.lower(), reason.headers)


async def _broken(request: Request, reason: Exception) -> Response:
    """A fault of ours.  Starlette raises it again after the answer, so the server logs it."""
    return error(500, "the gateway failed to answer; its log says why")
