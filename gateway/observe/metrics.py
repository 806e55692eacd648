"""Metrics: integers of the broker, read at each scrape.

The hot path adds to integers (`gateway/broker/core/counters.py`) and never meets this module.  The cost of a scrape
does not grow with the number of destinations; sessions are counted, one addition each.

Labels are words of the gateway: the transport, the limit or reason, the kind of file on a disk.  Clients choose logins
and user agents, so those are no labels: clients could make any number of time series.  The exception are names of
destinations that the operator asks for, a hundred at most (`destination_metrics`).
"""

from __future__ import annotations

import collections
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import gateway
from gateway.broker.core.histogram import BOUNDS

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.core.histogram import Histogram
    from gateway.broker.core.storage import Storage
    from gateway.journal import Journal
    from gateway.observe.spans import Spans
    from gateway.stores.writer import Committer
    from gateway.transports.flow.back_pressure import BlockedPublishers
    from gateway.transports.flow.connection_limits import ConnectionLimits
    from gateway.transports.flow.memory_guard import MemoryGuard
    from gateway.transports.wire.fairness import FairGates

COUNTERS = (
    ("connections", "gateway_connections", "Connections accepted."),
    ("sessions", "gateway_sessions", "Sessions that reached CONNECTED."),
    ("frames_in", "gateway_frames_received", "Frames received from clients."),
    ("bytes_in", "gateway_received_bytes", "Bytes of STOMP from clients."),
    ("bytes_out", "gateway_sent_bytes", "Bytes of STOMP handed to sockets."),
    ("published", "gateway_messages_published", "Messages accepted from SEND; at COMMIT inside a transaction."),
    ("delivered", "gateway_messages_delivered", "Messages put into outboxes of subscribers."),
    ("redelivered", "gateway_messages_redelivered", "Deliveries of a message after its first."),
    ("unroutable", "gateway_messages_unroutable", "Messages to a topic without a subscriber."),
    ("acknowledged", "gateway_messages_acknowledged", "Messages settled by ACK."),
    ("rejected", "gateway_messages_rejected", "Messages settled by NACK."),
    ("ack_timeouts", "gateway_ack_timeouts", "Messages that consumers did not settle within `ack_timeout`."),
    ("late_acks", "gateway_late_acks", "ACKs and NACKs of such messages, which came too late."),
    ("dead_lettered", "gateway_messages_dead_lettered", "Messages that became dead letters."),
    ("moved", "gateway_messages_moved", "Messages that operators moved or sent back."),
    ("expired", "gateway_messages_expired", "Messages that expired before they were consumed."),
    ("conflated", "gateway_messages_conflated", "Messages that a newer one of their key replaced."),
    ("duplicates", "gateway_messages_duplicate", "Messages not routed: their dedup-id was known."),
    ("heartbeat_timeouts", "gateway_heartbeat_timeouts", "Sessions ended: the client was silent."),
    ("slow_consumers", "gateway_slow_consumers", "Sessions ended: the client did not read."),
    ("events_lost", "gateway_events_lost", "Events for applications that found no room (`events`)."),
    (
        "misspelt_headers",
        "gateway_misspelt_headers",
        "Headers of SUBSCRIBE whose names are close to a known one; the log names them.",
    ),
    (
        "held_publishers",
        "gateway_held_publishers",
        "Times that a publisher was not read: receiver, queue or memory full.",
    ),
)
"""Attribute of `Counters`, name of the metric (Prometheus appends `_total`), help."""

CAUSES = (
    ("refusals", "gateway_connections_refused", "reason", "Connections that ended before CONNECTED."),
    (
        "failed_logins",
        "gateway_logins_failed",
        "method",
        "Logins refused at CONNECT, at renewals, for tickets and by the admin API.",
    ),
    ("forbidden", "gateway_access_refused", "action", "SEND, SUBSCRIBE and queue arguments refused by rules."),
    (
        "drops",
        "gateway_messages_dropped",
        "reason",
        "Messages dropped by a limit, a NACK, an operator, or with their queue; no dead letters.",
    ),
    ("failures", "gateway_errors", "reason", "ERROR frames sent; each ended a session, or a connection without one."),
)
"""Attribute of `Counters`, name of the metric, label with the keys as values, help."""

