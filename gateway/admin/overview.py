"""`GET /api/v1/overview`: what the gateway is doing now, and in each of the last seconds.

It is asked once a second by each console that is open, so it must cost little: nothing here grows with destinations or
messages, and of sessions only two numbers are added up.  Whoever asks again says up to when it knows the samples.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import gateway
from gateway.admin import asked
from gateway.admin.endpoint import Endpoint, Parameter
from gateway.admin.models import Answer
from gateway.observe.latency import Percentiles
from gateway.observe.sampler import STEP, Sampler, Second

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway


class SessionsNow(Answer):
    """Clients that are connected."""

    total: int
    tcp: int
    websocket: int


class MessagesNow(Answer):
    """Messages in queues, for later, kept by topics, and with consumers; and what all cost in octets."""

    waiting: int
    delayed: int
    retained: int
    unacknowledged: int
    octets: int


class MemoryNow(Answer):
    """Octets of the process and of messages, and what they may be; `pressed`: publishers are held back."""

    process: int
    mark: int | None
    messages: int
    messages_limit: int
    pressed: bool


class StoreNow(Answer):
    """What is written to the store; `failing` says why it is not."""

    failing: str | None
    pending_octets: int
    backlog: int
    commits: int
    commit_seconds: float


class JournalNow(Answer):
    """What is written to the journal, in rows; `failing` says why it is not."""

    failing: str | None
    pending_octets: int
    rows: int
    dropped: int


class Quantiles(Answer):
    """Milliseconds within which half, 95 % and 99 % were done."""

    p50: float
    p95: float
    p99: float


class Latency(Answer):
    """Of the last ten seconds; null: nothing was done, or nobody records it.

    A turn is from a chunk of octets of a client until what it caused was handed to the sockets; a message waits in a
    queue from its SEND to its first delivery, and its ACK comes so long after that.
    """

    turn_ms: Quantiles | None
    queue_ms: Quantiles | None
    ack_ms: Quantiles | None


class OverviewNow(Answer):
    """The gateway as it is, and its last seconds; `drained`: nothing is connected, and all is written."""

    at: float
    version: str
    server_name: str
    started_at: float
    uptime: float
    ready: bool
    reason: str | None
    drain: Literal["draining", "drained"] | None
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
    step: float
    samples: list[Second]


class Overview:
    """The endpoint, over an open gateway.

    Args:
        sampler: None: one that takes no samples.
    """

    def __init__(self, opened: Gateway, settings: Settings, sampler: Sampler | None = None) -> None:
        self._gateway = opened
        self._settings = settings
        self._sampler = sampler or Sampler(opened.broker, opened.admission, opened.turns)

    def endpoints(self) -> list[Endpoint]:
        """Its one endpoint."""
        since = Parameter(
            "since",
            "Only samples that are newer, in seconds since the epoch: the `at` of the last one known.",
            "number",
            0,
        )
        return [
            Endpoint(
                "GET",
                "/api/v1/overview",
                self.answer,
                "What the gateway is doing now, and in each of the last seconds, up to ten minutes back.",
                "gateway",
                OverviewNow,
                query=(since,),
            )
        ]

    async def answer(self, request: Request) -> Response:
        """The gateway as it is."""
        return JSONResponse(self.now(asked.real(request, "since")))

    def now(self, since: float) -> dict[str, object]:
        """The answer, as its model has it, with the samples that are newer."""
        opened, sampler = self._gateway, self._sampler
        broker, now = opened.broker, time.time()
        reason = opened.not_ready()
        counters = broker.counters
        transports = Counter([session.transport for session in broker.sessions.values()])
        return {
            "at": round(now, 3),
            "version": gateway.__version__,
            "server_name": self._settings.server_name,
            "started_at": round(sampler.started_at, 3),
            "uptime": round(max(now - sampler.started_at, 0.0), 3),
            "ready": reason is None,
            "reason": reason,
            "drain": ("drained" if opened.drained else "draining") if opened.draining else None,
            "complaints": opened.complaints(),
            "counters": counters.totals(),
            "sessions": {
                "total": len(broker.sessions),
                "tcp": transports["tcp"],
                "websocket": transports["websocket"],
            },
            "connections": opened.admission.connections,
            "subscriptions": broker.subscriptions,
            "destinations": broker.registry.count(),
            "messages": {
                "waiting": broker.waiting,
                "delayed": len(broker.router.delayed),
                "retained": len(broker.router.retained),
                "unacknowledged": sum([session.outstanding for session in broker.sessions.values()]),
                "octets": broker.stored_bytes,
            },
            "memory": self._memory(),
            "held": len(opened.holds),
            "store": self._store(),
            "journal": self._journal(),
            "limits": {**opened.admission.refusals, **broker.slow, "memory": opened.memory.closed},
            "latency": {
                "turn_ms": _row(sampler.turns()),
                "queue_ms": _row(sampler.waited()),
                "ack_ms": _row(sampler.took()),
            },
            "step": STEP,
            "samples": [sample.as_dict() for sample in sampler.since(since)],
        }

    def _memory(self) -> dict[str, object]:
        broker, memory, last = self._gateway.broker, self._gateway.memory, self._sampler.last
        return {
            "process": last.memory if last is not None else memory.resident,
            "mark": memory.mark or None,
            "messages": broker.stored_bytes,
            "messages_limit": broker.quotas.memory_limit,
            "pressed": broker.pressed,
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
