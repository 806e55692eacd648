"""What the gateway says of itself: health, readiness, metrics, settings, the jobs' snapshots; and the drain.

    GET  /healthz                200 while the process lives
    GET  /readyz                 200, or 503 and the reason
    GET  /config.json            what a page must know to connect
    GET  /metrics                Prometheus or OpenMetrics text        (guarded; `metrics_token` will do)
    GET  /api/v1/settings        what is in force, secrets hidden      (guarded, as all below)
    POST /api/v1/drain           ends all sessions; HTTP goes on
    GET  /api/v1/pipeline        what the jobs say: names and dates
    GET  /api/v1/pipeline/{job}  the last snapshot of one

Answers are JSON; an error is `{"error": "one sentence"}`.  Endpoints are `async` though few of them wait: Starlette
would run others in worker threads, and the broker is for its own thread only.  Files are read in such a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import access, models, snapshots
from gateway.admin.audit import entry_of
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import Refused
from gateway.admin.scrape import metrics_of
from gateway.config import reference
from gateway.config.settings import Address

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway

_AFTER_A_DRAIN = "restart the process when the log says drained: there is no other way back"


class Api:
    """The endpoints, over one open gateway."""

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings
        self._metrics = metrics_of(gateway, settings)

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table."""
        return [*self._for_everybody(), *self._of_the_gateway(), *self._of_jobs()]

    def _for_everybody(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/healthz",
                self.health,
                "The process lives and its loop turns.",
                "gateway",
                models.Alive,
                guarded=False,
            ),
            Endpoint(
                "GET",
                "/readyz",
                self.ready,
                "Clients may be sent here, or the reason why not.",
                "gateway",
                models.Ready,
                errors=(503,),
                guarded=False,
            ),
            Endpoint(
                "GET",
                "/config.json",
                self.config,
                "Where a page finds the WebSocket.",
                "gateway",
                models.Config,
                guarded=False,
            ),
        ]

    def _of_the_gateway(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/metrics",
                self.metrics,
                "All metrics, for Prometheus and its relatives.",
                "gateway",
                None,
                media_type="text/plain",
                scrapers=True,
            ),
            Endpoint(
                "GET",
                "/api/v1/settings",
                self.settings,
                "All settings, policies and rules in force, and where each value comes from; secrets are hidden.",
                "gateway",
                models.SettingsAnswer,
            ),
            Endpoint(
                "POST",
                "/api/v1/drain",
                self.drain,
                "End all sessions and let nobody in, as at a shutdown; HTTP goes on, and /readyz says 503. There is no "
                "way back but a restart.",
                "gateway",
                models.Draining,
                status=202,
                action="drain",
            ),
        ]

    def _of_jobs(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/api/v1/pipeline",
                self.jobs,
                "The jobs of `gateway pipeline run` that left a snapshot.",
                "pipeline",
                models.Jobs,
            ),
            Endpoint(
                "GET",
                "/api/v1/pipeline/{job}",
                self.job,
                "The last snapshot of a job, as the job left it.",
                "pipeline",
                None,
                errors=(404,),
                example={"job": "metrics"},
            ),
        ]

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
        return next((address.port for address in found if address.port), None)

    async def metrics(self, request: Request) -> Response:
        """All metrics, in the form that the scraper accepts."""
        content, media_type = await self._metrics.scrape(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    async def settings(self, request: Request) -> Response:
        """What is in force."""
        now = self._gateway.in_force.now
        return JSONResponse(
            {
                "settings": list(reference.rows(now)),
                "policies": [{"match": list(each.match), "values": _plain(each.values)} for each in now.policy],
                "rules": [_plain(each.values) for each in now.rule],
            }
        )

    async def drain(self, request: Request) -> Response:
        """End all sessions; the answer does not wait for them."""
        sessions = len(self._gateway.broker.sessions)
        entry_of(request).facts(sessions=sessions)
        self._gateway.begin_drain()
        return JSONResponse({"draining": True, "sessions": sessions, "next": _AFTER_A_DRAIN}, 202)

    async def jobs(self, request: Request) -> Response:
        """The jobs of `gateway pipeline run` that left a snapshot, and when each did, in seconds since the epoch."""
        dates = await trio.to_thread.run_sync(snapshots.dates, self._settings.tables)
        return JSONResponse({"jobs": dates})

    async def job(self, request: Request) -> Response:
        """The snapshot of one."""
        name = request.path_params["job"]
        content = await trio.to_thread.run_sync(snapshots.read, self._settings.tables, name)
        if content is None:
            raise Refused(
                404, "there is no such snapshot" if self._settings.tables else "the setting tables names none"
            )
        return Response(content, media_type="application/json")


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