TRANSPORTS = ("tcp", "websocket")

GAUGES: tuple[tuple[str, str, Callable[[Broker], float]], ...] = (
    ("gateway_destinations", "Queues and topics in use.", lambda broker: broker.registry.count()),
    ("gateway_messages_waiting", "Messages in queues that no consumer has.", lambda broker: broker.context.waiting),
    (
        "gateway_consumers_stalled",
        "Consumers that get nothing: they did not settle a message within `ack_timeout`.",
        lambda broker: broker.context.stalled_consumers,
    ),
    (
        "gateway_stored_bytes",
        "Memory of all messages, also of incomplete ones.",
        lambda broker: broker.memory.used,
    ),
    (
        "gateway_messages_delayed",
        "Messages that wait for their delivery time.",
        lambda broker: len(broker.router.delayed),
    ),
    ("gateway_messages_retained", "Topics with a retained message.", lambda broker: len(broker.router.retained)),
    (
        "gateway_log_messages",
        "Messages in the streams of topics.",
        lambda broker: broker.registry.streams.messages,
    ),
    (
        "gateway_log_memory_bytes",
        "Memory of these streams.",
        lambda broker: broker.registry.streams.nbytes,
    ),
    (
        "gateway_log_cursors",
        "Stored offsets of clients of streams.",
        lambda broker: len(broker.router.replay.offsets),
    ),
    (
        "gateway_memory_limit_bytes",
        "The setting memory_limit.",
        lambda broker: broker.quotas.memory_limit,
    ),
)


class Metrics(Collector):
    """All metrics of one gateway, in a registry of their own.

    Args:
        held: the publishers that are held now.
        committer: writes to the store; None: without a store.
        journal: None: without a journal.
        others: returns more metrics, at each scrape.
        disks: asked before each scrape; None: without disks.
    """

    def __init__(
        self,
        broker: Broker,
        held: Sized,
        committer: Committer | None = None,
        journal: Journal | None = None,
        others: Callable[[], Iterable[Metric]] = tuple,
        disks: Disks | None = None,
    ) -> None:
        self._broker = broker
        self._held = held
        self._committer = committer
        self._journal = journal
        self._others = others
        self._disks = disks
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)  # memory, CPU seconds, open descriptors

    def collect(self) -> Iterator[Metric]:
        storage, committer = self._broker.storage, self._committer
        yield from of_broker(self._broker, self._held)
        if storage is not None and committer is not None:
            yield from of_store(storage, committer)
        if self._journal is not None:
            yield from of_journal(self._journal)
        yield from self._others()
        if self._disks is not None:
            yield from self._disks.metrics()

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """Ask the disks, then `render`."""
        if self._disks is not None:
            await self._disks.look()
        return self.render(accept)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format of an Accept header."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type


def labelled(
    family: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, label: str, values: Mapping[str, float]
) -> Metric:
    """A metric with one time series for each value of its label."""
    made = family(name, text, labels=[label])
    for key, value in values.items():
        made.add_metric([key], value)
    return made


def of_broker(broker: Broker, held: Sized) -> Iterator[Metric]:
    """Reads the broker in one synchronous turn, so that the figures of a scrape agree."""
    version = {"version": gateway.__version__, "python": platform.python_version()}
    yield InfoMetricFamily("gateway_build", "Version of the gateway and of Python.", value=version)
    for attribute, name, text in COUNTERS:
        yield CounterMetricFamily(name, text, value=getattr(broker.counters, attribute))
    for attribute, name, label, text in CAUSES:
        yield labelled(CounterMetricFamily, name, text, label, getattr(broker.counters, attribute))
    found = collections.Counter([session.transport for session in broker.sessions.values()])
    connected = {transport: found[transport] for transport in TRANSPORTS}
    yield labelled(GaugeMetricFamily, "gateway_sessions_connected", "Sessions connected now.", "transport", connected)
    for name, text, value in GAUGES:
        yield GaugeMetricFamily(name, text, value(broker))
    yield GaugeMetricFamily(
        "gateway_publishers_held",
        "Publishers that are not read now: receiver, queue or memory full.",
        len(held),
    )


