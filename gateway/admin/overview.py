"""Overview: the state of the gateway now, samples of the last seconds, what is wrong, and the last day.

Each open console asks for it once a second, so it must cost little: its cost does not grow with destinations or
messages, and of sessions only two numbers are added up.  A console that asks again says which samples it has already.
"""

import time
from collections import Counter
from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import JSONResponse, Response

from gateway import __version__
from gateway.admin.cluster import standby_of
from gateway.admin.edges import EdgeRow, rows_of
from gateway.admin.endpoint import Api, ApiModel, Endpoint, decimal, one_of
from gateway.admin.monitor import Monitor
from gateway.admin.problems import ProblemRow
from gateway.config.settings import Settings
from gateway.observe.history import RANGES
from gateway.observe.sampler import STEP, Percentiles, Second
from gateway.runtime.gateway import Gateway


class OverviewQuery(ApiModel):
    """Which samples."""

    since: Annotated[float, decimal()] = Field(
        0, description="only samples that are newer, in seconds since the epoch: the `at` of the last one known"
    )


class SessionsNow(ApiModel):
    """Connected clients."""

    total: int
    tcp: int
    websocket: int


class MessagesNow(ApiModel):
    """Messages that wait in queues, are delayed, are retained by topics, or are at consumers; and the bytes of all."""

    waiting: int
    delayed: int
    retained: int
    unacknowledged: int
    octets: int


class MemoryNow(ApiModel):
    """Bytes of the process, with its edges, and of messages, and their limits; `pressed`: publishers are blocked."""

    process: int
    mark: int | None
    messages: int
    messages_limit: int
    pressed: bool


class StoreNow(ApiModel):
    """Writes to the store; `failing` says why there are none."""

    failing: str | None
    pending_octets: int
    backlog: int
    commits: int
    commit_seconds: float


class JournalNow(ApiModel):
    """Rows written to the journal; `failing` says why there are none."""

    failing: str | None
    pending_octets: int
    rows: int
    dropped: int


class Quantiles(ApiModel):
    """Milliseconds within which half, 95 % and 99 % were done."""

    p50: float
    p95: float
    p99: float


class Latency(ApiModel):
    """Times of the last ten seconds; null: there were none, or they are not recorded.

    A turn lasts from the arrival of bytes of a client until all frames that they caused were handed to the sockets; a
    message waits in a queue from its SEND to its first delivery, and its ACK comes so long after that.
    """

    turn_ms: Quantiles | None
    queue_ms: Quantiles | None
    ack_ms: Quantiles | None


class StandbyNow(ApiModel):
    """This standby of a cluster, which has no messages and no clients; and its primary, null: there is none for now."""

    node: str
    primary: str | None
    address: str | None
    url: str | None = Field(description="of the primary's pages; null: not known")


class OverviewNow(ApiModel):
    """The gateway as it is, and its last seconds. `drained`: no client is connected, and all is written."""

    at: float
    version: str
    server_name: str
    started_at: float
    uptime: float
    ready: bool
    reason: str | None
    edges: list[EdgeRow] = Field(description="empty: this process has the sockets")
    drain: Literal["draining", "drained"] | None
    standby: StandbyNow | None = Field(description="null: this gateway is no standby")
    complaints: dict[str, str]
    counters: dict[str, int]
    sessions: SessionsNow
    connections: int
    subscriptions: int
    destinations: int
    messages: MessagesNow
    memory: MemoryNow
    held: int
    store: StoreNow | None
    journal: JournalNow | None
    limits: dict[str, int]
    latency: Latency
    losses: dict[str, int] = Field(
        description="way -> messages lost since the start; not by an operator, or with their queue"
    )
    losing: int = Field(description="destinations that lost a message within the last minute")
    problems: list[ProblemRow]
    step: float
    samples: list[Second]


class ProblemList(ApiModel):
    """What is wrong, the worst first; 50 problems at most."""

    problems: list[ProblemRow]


class HistoryQuery(ApiModel):
    """Which time."""

    range: Annotated[str, one_of(*RANGES)] = Field("1h", description="the last five minutes, hour, or day")


class HistoryGap(ApiModel):
    """A time without samples: the gateway was down."""

    from_: Annotated[float, Field(alias="from")]
    to: float


class HistoryAnswer(ApiModel):
    """Points that fill the range. Of a minute and more they are means, but of what is there, of `lag_ms` and of `p99`
    the largest."""

    range: str
    step: float = Field(description="seconds between two points")
    from_: Annotated[float, Field(alias="from")]
    to: float
    at: list[float] = Field(description="the end of each point, in seconds since the epoch")
    series: dict[str, list[float | None]] = Field(
        description="name of a field of a sample -> its value at each point; null: it is not known, or the gateway was "
        "down"
    )
    gaps: list[HistoryGap]
    kept: bool = Field(description="it outlives a restart")


