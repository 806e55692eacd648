"""What the recorder is told: which rows there are, what stands in them, and where there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import cast

import pytest

from gateway.broker.core.events import EventLog
from gateway.broker.core.ports import NullRecorder, Recorder
from gateway.broker.errors import HeaderMissing, SessionEnded
from gateway.broker.model.policy import OnNack, WhenFull
from gateway.codec import V10

from ..client import Client, Scene
from ..conftest import Stage, small
from ..durable import P
from ..recorder import Notebook, RecordedScene, Row, recorded

Q, T = "/queue/a", "/topic/a"
INDIVIDUAL = "client-individual"


def number_of(message_id: str) -> int:
    return int(message_id.rpartition("-")[2])


def told(rows: list[Row], *names: str) -> list[object]:
    """One column of some rows, or several."""
    found = [tuple([getattr(row, name) for name in names]) for row in rows]
    return [each[0] if len(names) == 1 else each for each in found]


class TestMessages:
    def test_the_life_of_one(self, scene: Scene) -> None:
        notes = recorded(scene)
        sender, receiver = scene.connect(), scene.connect()
        receiver.subscribe(Q, "s", ack="client")
        sender.publish("/amq/queue/a", b"four", kind="x")
        frame = receiver.message()
        receiver.ack(frame)
        accepted, delivered, acked = notes.of("accepted", "delivered", "acked")
        assert {row.number for row in (accepted, delivered, acked)} == {number_of(frame.message_id)}
        assert {row.destination for row in (accepted, delivered, acked)} == {Q}
        assert accepted.has(session=sender.session.id, transport="tcp", peer="127.0.0.1:50000", principal="anonymous")
        assert accepted.has(size=4, body=b"four", transaction=None)
        assert accepted.headers is not None
        assert accepted.headers["kind"] == "x"
        names = {"session": receiver.session.id, "subscription": "s", "ack_mode": "client", "delivery_count": 1}
        assert delivered.has(size=4, **names)
        assert delivered.queue_us == delivered.now - accepted.now > 0
        assert acked.has(**names)
        assert acked.ack_us == acked.now - delivered.now > 0
        old = scene.connect(V10)
        old.send("SUBSCRIBE", {"destination": T})
        old.publish(f"{T},/queue/b")
        assert told(notes.of("accepted")[1:], "destination") == [T, "/queue/b"]
        assert notes.rows[-2].has(event="delivered", subscription=None, ack_mode="auto", destination=T)

    def test_what_was_rejected_is_delivered_again(self, scene: Scene) -> None:
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe(Q, ack="client")
        client.publish(Q)
        client.nack(client.message(), reason="busy")
        for _ in range(2):
            client.publish(Q)
        client.ack(client.messages()[1])  # a cumulative one has a row for each
        found = told(notes.of("delivered", "nacked", "redelivered", "acked"), "event", "delivery_count", "reason")
        assert found == [
            ("delivered", 1, None),
            ("nacked", 1, "busy"),
            ("redelivered", 2, None),
            *[("delivered", 1, None)] * 2,
            ("acked", 2, None),
            ("acked", 1, None),
        ]
        first, again, acked = notes.of("accepted")[0], notes.one("redelivered"), notes.of("acked")
        assert again.queue_us == again.now - first.now
        assert acked[0].ack_us == acked[0].now - again.now
        assert told(acked, "number") == told(notes.of("accepted")[:2], "number")

    @pytest.mark.parametrize(
        ("destination", "headers"),
        [
            ("/topic/*", {}),
            ("/elsewhere/a", {}),
            ("/queue/a,/topic/*", {}),
            (Q, {"persistent": "perhaps"}),
            (Q, {"transaction": "none"}),
            (Q, {"user-id": "somebody else"}),
        ],
    )
    def test_what_was_refused_has_no_row(self, scene: Scene, destination: str, headers: dict[str, str]) -> None:
        notes = recorded(scene)
        client = scene.connect()
        client.publish(destination, b"", **headers)
        assert client.error()
        assert notes.events == ["connected", "error", "disconnected"]

    def test_a_delayed_one_is_accepted_when_its_time_comes_also_without_its_sender(self, scene: Scene) -> None:
        notes = recorded(scene)
        client = scene.connect()
        for _ in range(2):
            client.publish(Q, b"1", **{"x-delay": "1000", "dedup-id": "1"})  # a duplicate has no row
        client.publish(Q, b"2", **{"x-delay": "3000"})
        scene.wait(2.0)
        assert notes.one("accepted").has(body=b"1", session=client.session.id, transport="tcp")
        client.disconnect()
        scene.wait(2.0)
        late = notes.of("accepted")[1]
        assert late.has(body=b"2", session=client.session.id, transport=None, peer=None, principal=None)

    def test_the_recorder_says_if_it_is_behind(self, scene: Scene) -> None:
        notes = recorded(scene)
        for notes.is_behind in (False, True):
            assert scene.broker.records.is_behind is notes.is_behind


class TestTimes:
    """What the rows tell of times is added up, too."""

    def test_each_first_delivery_and_each_ack_counts(self, scene: Scene) -> None:
        notes = recorded(scene)
        client, records = scene.connect(), scene.broker.records
        client.subscribe(Q, ack=INDIVIDUAL)
        client.publish(Q)
        client.nack(client.message())
        client.ack(client.message())  # delivered again, which is not its way to the first receiver
        assert (records.waited.total, records.took.total) == (notes.one("delivered").queue_us, notes.rows[-1].ack_us)
        assert (sum(records.waited.counts), sum(records.took.counts)) == (1, 1)
        for _ in range(3):
            scene.connect().subscribe(T)
        client.publish(T, b"", retain="true")
        assert sum(records.waited.counts) == 4
        assert records.waited.total == sum([row.queue_us or 0 for row in notes.of("delivered")])
        client.subscribe(T, "retained")
        assert notes.rows[-1].queue_us is None
        assert sum(records.waited.counts) == 4

    def test_what_went_out_before_does_not_count(self, scene: Scene) -> None:
        notes = recorded(scene)
        client, records = scene.connect(), scene.broker.records
        client.subscribe(T, ack="client")
        client.publish(T)
        (subscription,) = client.session.subscriptions.acknowledging.values()
        assert subscription.ledger is not None
        (delivery,) = subscription.ledger.values()
        delivery.at = delivery.message.at = 0
        records.fanned_out([subscription], delivery.message)
        client.ack(client.message())
        assert notes.one("acked").ack_us is None
        assert sum(records.waited.counts) == 1
        assert records.took.total == sum(records.took.counts) == 0


class TestTopics:
    @small(recorded_names=2, recorded_destinations=1)
    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("headers", [{}, {"selector": "kind = 'x'"}])
    def test_what_a_pattern_reads_has_the_name_it_was_sent_to(
        self, scene: Scene, ack: str, headers: dict[str, str]
    ) -> None:
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe("/topic/#", "all", ack, **headers)
        for name in ["/topic/a", "/exchange/amq.topic/a", "/topic/b", "/topic/a"]:
            client.publish(name, kind="x")
        if ack == "client":
            client.ack(client.messages()[-1])
        expected = ["/topic/a", "/topic/a", "/topic/b", "/topic/a"]
        assert told(notes.of("accepted"), "destination") == expected
        assert told(notes.of("delivered"), "destination") == expected
        assert told(notes.of("acked"), "destination") == (expected if ack == "client" else [])
        client.unsubscribe("all")
        assert told(notes.of("subscribed", "unsubscribed"), "destination") == ["/topic/#"] * 2

    @pytest.mark.parametrize("name", [T, "/topic/*"])
    @pytest.mark.parametrize("headers", [{}, {"durable": "true"}])
    def test_what_waits_for_a_subscriber_ends_under_the_name_it_was_sent_to(
        self, stage: Stage, name: str, headers: dict[str, str]
    ) -> None:
        scene = stage({name: {"dead_letter": "/queue/dead", "time_to_live": 1.0, "max_attempts": 1}})
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe(name, ack="client", **{"prefetch-count": "1"}, **headers)
        for _ in range(3):
            client.publish("/exchange/amq.topic/a")
        client.nack(client.message())
        scene.wait(2.0)
        client.send("UNSUBSCRIBE", {"id": "0", **headers})
        ends = notes.of("dead_lettered", "expired", "dropped")
        assert told(ends, "event", "destination", "reason") == [
            ("dead_lettered", T, "max-attempts"),
            ("expired", T, None),
            ("expired", T, None) if headers else ("dropped", T, "queue-gone"),  # a durable one takes it back first
        ]

    def test_retained(self, stage: Stage) -> None:
        scene = stage(max_retained=1)
        notes = recorded(scene)
        client = scene.connect()
        client.publish(T, b"", retain="set", **{"x-delay": "100"})
        client.publish("/topic/b", b"two", retain="set", ttl="1000")
        scene.wait(0.5)
        dropped = notes.one("dropped")
        assert dropped.has(destination=T, reason="too many retained messages", delivery_count=0)
        client.subscribe("/topic/#", selector="TRUE")
        delivered = notes.one("delivered")
        assert delivered.has(destination="/topic/b", delivery_count=1, queue_us=None, size=3)
        scene.wait(1.0)
        assert notes.one("expired").has(destination="/topic/b", number=delivered.number, size=3)
        counters = scene.broker.counters
        assert counters.totals()["dropped"] == counters.expired == counters.delivered == 1

    def test_a_notice_about_a_pattern_has_the_name_of_the_pattern(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"log_messages": 1}})
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe("/topic/*", ack="client", resume="me")
        client.publish(T)
        client.ack(client.message())
        client.unsubscribe()
        scene.broker.registry.streams.forgotten = scene.broker.router.number + 5
        client.subscribe("/topic/*", ack="client", resume="me")
        notice = client.message()
        assert notice.headers["gap"] == "true"
        client.ack(notice)
        assert notes.rows[-1].has(event="acked", destination="/topic/*", number=number_of(notice.message_id))
        assert notes.counts["delivered"] == scene.broker.counters.delivered == 2


class TestEnds:
    """What becomes of messages that nobody consumes."""

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            ({"when_full": WhenFull.DROP_OLDEST}, [("dropped", b"1", "queue-full")]),
            ({"when_full": WhenFull.DROP_NEWEST}, [("dropped", b"2", "queue-full")]),
            ({"when_full": WhenFull.DEAD_LETTER}, [("dead_lettered", b"1", "queue-full")]),
            ({"when_full": WhenFull.DEAD_LETTER, "dead_letter": ""}, [("dropped", b"1", "queue-full")]),
            ({"conflate_by": "key"}, [("dropped", b"1", "conflated")]),
        ],
    )
    def test_limits(self, stage: Stage, policy: dict[str, object], expected: list[tuple[str, bytes, str]]) -> None:
        scene = stage({Q: {"max_messages": 1, **policy}})
        notes = recorded(scene)
        client = scene.connect()
        client.publish(Q, b"1", key="k")
        client.publish(Q, b"2", key="k")
        bodies = {row.number: row.body for row in notes.of("accepted")}
        found = notes.of("dropped", "dead_lettered")
        assert [(row.event, bodies[row.number], row.reason) for row in found] == expected
        assert found[0].has(destination=Q, size=1, delivery_count=0)
        assert found[0].queue_us == found[0].now - notes.one("accepted", number=found[0].number).now

    def test_a_dead_letter_goes_on_under_another_number(self, stage: Stage) -> None:
        scene = stage({Q: {"on_nack": OnNack.DEAD_LETTER}})
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe(Q, ack="client")
        client.publish(Q, b"1", key="k")
        client.nack(client.message(), reason="bad")
        client.subscribe("/queue/dlq.a", "dead")
        dead, delivered = notes.one("dead_lettered"), notes.one("delivered", subscription="dead")
        assert dead.has(destination=Q, number=notes.one("accepted").number, delivery_count=1, reason="rejected")
        assert dead.headers is not None
        assert {"key": "k", "reason": "bad", "dlq-source": Q}.items() <= dead.headers.items()
        assert delivered.number == number_of(client.message().message_id) != dead.number
        assert delivered.queue_us == delivered.now - dead.now - 1  # it is a message from then on
        assert notes.counts["accepted"] == 1

    def test_gone_with_their_queue(self, stage: Stage) -> None:
        scene = stage({Q: {"auto_delete": True}, "/queue/b": {"idle_timeout": 1.0}})
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe(Q, ack="client", **{"prefetch-count": "1"})
        client.subscribe(T, "t", ack="client", **{"prefetch-count": "1"})
        client.subscribe("/temp-queue/c", "c", ack="client", **{"prefetch-count": "1"})
        for name in [Q, "/queue/b", T, "/temp-queue/c"]:
            client.publish(name)
            client.publish(name)
        temporary = notes.of("accepted")[-1].destination
        client.disconnect()
        scene.wait(2.0)
        found = Counter(told(notes.of("dropped"), "destination", "reason", "delivery_count"))
        kept = {(name, "queue-gone", count): 1 for name in [Q, T, temporary] for count in [0, 1]}
        assert found == kept | {("/queue/b", "queue-gone", 0): 2}
        assert scene.broker.counters.drops["queue-gone"] == scene.broker.counters.totals()["dropped"] == 8

    @small(in_memory_bytes=1_000, purges_per_turn=2)
    def test_gone_with_what_the_store_alone_has(self, stage: Stage) -> None:
        scene = stage({Q: {"idle_timeout": 5.0}}, stored=True)
        notes = recorded(scene)
        client = scene.connect()
        for _ in range(6):
            client.publish(Q, b"1", **P)
        client.publish(Q, b"2", persistent="false")
        scene.commit()
        scene.wait(6.0)
        scene.commit()
        dropped = notes.of("dropped")
        assert sorted(told(dropped, "number")) == sorted(told(notes.of("accepted"), "number"))  # type: ignore[type-var]
        unknown = [row for row in dropped if row.size is None]
        assert len(unknown) > 2
        assert all(row.has(destination=Q, reason="queue-gone", delivery_count=None, queue_us=None) for row in unknown)
        assert scene.broker.counters.totals()["dropped"] == 7

    def test_of_an_earlier_process_the_time_is_not_known(self) -> None:
        notebook: list[Notebook] = []

        def make() -> Recorder:
            notebook.append(Notebook())
            return cast(Recorder, notebook[-1])

        scene = RecordedScene(make, stored=True)
        scene.connect().publish(Q, b"1", **P)
        scene.commit()
        again = scene.crash()
        client = again.connect()
        client.subscribe(Q, ack="client")
        again.commit()
        client.ack(client.message())
        assert notebook[0].counts["accepted"] == 1
        assert notebook[1].counts["accepted"] == 0
        assert notebook[1].one("delivered", "redelivered").has(queue_us=None, size=1, destination=Q)
        assert notebook[1].one("acked").ack_us is not None
        scene.finish()


def test_what_a_browser_gets_was_not_delivered_to_be_consumed(scene: Scene) -> None:
    notes = recorded(scene)
    client = scene.connect()
    client.publish(Q)
    client.subscribe(Q, "b", browser="true")
    first, end = client.messages()
    assert end.headers["browser"] == "end"
    row = notes.one("delivered", subscription="b")
    assert row.has(number=number_of(first.message_id), delivery_count=0, queue_us=None, destination=Q)
    assert scene.broker.counters.delivered == notes.counts["delivered"] == 1


class TestTransactions:
    def test_committed(self, scene: Scene) -> None:
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe(Q, ack=INDIVIDUAL)
        for _ in range(2):
            client.publish(Q)
        first, second = client.messages()
        client.begin("tx")
        client.publish("/queue/b", transaction="tx")
        client.ack(first, transaction="tx")
        client.nack(second, transaction="tx", requeue="false")
        assert notes.rows[-1].has(event="tx_begun", transaction="tx", session=client.session.id)
        before = len(notes.rows)
        client.commit("tx")
        assert told(notes.rows[before:], "event", "transaction") == [
            ("tx_committed", "tx"),
            ("accepted", "tx"),
            ("acked", "tx"),
            ("nacked", "tx"),
            ("dead_lettered", None),
        ]
        client.publish("/queue/b")
        assert notes.rows[-1].has(event="accepted", transaction=None)

    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            (lambda client: client.abort("tx"), None),
            (Client.disconnect, "session ended"),
            (Client.drop, "session ended"),
            (lambda client: client.send("COMMIT", {"transaction": "other"}), "session ended"),
        ],
    )
    def test_aborted(self, scene: Scene, end: Callable[[Client], None], reason: str | None) -> None:
        notes = recorded(scene)
        client = scene.connect()
        client.subscribe(Q, ack="client")
        client.publish(Q)
        client.begin("tx")
        client.publish("/queue/b", transaction="tx")
        client.ack(client.message(), transaction="tx")
        end(client)
        assert notes.one("tx_aborted").has(transaction="tx", reason=reason, session=client.session.id)
        assert notes.counts["accepted"] == 1
        assert not notes.of("acked", "tx_committed")


class TestSessions:
    def test_from_the_beginning_to_the_end(self, scene: Scene) -> None:
        notes = recorded(scene)
        client = scene.connect(transport="websocket")
        client.subscribe(Q, "a", ack="client")
        client.subscribe(T, "b")
        client.unsubscribe("a")
        client.disconnect()
        names = {"session": client.session.id, "transport": "websocket", "principal": "anonymous"}
        assert all(row.has(**names, peer="127.0.0.1:50000") for row in notes.rows)
        assert told(notes.rows, "event", "subscription", "ack_mode", "destination", "reason") == [
            ("connected", None, None, None, None),
            ("subscribed", "a", "client", Q, None),
            ("subscribed", "b", "auto", T, None),
            ("unsubscribed", "a", "client", Q, None),
            ("unsubscribed", "b", "auto", T, "session ended"),
            ("disconnected", None, None, None, None),
        ]

    @pytest.mark.parametrize(
        ("end", "error", "reason"),
        [
            (Client.disconnect, None, None),
            (Client.drop, None, "connection lost"),
            (lambda client: client.send("BOGUS"), "unknown command", "error"),
            (lambda client: client.end(SessionEnded("go away")), "go away", "error"),
        ],
    )
    def test_why_they_end(
        self, scene: Scene, end: Callable[[Client], None], error: str | None, reason: str | None
    ) -> None:
        notes = recorded(scene)
        client = scene.connect()
        end(client)
        scene.settle()
        assert told(notes.of("error"), "reason", "session") == ([(error, client.session.id)] if error else [])
        assert notes.one("disconnected").reason == reason

    def test_what_the_transports_tell(self, scene: Scene) -> None:
        notes = recorded(scene)
        client = scene.connect()
        told_of = scene.broker.records
        told_of.tell("heartbeat_missed", client.session)
        told_of.refused("tcp", "127.0.0.1:1", "ada", HeaderMissing("CONNECT", "host"))
        missed, refused = notes.rows[-2:]
        assert missed.has(event="heartbeat_missed", session=client.session.id, transport="tcp")
        assert refused.has(event="error", session=None, peer="127.0.0.1:1", principal="ada", transport="tcp")
        assert refused.reason == "CONNECT needs the header host"


def test_a_recorder_that_discards_all_costs_no_names(scene: Scene) -> None:
    scene.broker.records = EventLog(scene.broker.sessions, NullRecorder())
    client = scene.connect()
    client.subscribe("/topic/*", ack="client")
    client.publish(T)
    client.nack(client.message())
    client.ack(client.message())
    client.unsubscribe()
    assert client.session.names == b"-"
    assert not scene.broker.records.is_behind