def of_store(storage: Storage, committer: Committer) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "gateway_store_failed",
        "1 while durable messages are refused: the store fails, or its disk is nearly full.",
        bool(storage.failure),
    )
    yield GaugeMetricFamily(
        "gateway_store_pending_bytes",
        "Memory of changes that wait to be written.",
        storage.nbytes,
    )
    yield GaugeMetricFamily(
        "gateway_messages_in_backlog",
        "Messages in the store alone, of gateway_messages_waiting.",
        storage.in_backlog,
    )
    yield SummaryMetricFamily(
        "gateway_store_commit_seconds", "Group commits and their duration.", committer.commits, committer.seconds
    )
    for name, text, value in (
        ("gateway_store_messages_written", "Messages written to the store.", committer.rows),
        ("gateway_store_failures", "Failed attempts to write to the store, or to read.", committer.failures),
        (
            "gateway_store_damaged_messages",
            "Messages left out: their rows are damaged.",
            committer.damaged,
        ),
    ):
        yield CounterMetricFamily(name, text, value)


def of_journal(journal: Journal) -> Iterator[Metric]:
    worker = journal.worker
    yield GaugeMetricFamily("gateway_journal_failed", "1 while the journal cannot be written.", bool(journal.failure))
    yield GaugeMetricFamily("gateway_journal_pending_bytes", "Bytes that wait to be written.", journal.queued)
    yield CounterMetricFamily("gateway_journal_rows_written", "Rows written.", worker.rows)
    yield CounterMetricFamily("gateway_journal_written_bytes", "Bytes written.", worker.nbytes)
    yield CounterMetricFamily("gateway_journal_rows_dropped", "Rows dropped: too many waited.", journal.rows_dropped)


# A network disk may take long to answer: a thread asks the disks before a scrape, for so many seconds at most.
LONGEST_LOOK = 1.0


