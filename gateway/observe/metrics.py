"""Metrics: the broker's plain integers, read when Prometheus asks.

The hot path never meets this module: it adds to integers (`gateway/broker/core/counters.py`), and a scrape reads them.
The cost of a scrape does not grow with the number of destinations; sessions are counted, one addition each.

The only labels are a few words of ours: the transport, the limit or reason by which somebody is refused or held, what
lies on a disk.  Nothing that a client chooses (login, user agent) becomes a label, or clients could make as many time
series as they like; but for the names of destinations, where the operator asks for some, and a hundred at most
(`survey`).
"""

from __future__ import annotations

import collections
import platform
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import gateway

from .process_metrics import DiskCollector

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.core.storage import Storage
    from gateway.journal import Journal
    from gateway.stores.writer import Committer

COUNTERS = (
    ("connections", "gateway_connections", "Transport connections accepted."),
    ("sessions", "gateway_sessions", "Sessions that reached CONNECTED."),
    ("frames_in", "gateway_frames_received", "Frames received from clients."),
    ("bytes_in", "gateway_received_bytes", "Octets received from clients, as STOMP."),
    ("bytes_out", "gateway_sent_bytes", "Octets handed to sockets, as STOMP."),
    ("published", "gateway_messages_published", "Messages accepted from SEND; at COMMIT inside a transaction."),
    ("delivered", "gateway_messages_delivered", "Messages put into outboxes of subscribers."),
    ("redelivered", "gateway_messages_redelivered", "Deliveries of a message that had been delivered before."),
    ("unroutable", "gateway_messages_unroutable", "Messages to a topic that nobody subscribed."),
    ("acknowledged", "gateway_messages_acknowledged", "Messages settled by ACK."),
    ("rejected", "gateway_messages_rejected", "Messages settled by NACK."),
    ("dead_lettered", "gateway_messages_dead_lettered", "Messages that went to a dead-letter queue."),
    ("moved", "gateway_messages_moved", "Messages that an operator moved to another destination, or back."),
    ("expired", "gateway_messages_expired", "Messages whose time was over before somebody consumed them."),
    ("conflated", "gateway_messages_conflated", "Messages that a newer one of their key replaced."),
    ("duplicates", "gateway_messages_duplicate", "Messages not routed because their dedup-id was known."),
    ("heartbeat_timeouts", "gateway_heartbeat_timeouts", "Sessions ended because the client was silent."),
    ("slow_consumers", "gateway_slow_consumers", "Sessions ended because the client did not read."),
    (
        "misspelt_headers",
        "gateway_misspelt_headers",
        "Headers of SUBSCRIBE that had no effect and look like one that has; the log names them.",
    ),
    (
        "held_publishers",
        "gateway_held_publishers",
        "Times a publisher was not read: receiver, queue or memory full.",
    ),
)
"""Attribute of `Counters`, name of the metric (Prometheus appends `_total`), help."""

CAUSES = (
    ("refusals", "gateway_connections_refused", "reason", "Connections that ended before CONNECTED."),
    (
        "failed_logins",
        "gateway_logins_failed",
        "method",
        "Logins refused: at CONNECT, at renewals, for tickets, by the admin API; by what was shown.",
    ),
    ("forbidden", "gateway_access_refused", "action", "What rules refused: each SEND, SUBSCRIBE or queue argument."),
    (
        "drops",
        "gateway_messages_dropped",
        "reason",
        (
            "Messages thrown away: by a limit, a NACK, an operator, with their queue. Not dead letters "
            "(gateway_messages_dead_lettered), and not what merely expired (gateway_messages_expired)."
        ),
    ),
    ("failures", "gateway_errors", "reason", "ERROR frames sent; each ended a session, or a connection without one."),
)
"""Attribute of `Counters`, name of the metric, the label that its keys are the values of, help."""

TRANSPORTS = ("tcp", "websocket")


class Metrics:
    """All metrics of one gateway, in a registry of their own.

    Args:
        held: the publishers that are held now.
        committer: writes to the store; None: there is none, and no metrics of one.
        journal: of what happens; None likewise.
        overload: of limits that are reached; None likewise.
        others: what else there is to show.
        disks: those that are asked before a scrape; None: none.
    """

    def __init__(
        self,
        broker: Broker,
        held: Sized,
        committer: Committer | None = None,
        journal: Journal | None = None,
        overload: Collector | None = None,
        others: Iterable[Collector] = (),
        disks: DiskCollector | None = None,
    ) -> None:
        self._disks = disks
        self._registry = CollectorRegistry()
        self._registry.register(BrokerCollector(broker, held))
        if broker.storage is not None and committer is not None:
            self._registry.register(StoreCollector(broker.storage, committer))
        if journal is not None:
            self._registry.register(JournalCollector(journal))
        for each in (overload, disks, *others):
            if each is not None:
                self._registry.register(each)
        ProcessCollector(registry=self._registry)  # memory, CPU seconds, open descriptors

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """Ask the disks, then `render`."""
        if self._disks is not None:
            await self._disks.look()
        return self.render(accept)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the form that an Accept header asks for."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type


