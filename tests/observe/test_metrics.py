"""Metrics: everything the broker counts is shown, under names that Prometheus accepts, with bounded labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gateway.auth.authenticator import Anonymous
from gateway.broker import Broker, Quotas
from gateway.broker.core.counters import Counters
from gateway.broker.core.histogram import BOUNDS, Histogram
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.ports import StoreError
from gateway.broker.core.storage import Storage
from gateway.broker.errors import LoginRefused, SessionEnded
from gateway.broker.model.changes import Batch, Stored
from gateway.broker.model.message import Message
from gateway.broker.model.options import PLAIN
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.codec import V12, Head
from gateway.journal import Journal
from gateway.observe.metrics import CAUSES, COUNTERS, TURN, Metrics, buckets, of_overload, of_timings
from gateway.stores.writer import Committer
from gateway.transports import Server, TransportOptions
from gateway.transports.flow.connection_limits import Capacity
from tests.observe.everything import Carrier
from tests.transports.peers import until


class Store:
    """Keeps nothing.

    Attributes:
        broken: it says that there is no room.
        committer: writes to it.
    """

    def __init__(self) -> None:
        self.broken = False
        self.committer: Committer | None = None

    def write(self, batch: Batch) -> None:
        if self.broken:
            raise StoreError("no room")

    def read(self, rows: Sequence[int]) -> list[Stored]:
        raise AssertionError(rows)


def with_store(store: Store, broker: Broker | None = None) -> Metrics:
    broker = broker or Broker()
    broker.storage = Storage(Metadata(lambda: 0.0, lambda: 0.0), busy=lambda: committer.ask())
    store.committer = committer = Committer(broker.storage, store, trio.lowlevel.checkpoint)
    return Metrics(broker, (), committer)


def samples(metrics: Metrics) -> dict[str, float]:
    content, _ = metrics.render("")
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def test_every_counter_is_shown_as_it_is_when_asked() -> None:
    shown = [attribute for attribute, *_ in (*COUNTERS, *CAUSES)]
    # What expired for good is told as a loss, in the API alone.
    assert sorted([*shown, "expired_for_good"]) == sorted(Counters.__slots__)
    broker = Broker()
    metrics = Metrics(broker, ())
    assert samples(metrics)["gateway_messages_delivered_total"] == 0
    for number, (attribute, _, _) in enumerate(COUNTERS, 1):
        setattr(broker.counters, attribute, number)
    found = samples(metrics)
    for number, (_, name, _) in enumerate(COUNTERS, 1):
        assert found[f"{name}_total"] == number


def test_what_ends_badly_has_its_cause() -> None:
    broker = Broker()
    metrics = Metrics(broker, ())
    before = samples(metrics)
    for attribute, name, label, _ in CAUSES:
        counts = getattr(broker.counters, attribute)
        assert len(counts) > 2
        for cause in counts:
            assert before[f"{name}_total{{{label}={cause}}}"] == 0
    broker.counters.refuse(LoginRefused())
    broker.counters.fail(SessionEnded("x"))
    broker.counters.fail_login("what a client made up")
    broker.counters.drops["queue-full"] += 2
    broker.counters.forbidden["send"] += 3
    after = samples(metrics)
    assert {name: value for name, value in after.items() if name.startswith("gateway") and value != before[name]} == {
        "gateway_connections_refused_total{reason=login-refused}": 1,
        "gateway_errors_total{reason=login-refused}": 1,
        "gateway_errors_total{reason=ended}": 1,
        "gateway_logins_failed_total{method=other}": 1,
        "gateway_messages_dropped_total{reason=queue-full}": 2,
        "gateway_access_refused_total{action=send}": 3,
    }


def test_gauges() -> None:
    policies = Policies([(Pattern("/topic/#"), {"log_messages": 2})])
    broker = Broker(policies=policies)
    for name in ["/topic/a", "/topic/a", "/topic/a", "/topic/b"]:
        broker.deposit(name, Head.of("SEND", {"destination": name}), b"x", PLAIN)
    broker.context.waiting = 5
    for login, transport in (("alice", "tcp"), ("bob", "tcp"), ("carol", "websocket")):
        broker.open_session(V12, login, peer="p", transport=transport, connected_at=0.0, carrier=Carrier())
    found = samples(Metrics(broker, ["held", "held"]))
    assert found["gateway_publishers_held"] == 2
    assert found["gateway_sessions_connected{transport=tcp}"] == 2
    assert found["gateway_sessions_connected{transport=websocket}"] == 1
    assert found["gateway_destinations"] == 2
    assert found["gateway_messages_waiting"] == 5
    assert found["gateway_memory_limit_bytes"] == broker.quotas.memory_limit
    assert found["process_resident_memory_bytes"] > 0
    assert found["gateway_log_messages"] == 3
    assert found["gateway_log_cursors"] == 0
    assert found["gateway_log_memory_bytes"] == broker.registry.streams.nbytes > 0
    # And what two topics cost.
    assert found["gateway_stored_bytes"] == broker.memory.used == broker.registry.streams.nbytes + 2 * 2_048


async def test_of_a_store() -> None:
    store, broker = Store(), Broker()
    metrics = with_store(store, broker)
    storage, committer = broker.storage, store.committer
    assert storage is not None
    assert committer is not None
    place = storage.place("queue", "/queue/a")
    for number in (1, 2):
        storage.enter(place, Message(number, Head.of("SEND", {}), b"x" * 100), row=number)
    storage.in_backlog, committer.damaged = 3, 7
    found = samples(metrics)
    assert (found["gateway_messages_in_backlog"], found["gateway_store_damaged_messages_total"]) == (3, 7)
    assert (found["gateway_store_pending_bytes"] > 200, found["gateway_store_failed"]) == (True, 0)
    async with trio.open_nursery() as nursery:
        store.broken = True
        nursery.start_soon(committer.run)
        await until(lambda: storage.failure)
        found = samples(metrics)
        assert (found["gateway_store_failed"], found["gateway_store_failures_total"]) == (1, 1)
        assert found["gateway_store_commit_seconds_count"] == 0
        store.broken = False
        await committer.finish()
        nursery.cancel_scope.cancel()
    found = samples(metrics)
    assert (found["gateway_store_pending_bytes"], found["gateway_store_failed"]) == (0, 0)
    assert (found["gateway_store_failures_total"], found["gateway_store_messages_written_total"]) == (1, 2)
    assert found["gateway_store_commit_seconds_count"] == 1
    assert 0 < found["gateway_store_commit_seconds_sum"] < 5


def test_of_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "g", run="r")
    metrics = Metrics(Broker(), (), None, journal)
    journal.record("connected", journal.clock(), journal.names_of_session("tcp", "peer"))
    assert samples(metrics)["gateway_journal_pending_bytes"] > 0
    journal.start()
    journal.close()
    journal.failure = "no space left on device"
    journal.rows_dropped = 7
    found = samples(metrics)
    assert found["gateway_journal_failed"] == 1
    assert found["gateway_journal_pending_bytes"] == 0
    assert found["gateway_journal_rows_written_total"] == 1
    assert found["gateway_journal_written_bytes_total"] > 0
    assert found["gateway_journal_rows_dropped_total"] == 7


def test_buckets_count_all_below() -> None:
    histogram = Histogram()
    for microseconds in (5, 10, 11, 20, 10**10):
        histogram.add(microseconds)
    found = dict(buckets(histogram))
    assert (found["1e-05"], found["2e-05"], found["5e-05"]) == (2, 4, 4)
    assert (found["1000"], found["+Inf"]) == (4, 5)
    bounds = [float(bound) for bound in found]
    assert bounds[-2:] == [BOUNDS[-1] / 1e6, float("inf")]
    assert bounds == sorted(bounds)


def test_a_histogram_that_is_not_there_is_not_shown() -> None:
    histogram = Histogram()
    histogram.add(2_000_000, times=3)
    families = list(of_timings((TURN, histogram), (("gateway_x_seconds", "X."), None)))
    assert [family.name for family in families] == ["gateway_turn_seconds"]
    values = {sample.name: sample.value for sample in families[0].samples if "le" not in sample.labels}
    assert values == {"gateway_turn_seconds_count": 3, "gateway_turn_seconds_sum": 6.0}


@pytest.fixture
async def server() -> Server:
    return Server(Anonymous(), Quotas(memory_limit=4_000_000), TransportOptions(capacity=Capacity(max_connections=2)))


def overload(server: Server) -> Metrics:
    blocked = server.back_pressure.blocked
    return Metrics(
        server.broker,
        blocked,
        others=lambda: of_overload(
            server.broker, blocked, server.connection_limits, server.memory_guard, server.fair_gates
        ),
    )


async def test_connections_by_limit_and_memory(server: Server) -> None:
    guests = [server.connection_limits.enter("10.0.0.1", lambda error: None) for _ in range(3)]
    guests[0].logs_in("ann")
    server.memory_guard.watch(1_000, "memory_mark", lambda: 1_500, lambda: None)
    server.memory_guard.tick(0.0)
    server.memory_guard.closed = 7
    server.broker.memory.buffer(3_500_000)
    found = samples(overload(server))
    assert found["gateway_connections_open"] == 2
    assert found["gateway_handshakes"] == 1
    assert found["gateway_connections_over_limit_total{limit=max_connections}"] == 1
    assert found["gateway_memory_mark_bytes"] == 1_000
    assert found["gateway_memory_resident_bytes"] == 1_500
    assert found["gateway_memory_short"] == 1
    assert found["gateway_memory_full"] == 1
    assert found["gateway_memory_closed_total"] == 7
    assert found["gateway_incomplete_bytes"] == 3_500_000