class Disks:
    """Free space of the disks that the gateway writes to.

    `folders`: kind of files -> their folder; the kinds become a label.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._found: dict[str, os.statvfs_result] = {}
        self._thread = trio.CapacityLimiter(1)

    async def look(self) -> None:
        """Ask the disks, in one thread at most: a disk that hangs blocks that one alone."""
        if not self._folders or not self._thread.available_tokens:
            return
        with trio.move_on_after(LONGEST_LOOK):
            await trio.to_thread.run_sync(self.look_now, limiter=self._thread, abandon_on_cancel=True)

    def look_now(self) -> None:
        """Ask the disks, without a limit of time."""
        for name, folder in self._folders.items():
            with suppress(OSError):  # store or journal reports it
                self._found[name] = os.statvfs(folder)

    def free(self) -> dict[str, float]:
        """The free part of each disk, at the last look."""
        return {name: disk.f_bavail / max(disk.f_blocks, 1) for name, disk in self._found.items()}

    def metrics(self) -> Iterator[Metric]:
        free = GaugeMetricFamily("gateway_disk_free_bytes", "Free space of the disk.", labels=["place"])
        size = GaugeMetricFamily("gateway_disk_size_bytes", "Size of the disk.", labels=["place"])
        for name, disk in list(self._found.items()):
            free.add_metric([name], disk.f_bavail * disk.f_frsize)
            size.add_metric([name], disk.f_blocks * disk.f_frsize)
        yield from (free, size)


def of_health(
    not_ready: str | None, complaints: Sized, certificate_ends: float | None, functions_failed: int | None
) -> Iterator[Metric]:
    """Health of the gateway.

    Args:
        not_ready: the reason why clients must not be sent here; None: they may.
        complaints: faults that do not keep clients away.
        certificate_ends: seconds since the epoch; None: there is no certificate.
        functions_failed: requests that the operator's functions failed at; None: there are no functions.
    """
    yield GaugeMetricFamily("gateway_ready", "1 while clients may be sent here; else /readyz says why.", not not_ready)
    yield GaugeMetricFamily(
        "gateway_complaints", "Faults that do not keep clients away; /readyz names them.", len(complaints)
    )
    if certificate_ends is not None:
        yield GaugeMetricFamily(
            "gateway_certificate_expiry_timestamp_seconds",
            "End of the certificate of the TLS listeners.",
            certificate_ends,
        )
    if functions_failed is not None:
        yield CounterMetricFamily(
            "gateway_handler_failures",
            "Requests that a function of handlers failed at, refused, or took too long for.",
            functions_failed,
        )


def of_cluster(
    *,
    role: str,
    epoch: int,
    lag: int,
    nodes: Mapping[str, int],
    log_messages: int,
    log_bytes: int,
    room_used: int,
    room_limit: int,
    snapshot_due: int,
    changes: int,
    is_available: bool,
    lease_age: float,
    took: Mapping[str, float],
) -> Iterator[Metric]:
    """This node of a cluster, and what it knows of the others.

    Args:
        role: of this node, one of `nodes`.
        nodes: each role, and how many nodes have it.
        room_used, room_limit: bytes that JetStream uses and may use, where least is left; 0: no limit is known.
        snapshot_due: bytes by which the log grows until the next snapshot.
        lease_age: seconds since the lease was renewed; 0: another node has it.
        took: each stage of this node's last take-over, and its seconds.
    """
    roles = {each: float(each == role) for each in nodes}
    yield labelled(GaugeMetricFamily, "gateway_cluster_role", "1 for the role of this node.", "role", roles)
    yield labelled(GaugeMetricFamily, "gateway_cluster_nodes", "Nodes that are there.", "role", nodes)
    for name, text, value in (
        ("gateway_cluster_epoch", "Epoch of the primary: each one has a higher number.", epoch),
        ("gateway_cluster_lag_messages", "Messages of the log that this node has not applied.", lag),
        ("gateway_cluster_log_messages", "Messages of the log: a commit is one or more of them.", log_messages),
        ("gateway_cluster_log_bytes", "Bytes of the log on each of its servers.", log_bytes),
        (
            "gateway_cluster_room_used_bytes",
            "Bytes that JetStream uses of gateway_cluster_room_limit_bytes; 0: no limit is known.",
            room_used,
        ),
        (
            "gateway_cluster_room_limit_bytes",
            "Limit of the server, account or stream with the least room for the log; 0: none is known.",
            room_limit,
        ),
        (
            "gateway_cluster_snapshot_due_bytes",
            "Bytes by which the log grows until a standby makes a snapshot. Two snapshots later they are removed.",
            snapshot_due,
        ),
        ("gateway_cluster_available", "1 while the NATS servers answer, with a majority.", is_available),
        (
            "gateway_cluster_lease_age_seconds",
            "Time since this primary renewed its lease; from 2 on it does not deliver. 0 on other nodes.",
            lease_age,
        ),
    ):
        yield GaugeMetricFamily(name, text, value)
    text = "Time of this node's last take-over, from the last sign of the old primary; 0: there was none."
    yield labelled(GaugeMetricFamily, "gateway_cluster_takeover_seconds", text, "stage", took)
    yield CounterMetricFamily("gateway_cluster_changes", "Changes of the primary that this node has seen.", changes)


_EDGES: tuple[tuple[type[CounterMetricFamily | GaugeMetricFamily], str, str, str], ...] = (
    (GaugeMetricFamily, "gateway_edge_up", "1 while the edge serves clients.", "ready"),
    (
        CounterMetricFamily,
        "gateway_edge_starts",
        "Times that it was started; on another machine: links.",
        "starts",
    ),
    (GaugeMetricFamily, "gateway_edge_sessions", "Its sessions.", "sessions"),
    (GaugeMetricFamily, "gateway_edge_connections", "Its connections, with or without a login.", "connections"),
    (CounterMetricFamily, "gateway_edge_cpu_seconds", "Processor time of its process.", "cpu_seconds"),
    (GaugeMetricFamily, "gateway_edge_memory_bytes", "Memory of its process.", "memory"),
    (CounterMetricFamily, "gateway_edge_received_bytes", "Bytes that came from it over its link.", "link_received"),
    (CounterMetricFamily, "gateway_edge_sent_bytes", "Bytes that went to it over its link.", "link_sent"),
)


def of_edges(rows: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """The edges, by their rows of the admin API."""
    for family, name, text, key in _EDGES:
        yield labelled(family, name, text, "edge", {row["edge"]: float(row[key]) for row in rows})


def of_spans(spans: Spans) -> Iterator[Metric]:
    for name, text, value in (
        ("gateway_spans_sent", "Spans that the collector took.", spans.sent),
        (
            "gateway_spans_dropped",
            "Spans dropped: too many waited, or the collector did not take them.",
            spans.dropped,
        ),
        ("gateway_messages_untraced", "Messages not traced: too many came.", spans.left_out),
    ):
        yield CounterMetricFamily(name, text, value)
    yield GaugeMetricFamily("gateway_spans_waiting", "Spans that wait to be sent.", spans.waiting)
    yield GaugeMetricFamily("gateway_spans_failed", "1 while the collector takes nothing.", bool(spans.failure))


_STEP = 2

TURN = "gateway_turn_seconds", "Time from bytes of a client until their effects were handed to sockets."
QUEUE = "gateway_queue_seconds", "Time from the SEND to the first delivery."
ACK = "gateway_ack_seconds", "Time from the delivery to its ACK."


def of_timings(*found: tuple[tuple[str, str], Histogram | None]) -> Iterator[Metric]:
    """Histograms, each with its name and help; None: it is not shown."""
    for (name, text), histogram in found:
        if histogram is not None:
            yield HistogramMetricFamily(name, text, buckets=buckets(histogram), sum_value=histogram.total / 1e6)


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Upper bound in seconds, and the number of times up to it."""
    found: list[tuple[str, float]] = []
    count = 0
    for number, (bound, own) in enumerate(zip(BOUNDS, histogram.counts, strict=False)):
        count += own
        if number % _STEP == 0:
            found.append((f"{bound / 1e6:g}", count))
    return [*found, ("+Inf", sum(histogram.counts))]


