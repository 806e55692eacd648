"""Routes: health, readiness, metrics, the admin API.

    GET    /healthz                        200 while the process lives
    GET    /readyz                         200, or 503 and the reason
    GET    /config.json                    what the demo page must know to connect
    GET    /metrics                        Prometheus or OpenMetrics text        (guarded, see access.py)
    GET    /api/v1/sessions                ?limit=&offset=                       (guarded)
    DELETE /api/v1/sessions/{id}           ends a session: 204, or 404           (guarded)
    GET    /api/v1/destinations            ?limit=&offset=                       (guarded)
    GET    /api/v1/pipeline                what the jobs say: names and dates    (guarded)
    GET    /api/v1/pipeline/{job}          the last snapshot of one              (guarded)
    POST   /api/v1/tickets                 for whoever logs in, see tickets.py

Answers are JSON; an error is `{"error": "one sentence"}`.  Endpoints are `async` though few of them wait: Starlette
would run others in worker threads, and the broker is for its own thread only.  Files are read in such a thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.admin import access, snapshots
from gateway.observe.metrics import Metrics
from gateway.observe.overload import OverloadCollector
from gateway.settings import Address

if TYPE_CHECKING:
    from gateway.runtime import Gateway
    from gateway.settings import Settings

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000
"""Rows of one answer: some 300 octets each, built while routing waits."""

Endpoint = Callable[[Request], Awaitable[Response]]
Rows = Callable[[int, int], list[dict[str, object]]]


class BadQuery(Exception):
    """A query parameter is wrong; `str()` is one sentence that names it."""


class Api:
    """The endpoints, over one open gateway."""

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings
        overload = OverloadCollector(gateway.broker, gateway.holds, gateway.admission, gateway.memory)
        self._metrics = Metrics(gateway.broker, gateway.holds, gateway.committer, gateway.journal, overload)

    def routes(self) -> list[Route]:
        """Every route of this module."""
        return [
            Route("/healthz", self.health),
            Route("/readyz", self.ready),
            Route("/config.json", self.config),
            Route("/metrics", self._guarded(self.metrics)),
            Route("/api/v1/sessions", self._guarded(self.sessions)),
            Route("/api/v1/sessions/{id}", self._guarded(self.end_session), methods=["DELETE"]),
            Route("/api/v1/destinations", self._guarded(self.destinations)),
            Route("/api/v1/pipeline", self._guarded(self.jobs)),
            Route("/api/v1/pipeline/{job}", self._guarded(self.job)),
        ]

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        async def guard(request: Request) -> Response:
            access.check(request, self._settings.admin_token)
            return await endpoint(request)

        return guard

    async def health(self, request: Request) -> Response:
        """The process lives and its loop turns."""
        return JSONResponse({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Clients may be sent here, or the reason why not."""
        reason = self._gateway.not_ready()
        if reason is None:
            return JSONResponse({"status": "ready", **self._gateway.complaints()})
        return JSONResponse({"status": "not ready", "error": reason}, 503)

    async def config(self, request: Request) -> Response:
        """Where the WebSocket is.  Behind a proxy only the proxy knows the port: null then, for the page's own.

        A page that came with TLS may dial with TLS only; another one does where there is nothing else.
        """
        answer: dict[str, object] = {"websocket_path": self._settings.websocket_path, "websocket_port": None}
        if not access.came_through_proxy(request):
            if request.url.scheme != "https":
                answer["websocket_port"] = self._port("websocket")
            if answer["websocket_port"] is None and (port := self._port("websocket_tls")) is not None:
                answer |= {"websocket_port": port, "websocket_tls": True}
        return JSONResponse(answer)

    def _port(self, kind: str) -> int | None:
        found = (Address.parse(text) for text in self._gateway.addresses.get(kind, ()))
        return next((address.port for address in found if not address.path), None)

    async def metrics(self, request: Request) -> Response:
        """All metrics, in the form that the scraper accepts."""
        content, media_type = self._metrics.render(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    async def sessions(self, request: Request) -> Response:
        """Connected clients."""
        return _page(request, "sessions", self._session_rows, len(self._gateway.broker.sessions))

    def _session_rows(self, offset: int, limit: int) -> list[dict[str, object]]:
        """The broker's rows, and for what each session is held as a publisher; None: it is not."""
        holds = self._gateway.holds.by_session()
        rows = self._gateway.broker.session_rows(offset, limit)
        for row in rows:
            hold = holds.get(str(row["id"]))
            row["held"] = None if hold is None else hold.row()
        return rows

    async def destinations(self, request: Request) -> Response:
        """Queues and topics that hold something or have subscribers."""
        broker = self._gateway.broker
        return _page(request, "destinations", broker.destination_rows, broker.directory.count())

    async def end_session(self, request: Request) -> Response:
        """End one session: its client is told by an ERROR frame."""
        ended = self._gateway.broker.end_session(request.path_params["id"], "An operator ended this session")
        if not ended:
            return error(404, "there is no such session")
        return Response(status_code=204)

    async def jobs(self, request: Request) -> Response:
        """The jobs of `gateway pipeline run` that left a snapshot, and when each did, in seconds since the epoch."""
        dates = await trio.to_thread.run_sync(snapshots.dates, self._settings.tables)
        return JSONResponse({"jobs": dates})

    async def job(self, request: Request) -> Response:
        """The snapshot of one."""
        name = request.path_params["job"]
        content = await trio.to_thread.run_sync(snapshots.read, self._settings.tables, name)
        if content is None:
            return error(404, "there is no such snapshot" if self._settings.tables else "the setting tables names none")
        return Response(content, media_type="application/json")


def error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as the API tells it."""
    return JSONResponse({"error": sentence}, status, headers)


def _page(request: Request, name: str, rows: Rows, total: int) -> Response:
    limit = _number(request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    offset = _number(request, "offset", 0, 0, 10**12)
    return JSONResponse({name: rows(offset, limit), "total": total, "limit": limit, "offset": offset})


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    # `isascii`: int() would take other scripts' digits too; the length keeps it from parsing a megabyte.
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
        raise BadQuery(f"{name} must be a number from {least} to {most}")
    return int(text)