class OverviewApi(Api):
    """The endpoints, over an open gateway."""

    def __init__(self, gateway: Gateway, settings: Settings, monitor: Monitor) -> None:
        self._gateway = gateway
        self._settings = settings
        self._monitor = monitor
        self._sampler = monitor.sampler

    @Endpoint("GET", "/api/v1/overview", "gateway", OverviewNow)
    async def overview(self, query: OverviewQuery) -> Response:
        """The state of the gateway now, and samples of the last seconds, up to ten minutes back."""
        return JSONResponse(self.now(query.since))

    @Endpoint("GET", "/api/v1/problems", "gateway", ProblemList)
    async def problems(self) -> Response:
        """What is wrong at present, since when, and what helps; looked at every five seconds."""
        return JSONResponse({"problems": self._monitor.problems.present})

    @Endpoint("GET", "/api/v1/history", "gateway", HistoryAnswer)
    async def history(self, query: HistoryQuery) -> Response:
        """Samples of the last five minutes, hour or day, for charts."""
        sampler = self._sampler
        return JSONResponse(await self._monitor.history.table(query.range, sampler.since(0), time.time()))

    def now(self, since: float) -> dict[str, object]:
        """The answer, as its model has it, with the newer samples."""
        opened, sampler = self._gateway, self._sampler
        broker, now = opened.broker, time.time()
        reason = opened.not_ready()
        counters = broker.counters
        transports = Counter([session.transport for session in broker.sessions.values()])
        return {
            "at": round(now, 3),
            "version": __version__,
            "server_name": self._settings.server_name,
            "started_at": round(sampler.started_at, 3),
            "uptime": round(max(now - sampler.started_at, 0.0), 3),
            "ready": reason is None,
            "reason": reason,
            "edges": rows_of(opened),
            "drain": self._drain(),
            "standby": standby_of(opened),
            "complaints": opened.complaints(),
            "counters": counters.totals(),
            "sessions": {
                "total": len(broker.sessions),
                "tcp": transports["tcp"],
                "websocket": transports["websocket"],
            },
            "connections": opened.connection_limits.all_connections,
            "subscriptions": broker.context.subscriptions,
            "destinations": broker.registry.count(),
            "messages": {
                "waiting": broker.context.waiting,
                "delayed": len(broker.router.delayed),
                "retained": len(broker.router.retained),
                "unacknowledged": sum([session.outstanding for session in broker.sessions.values()]),
                "octets": broker.memory.used,
            },
            "memory": self._memory(),
            "held": len(opened.blocked_publishers),
            "store": self._store(),
            "journal": self._journal(),
            "limits": {
                **opened.connection_limits.refusals,
                **broker.context.slow_consumers.by_limit,
                "memory": opened.memory_guard.closed,
            },
            "latency": {
                "turn_ms": _row(sampler.turns()),
                "queue_ms": _row(sampler.waited()),
                "ack_ms": _row(sampler.took()),
            },
            "losses": counters.losses(),
            "losing": broker.context.tallies.losing,
            "problems": self._monitor.problems.present,
            "step": STEP,
            "samples": [sample.as_dict() for sample in sampler.since(since)],
        }

    def _drain(self) -> str | None:
        opened = self._gateway
        if opened.node is not None and opened.node.is_drained:
            return "drained" if opened.is_standby else "draining"
        if opened.is_standby or not opened.draining:  # a standby refuses its clients in the same way
            return None
        return "drained" if opened.drained else "draining"

    def _memory(self) -> dict[str, object]:
        broker, memory, last = self._gateway.broker, self._gateway.memory_guard, self._sampler.last
        return {
            "process": last.memory if last is not None else memory.resident,
            "mark": memory.mark or None,
            "messages": broker.memory.used,
            "messages_limit": broker.quotas.memory_limit,
            "pressed": broker.memory.pressed,
        }

    def _store(self) -> dict[str, object] | None:
        storage, committer = self._gateway.broker.storage, self._gateway.committer
        if storage is None or committer is None:
            return None
        return {
            "failing": storage.failure or None,
            "pending_octets": storage.nbytes,
            "backlog": storage.in_backlog,
            "commits": committer.commits,
            "commit_seconds": round(committer.seconds, 3),
        }

    def _journal(self) -> dict[str, object] | None:
        journal = self._gateway.journal
        if journal is None:
            return None
        return {
            "failing": journal.failure or None,
            "pending_octets": journal.queued,
            "rows": journal.worker.rows,
            "dropped": journal.rows_dropped,
        }


def _row(found: Percentiles | None) -> dict[str, float] | None:
    return None if found is None else found._asdict()
