"""Starlette application: the routes of the table of endpoints, the static files, and the headers of every answer.

Static files lie in `static/` of a checkout and in `gateway/static` of an installed wheel.  They are sent with
`no-cache`, so that browsers ask for a page again after an upgrade.  `/client.js` is the page helper, whose folder
`client/` is a package of npm.  The content security policy lets pages run only our own scripts and connect to any
WebSocket: its port is not the page's.
"""

import os
from pathlib import Path

import trio
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import gateway
from gateway.admin.access import AccessControl
from gateway.admin.applications.event_source import EventApi
from gateway.admin.applications.publish import PublishApi
from gateway.admin.applications.requests import ClientRequests
from gateway.admin.backup import BackupApi
from gateway.admin.cluster import ClusterApi
from gateway.admin.destinations import DestinationsApi
from gateway.admin.edges import EdgesApi
from gateway.admin.endpoint import ApiError, Endpoint, error_response
from gateway.admin.gateway_api import GatewayApi
from gateway.admin.login import LoginApi, TicketApi
from gateway.admin.messages import MessagesApi
from gateway.admin.monitor import Monitor
from gateway.admin.openapi import OpenApi
from gateway.admin.overview import OverviewApi
from gateway.admin.routes import routes_of
from gateway.admin.sessions import SessionsApi
from gateway.admin.stored import StoredApi
from gateway.admin.streams.trace_stream import TraceApi
from gateway.auth.tickets import Tickets
from gateway.config.settings import Settings
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
    monitor: Monitor | None = None,
) -> ASGIApp:
    """The HTTP application over an open gateway; `static` is a folder instead of the one that was installed."""
    access = AccessControl(open_gateway, settings)
    open_gateway.in_force.on_change.append(access.take)
    open_gateway.reloadables.append(access.sessions)  # after the users, which it asks
    table = endpoints(open_gateway, settings, access, tickets=tickets, monitor=monitor)
    routes: list[BaseRoute] = [*routes_of(table, access)]
    folder = static or static_folder()
    if folder is not None:
        routes.append(Mount("/", _Pages(directory=folder, html=True)))
    handlers = {ApiError: api_error, HTTPException: _http_error, ClientDisconnect: _disconnected, Exception: _failed}
    # Around Starlette, not among its middleware: the answer to an error of ours does not pass through that.
    return _Headers(Starlette(routes=routes, exception_handlers=handlers))


def endpoints(
    open_gateway: Gateway,
    settings: Settings,
    access: AccessControl,
    *,
    tickets: Tickets | None = None,
    monitor: Monitor | None = None,
) -> list[Endpoint]:
    one_list_at_a_time = trio.Lock()
    monitor = monitor or Monitor(open_gateway, settings)
    requests = ClientRequests(open_gateway, settings, access)
    table = [
        *GatewayApi(open_gateway, settings).endpoints(),
        *OverviewApi(open_gateway, settings, monitor).endpoints(),
        *SessionsApi(open_gateway, one_list_at_a_time).endpoints(),
        *DestinationsApi(open_gateway, one_list_at_a_time, monitor.watch).endpoints(),
        *TraceApi(open_gateway).endpoints(),
        *MessagesApi(open_gateway, settings).endpoints(),
        *StoredApi(open_gateway).endpoints(),
        *BackupApi(open_gateway).endpoints(),
        *ClusterApi(open_gateway).endpoints(),
        *EdgesApi(open_gateway).endpoints(),
        *LoginApi(settings, access).endpoints(),
        *TicketApi(open_gateway, settings, tickets, access).endpoints(),
        *PublishApi(open_gateway, settings, requests).endpoints(),
        *EventApi(requests).endpoints(),
    ]
    table += OpenApi(table).endpoints()
    return table


def static_folder() -> Path | None:
    """The folder of the static files; None: they are not installed."""
    package = Path(gateway.__file__).parent
    return next((folder for folder in (package / "static", package.parent / "static") if folder.is_dir()), None)


class _Pages(StaticFiles):
    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return super().lookup_path("client/index.js" if path == "client.js" else path)


class _Headers:
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


async def api_error(request: Request, reason: Exception) -> Response:
    assert isinstance(reason, ApiError)
    return reason.response


async def _disconnected(request: Request, reason: Exception) -> Response:
    """The client left while it sent the body, so the answer is not read."""
    return error_response(400, "the body has no end")


async def _http_error(request: Request, reason: Exception) -> Response:
    """404 and 405 of the router and of the static files."""
    assert isinstance(reason, HTTPException)
    return error_response(reason.status_code, reason.detail.lower(), reason.headers)


async def _failed(request: Request, reason: Exception) -> Response:
    """An error of ours.  Starlette raises it again after the answer, so the server logs it."""
    return error_response(500, "the gateway failed to answer; its log says why")