def of_overload(
    broker: Broker, blocked: BlockedPublishers, limits: ConnectionLimits, guard: MemoryGuard, fair_gates: FairGates
) -> Iterator[Metric]:
    """The counts of the transports."""
    text = "Connections refused, or closed, by a limit."
    yield labelled(CounterMetricFamily, "gateway_connections_over_limit", text, "limit", limits.refusals)
    text = "Sessions that are not read now."
    yield labelled(GaugeMetricFamily, "gateway_sessions_held", text, "reason", blocked.by_reason())
    text = "Connections that wait for their turn to be read: senders of much data, and new connections."
    lines = {line: count + getattr(limits.at_edges, line) for line, count in fair_gates.waiting.items()}
    yield labelled(GaugeMetricFamily, "gateway_turnstile_waiting", text, "line", lines)
    text = "Times a session was not read for a while."
    yield labelled(CounterMetricFamily, "gateway_holds", text, "reason", blocked.totals)
    text = "Sessions ended: the client did not read, and its outbox was full."
    yield labelled(
        CounterMetricFamily, "gateway_slow_consumers_over_limit", text, "limit", broker.context.slow_consumers.by_limit
    )
    yield GaugeMetricFamily("gateway_connections_open", "Connections, with or without a login.", limits.all_connections)
    yield GaugeMetricFamily("gateway_handshakes", "Connections without a login.", limits.all_handshakes)
    incomplete = broker.memory.partial + limits.at_edges.incomplete
    yield GaugeMetricFamily("gateway_incomplete_bytes", "Bytes of messages that are not complete yet.", incomplete)
    text = "1 while publishers are held back: memory is short."
    yield GaugeMetricFamily("gateway_memory_short", text, broker.memory.pressed)
    text = "1 while memory is full, and new clients are sent away."
    yield GaugeMetricFamily("gateway_memory_full", text, bool(guard.reason))
    text = "Memory that the process and its edges may take; 0: the memory guard is off."
    yield GaugeMetricFamily("gateway_memory_mark_bytes", text, guard.mark)
    text = "Memory of the process and its edges; 0: the memory guard is off."
    yield GaugeMetricFamily("gateway_memory_resident_bytes", text, guard.resident)
    text = "Sessions ended: memory was full, and they cost most."
    yield CounterMetricFamily("gateway_memory_closed", text, guard.closed)