class BrokerCollector(Collector):
    """Reads the broker, once per scrape, in one synchronous turn: the figures of one scrape agree."""

    def __init__(self, broker: Broker, held: Sized) -> None:
        self._broker = broker
        self._held = held

    def collect(self) -> Iterator[Metric]:
        """Every metric of the broker."""
        yield InfoMetricFamily(
            "gateway_build",
            "Version of the gateway and of Python.",
            value={"version": gateway.__version__, "python": platform.python_version()},
        )
        for attribute, name, text in COUNTERS:
            yield CounterMetricFamily(name, text, value=getattr(self._broker.counters, attribute))
        for attribute, name, label, text in CAUSES:
            family = CounterMetricFamily(name, text, labels=[label])
            for cause, count in getattr(self._broker.counters, attribute).items():
                family.add_metric([cause], count)
            yield family
        yield self._connected()
        broker = self._broker
        yield GaugeMetricFamily("gateway_destinations", "Queues and topics in use.", value=broker.registry.count())
        yield GaugeMetricFamily(
            "gateway_messages_waiting", "Messages in queues that no consumer has.", value=broker.waiting
        )
        yield GaugeMetricFamily(
            "gateway_stored_bytes",
            "What all messages in memory cost: waiting, unacknowledged, delayed, retained, in transactions, half sent.",
            value=broker.stored_bytes,
        )
        yield GaugeMetricFamily(
            "gateway_messages_delayed",
            "Messages that wait for the time they were sent for.",
            value=len(broker.router.delayed),
        )
        yield GaugeMetricFamily(
            "gateway_messages_retained", "Topics that keep a message.", value=len(broker.router.retained)
        )
        logs = broker.registry.streams
        yield GaugeMetricFamily(
            "gateway_log_messages", "Messages that topics keep for replay, in memory or store.", value=logs.messages
        )
        yield GaugeMetricFamily(
            "gateway_log_memory_bytes", "What the logs of topics cost in memory.", value=logs.nbytes
        )
        yield GaugeMetricFamily(
            "gateway_log_cursors",
            "Names under which clients go on in a log.",
            value=len(broker.router.replay.offsets),
        )
        yield GaugeMetricFamily(
            "gateway_publishers_held",
            "Publishers that are not read now: receiver, queue or memory full.",
            value=len(self._held),
        )
        yield GaugeMetricFamily(
            "gateway_memory_limit_bytes",
            "The setting memory_limit; from 3/4 of it on publishers are held back.",
            value=broker.quotas.memory_limit,
        )

    def _connected(self) -> Metric:
        found = collections.Counter([session.transport for session in self._broker.sessions.values()])
        family = GaugeMetricFamily("gateway_sessions_connected", "Sessions connected now.", labels=["transport"])
        for transport in TRANSPORTS:
            family.add_metric([transport], found[transport])
        return family


class StoreCollector(Collector):
    """Reads what the store is asked for, and what it has done."""

    def __init__(self, storage: Storage, committer: Committer) -> None:
        self._storage = storage
        self._committer = committer

    def collect(self) -> Iterator[Metric]:
        """Every metric of the store."""
        storage, committer = self._storage, self._committer
        yield GaugeMetricFamily(
            "gateway_store_failed",
            "1 while durable messages are refused: the store cannot be written, or its disk is nearly full; else 0.",
            value=bool(storage.failure),
        )
        yield GaugeMetricFamily(
            "gateway_store_pending_bytes",
            "What waits to be written costs in memory; publishers are held back while it is too much.",
            value=storage.nbytes,
        )
        yield GaugeMetricFamily(
            "gateway_messages_in_backlog",
            "Messages that wait in the store alone; gateway_messages_waiting counts them, too.",
            value=storage.in_backlog,
        )
        yield SummaryMetricFamily(
            "gateway_store_commit_seconds",
            "Group commits, and the time that writing them took.",
            count_value=committer.commits,
            sum_value=committer.seconds,
        )
        yield CounterMetricFamily(
            "gateway_store_messages_written", "Messages written to the store.", value=committer.rows
        )
        yield CounterMetricFamily(
            "gateway_store_failures",
            "Attempts to write to the store, or to read, that failed.",
            value=committer.failures,
        )
        yield CounterMetricFamily(
            "gateway_store_damaged_messages",
            "Messages that were left out, because the store cannot give them back.",
            value=committer.damaged,
        )


class JournalCollector(Collector):
    """Reads what the journal was told, and what it has written."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def collect(self) -> Iterator[Metric]:
        """Every metric of the journal."""
        journal = self._journal
        yield GaugeMetricFamily(
            "gateway_journal_failed", "1 while the journal cannot be written; else 0.", value=bool(journal.failure)
        )
        yield GaugeMetricFamily(
            "gateway_journal_pending_bytes", "What waits to be written to the journal.", value=journal.queued
        )
        yield CounterMetricFamily(
            "gateway_journal_rows_written", "Rows written to the journal.", value=journal.worker.rows
        )
        yield CounterMetricFamily(
            "gateway_journal_written_bytes", "Octets written to the journal.", value=journal.worker.nbytes
        )
        yield CounterMetricFamily(
            "gateway_journal_rows_dropped",
            "Rows left out of the journal because too much waited to be written.",
            value=journal.rows_dropped,
        )
