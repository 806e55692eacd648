"""The gateway itself: health, readiness, metrics, settings, the drain, and the snapshots of the jobs.

Endpoints are `async` though few of them wait: Starlette would run others in worker threads, and the broker is for its
own thread only.  Files are read in such a thread.

The jobs of `gateway pipeline run` write their snapshots for the console to TABLES/_console/<job>.json, and rename them
into place: a file there is whole.  They are passed on as they are.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Literal

import trio
from prometheus_client.metrics_core import Metric
from pydantic import Field, JsonValue
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.access import came_through_proxy
from gateway.admin.audit import AuditEntry
from gateway.admin.cluster import drain_node, figures_of
from gateway.admin.edges import rows_of
from gateway.admin.endpoint import JSON, Api, ApiError, ApiModel, Endpoint
from gateway.admin.monitor import folders_of
from gateway.config import reference
from gateway.config.schemas import JsonSchema
from gateway.config.settings import Address, Settings
from gateway.handlers import Handlers, asyncapi
from gateway.observe.destination_metrics import DestinationMetrics
from gateway.observe.metrics import (
    ACK,
    QUEUE,
    TURN,
    Disks,
    Metrics,
    of_cluster,
    of_edges,
    of_health,
    of_overload,
    of_spans,
    of_timings,
)
from gateway.runtime.gateway import Gateway

_AFTER_A_DRAIN = "restart the process when the log says drained: there is no other way back"

# Bytes of a snapshot at most; the jobs make none that is larger than 2 MiB.
_MAX_SNAPSHOT = 4 * 1024 * 1024
_SNAPSHOTS = "_console"


class SettingRow(ApiModel):
    """A setting."""

    name: str
    group: str = Field(description="section of the reference")
    value: JsonValue = Field(description="in force; secrets are hidden")
    source: str = Field(description="default, file, or the name of the variable")
    default: JsonValue
    description: str


class PolicyRow(ApiModel):
    """A `[[policy]]` table."""

    match: list[str]
    values: dict[str, JsonValue]


class SettingsAnswer(ApiModel):
    """All settings, policies and rules."""

    settings: list[SettingRow]
    policies: list[PolicyRow]
    rules: list[dict[str, JsonValue]]


class DrainQuery(ApiModel):
    """How the gateway is drained."""

    force: bool = Field(False, description="drain the primary of a cluster, even if no standby can take over")


class Draining(ApiModel):
    """The drain has begun."""

    draining: Literal[True]
    sessions: int = Field(description="sessions that end")
    next: str = Field(description="what to do then")


class Jobs(ApiModel):
    """The jobs of `gateway pipeline run` that left a snapshot."""

    configured: bool = Field(description="the setting `tables` says where")
    jobs: dict[str, float] = Field(description="name -> date of the snapshot, in seconds since the epoch")


class Alive(ApiModel):
    """The process lives."""

    status: Literal["alive"]


class Ready(ApiModel):
    """The gateway takes clients. Parts of it that fail have a field with the reason."""

    status: Literal["ready"]
    journal: str | None = None
    certificate: str | None = None
    tracing: str | None = None
    node: str | None = Field(None, description="in a cluster: its name")


class Config(ApiModel):
    """Where a page finds the WebSocket."""

    websocket_path: str
    websocket_port: int | None = Field(description="null: the page's own")
    websocket_tls: bool = False


class GatewayApi(Api):
    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings
        self._metrics = metrics_of(gateway, settings)

    @Endpoint("GET", "/healthz", "gateway", Alive, guarded=False)
    async def health(self) -> Response:
        """The process lives, and its event loop runs."""
        return JSONResponse({"status": "alive"})

    @Endpoint("GET", "/readyz", "gateway", Ready, errors=(503,), guarded=False)
    async def ready(self) -> Response:
        """The gateway takes clients; or the reason why it does not."""
        reason, node = self._gateway.not_ready(), self._gateway.node
        # Behind a balancer, and where two nodes tell one URL, a reader must know which one answers.
        name = {} if node is None else {"node": node.options.name}
        if reason is None:
            return JSONResponse({"status": "ready", **self._gateway.complaints(), **name})
        return JSONResponse({"status": "not ready", "error": reason, **name}, 503)

    @Endpoint("GET", "/config.json", "gateway", Config, guarded=False)
    async def config(self, request: Request) -> Response:
        """Where a page finds the WebSocket."""
        answer: dict[str, object] = {"websocket_path": self._settings.websocket_path, "websocket_port": None}
        # Behind a proxy only the proxy knows the port: null then, for the page's own.
        if not came_through_proxy(request):
            # A page that came by TLS may use TLS only; another page uses it where there is no other way.
            if request.url.scheme != "https":
                answer["websocket_port"] = self._port("websocket")
            if answer["websocket_port"] is None and (port := self._port("websocket_tls")) is not None:
                answer |= {"websocket_port": port, "websocket_tls": True}
        return JSONResponse(answer)

    def _port(self, kind: str) -> int | None:
        found = (Address.parse(text) for text in self._gateway.addresses.get(kind, ()))
        return next((address.port for address in found if address.port), None)

    @Endpoint("GET", "/metrics", "gateway", media_type="text/plain", scrapers=True)
    async def metrics(self, request: Request) -> Response:
        """All metrics, as Prometheus or OpenMetrics text."""
        content, media_type = await self._metrics.scrape(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": media_type})

    @Endpoint("GET", "/asyncapi.json", "gateway", media_type=JSON)
    async def asyncapi(self, request: Request) -> Response:
        """What clients may send and hear, as AsyncAPI 3.0: functions, and policies with a schema."""
        servers = {}
        for kind, protocol in (("tcp", "stomp"), ("tcp_tls", "stomps"), ("websocket", "ws"), ("websocket_tls", "wss")):
            if (port := self._port(kind)) is not None:
                servers[kind] = {"host": f"{request.url.hostname}:{port}", "protocol": protocol}
                if kind.startswith("websocket"):
                    servers[kind]["pathname"] = self._settings.websocket_path
        tables = [(table.match, table.values.get("schema")) for table in self._gateway.in_force.now.policy]
        schemas = [
            asyncapi.DestinationSchema(match, schema.documents)
            for match, schema in tables
            if isinstance(schema, JsonSchema)
        ]
        handlers = self._gateway.broker.context.application
        functions = handlers.functions() if isinstance(handlers, Handlers) else ()
        return JSONResponse(asyncapi.document(functions, schemas, servers))

    @Endpoint("GET", "/api/v1/settings", "gateway", SettingsAnswer)
    async def settings(self) -> Response:
        """All settings, policies and rules in force, and where each value comes from; secrets are hidden."""
        now = self._gateway.in_force.now
        return JSONResponse(
            {
                "settings": list(reference.rows(now)),
                "policies": [{"match": list(each.match), "values": _plain(each.values)} for each in now.policy],
                "rules": [_plain(each.values) for each in now.rule],
            }
        )

    @Endpoint("POST", "/api/v1/drain", "gateway", Draining, accepts=True, errors=(409,), action="drain")
    async def drain(self, query: DrainQuery, audit: AuditEntry) -> Response:
        """End all sessions and take no new ones, as at a shutdown; HTTP goes on, and /readyz says 503. Only a restart
        ends the drain. The primary of a cluster hands over, and a drained node takes over no more."""
        sessions = len(self._gateway.broker.sessions)
        audit.facts(sessions=sessions)
        # The answer does not wait for the ends of the sessions.
        if self._gateway.node is None:
            self._gateway.begin_drain()
            then = _AFTER_A_DRAIN
        else:
            then = drain_node(self._gateway.node, force=query.force)
        return JSONResponse({"draining": True, "sessions": sessions, "next": then}, 202)

    @Endpoint("GET", "/api/v1/pipeline", "pipeline", Jobs)
    async def jobs(self) -> Response:
        """The jobs of `gateway pipeline run` that left a snapshot."""
        dates = await trio.to_thread.run_sync(snapshot_dates, self._settings.tables)
        return JSONResponse({"configured": self._settings.tables is not None, "jobs": dates})

    @Endpoint("GET", "/api/v1/pipeline/{job}", "pipeline", media_type=JSON, errors=(404,), example={"job": "metrics"})
    async def job(self, request: Request) -> Response:
        """The last snapshot of a job, as the job left it."""
        name = request.path_params["job"]
        content = await trio.to_thread.run_sync(read_snapshot, self._settings.tables, name)
        if content is None:
            is_set = self._settings.tables is not None
            raise ApiError(404, "there is no such snapshot" if is_set else "the setting tables is not set")
        return Response(content, media_type=JSON)


def snapshot_dates(tables: Path | None) -> dict[str, float]:
    """Name of the job -> when its snapshot was made, in seconds since the epoch."""
    if tables is None:
        return {}
    try:
        found = sorted((tables / _SNAPSHOTS).glob("[!._]*.json"))
        return {path.stem: path.stat().st_mtime for path in found}
    except OSError:  # one of them has just gone
        return {}


def read_snapshot(tables: Path | None, job: str) -> bytes | None:
    """A snapshot as it is in its file; None: there is none."""
    # A job is a word: other names may be paths to other folders.
    if tables is None or not re.fullmatch(r"[a-z][a-z0-9-]{0,63}", job):
        return None
    try:
        with (tables / _SNAPSHOTS / f"{job}.json").open("rb") as file:
            content = file.read(_MAX_SNAPSHOT + 1)
    except OSError:
        return None
    return content if len(content) <= _MAX_SNAPSHOT else None


def metrics_of(gateway: Gateway, settings: Settings) -> Metrics:
    """All metrics of a gateway: everything in `gateway.observe`."""
    broker, certificates, functions = gateway.broker, gateway.certificates, gateway.functions
    dead_letters = {policy.values.get("dead_letter") for policy in settings.policy}
    destinations = DestinationMetrics(broker, set(filter(None, dead_letters)), settings.metrics_destinations)

    def others() -> Iterator[Metric]:
        yield from of_overload(
            broker, gateway.blocked_publishers, gateway.connection_limits, gateway.memory_guard, gateway.fair_gates
        )
        yield from of_health(
            gateway.not_ready(),
            gateway.complaints(),
            None if certificates is None else certificates.ends,
            None if functions is None else functions.failures,
        )
        yield from destinations.metrics()
        records = broker.records
        yield from of_timings(
            (TURN, gateway.turns),
            (QUEUE, records.waited if records.is_on else None),
            (ACK, records.took if records.is_on else None),
        )
        if gateway.tracing is not None:
            yield from of_spans(gateway.tracing)
        if rows := rows_of(gateway):
            yield from of_edges(rows)
        if gateway.node is not None:
            yield from of_cluster(**figures_of(gateway.node))

    disks = Disks(folders_of(settings))
    return Metrics(broker, gateway.blocked_publishers, gateway.committer, gateway.journal, others, disks)


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {name: _said(value) for name, value in values.items()}


def _said(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, JsonSchema) else value
