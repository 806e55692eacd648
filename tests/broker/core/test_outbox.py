"""The outbox: what waits to be written, the three marks in bytes, and what becomes of it when nobody reads."""

from __future__ import annotations

import pytest

from gateway.codec import Version

from ..client import Client, Scene
from ..conftest import Stage

KIB = 1024


def fill(producer: Client, count: int, destination: str = "/queue/a", size: int = 0) -> list[bytes]:
    """Send so many numbered messages; returns their bodies."""
    bodies = [b"%d" % number + b" " * size for number in range(1, count + 1)]
    for body in bodies:
        producer.publish(destination, body)
    return bodies


@pytest.fixture
def pair(stage: Stage, version: Version) -> tuple[Client, Client]:
    """A consumer and a producer; the consumer's marks are 1 KiB, 6 KiB and 8 KiB."""
    scene = stage(max_outbound=8 * KIB)
    return scene.connect(version), scene.connect(version)


class TestOutbox:
    def test_frames_are_taken_in_order_with_their_parts_side_by_side(self, scene: Scene) -> None:
        outbox = scene.connect().session.outbox
        outbox.append(b"a", b"b")
        outbox.append(b"c")
        assert outbox.take() == [b"a", b"b", b"c", b""]
        assert outbox.take() == []

    def test_a_part_can_be_taken(self, scene: Scene) -> None:
        outbox = scene.connect().session.outbox
        for data in (b"a", b"c", b"e"):
            outbox.append(data, data.upper())
        assert outbox.take(2) == [b"a", b"A"]
        outbox.written(2)
        assert outbox.take(2) == [b"c", b"C"]
        assert outbox.take(2) == [b"e", b"E"]
        assert outbox.take(2) == []
        assert outbox.size == 4

    def test_what_was_not_taken_is_not_on_its_way(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/queue/a")
        client.stalled = True
        fill(producer, 3)
        client.session.outbox.take(2)
        client.drop()
        producer.subscribe("/queue/a")
        assert [each.redelivered for each in producer.messages()] == [True, False, False]

    def test_the_size_falls_when_octets_are_written_not_when_they_are_taken(self, scene: Scene) -> None:
        outbox = scene.connect().session.outbox
        outbox.append(b"12", b"345")
        outbox.take()
        outbox.append(b"6")
        assert outbox.size == 6
        outbox.written(4)
        assert outbox.size == 2

    def test_it_reports_itself_once_per_flush(self, scene: Scene) -> None:
        outbox = scene.connect().session.outbox
        for _ in range(2):
            for _ in range(3):
                outbox.append(b"x")
            assert list(scene.broker.dirty) == [outbox]
            scene.broker.dirty.clear()
            outbox.take()

    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_messages_report_it_too(self, pair: tuple[Client, Client], destination: str) -> None:
        client, producer = pair
        client.subscribe(destination)
        producer.receive(f"SEND\ndestination:{destination}\n\n1\0".encode() * 3)
        assert len(client.messages()) == 3

    def test_what_comes_after_the_end_is_thrown_away(self, scene: Scene) -> None:
        outbox = scene.connect().session.outbox
        outbox.append(b"x")
        outbox.take()
        scene.broker.dirty.clear()
        outbox.append(b"y")
        outbox.close()
        outbox.append(b"z")
        assert outbox.take() == []
        assert outbox.size == 0

    def test_the_marks(self, stage: Stage) -> None:
        outbox = stage(max_outbound=8 * KIB).connect().session.outbox
        assert (outbox.window, outbox.relief, outbox.high, outbox.limit) == (
            1 * KIB,
            3 * KIB,
            6 * KIB,
            8 * KIB,
        )


class TestWindow:
    """A queue does not fill the outbox of a client that does not read; what it does not get others can have."""

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_over_the_window_messages_wait_in_the_queue(self, pair: tuple[Client, Client], ack: str) -> None:
        client, producer = pair
        client.subscribe("/queue/a", ack=ack)
        client.stalled = True
        bodies = fill(producer, 20, size=200)
        assert 1 * KIB <= client.session.outbox.size < 2 * KIB
        assert 10 < client.scene.broker.context.waiting < 20
        client.resume()
        assert client.bodies() == bodies
        assert client.scene.broker.context.waiting == 0

    def test_a_subscription_that_comes_to_a_full_outbox_waits_too(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/topic/a", "0")
        client.stalled = True
        fill(producer, 10, "/topic/a", size=200)
        bodies = fill(producer, 3)
        client.subscribe("/queue/a", "1")
        assert client.scene.broker.context.waiting == 3
        client.resume()
        assert [each.body for each in client.messages() if each.subscription == "1"] == bodies

    def test_others_get_them(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/queue/a")
        producer.subscribe("/queue/a")
        client.stalled = True
        bodies = fill(producer, 40, size=200)
        share = producer.bodies()
        assert len(share) > 30
        client.resume()
        assert sorted(client.bodies() + share, key=int) == bodies
        fill(producer, 4)
        assert len(client.messages()) == len(producer.messages()) == 2

    def test_all_starved_subscriptions_go_on(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        queues = [f"/queue/{number}" for number in range(5)]
        for id, queue in enumerate(queues):
            client.subscribe(queue, str(id), ack="client" if id % 2 else "auto")
        client.stalled = True
        bodies = {queue: fill(producer, 5, queue, size=200) for queue in queues}
        assert client.scene.broker.context.waiting > 15
        client.resume()
        messages = client.messages()
        for queue in queues:
            assert [each.body for each in messages if each.headers["destination"] == queue] == bodies[queue]

    def test_octet_by_octet(self, pair: tuple[Client, Client]) -> None:
        """The socket takes little at a time: the queue goes on below the window, not before."""
        client, producer = pair
        client.subscribe("/queue/a")
        client.stalled = True
        bodies = fill(producer, 20, size=200)
        outbox = client.session.outbox
        found = 0
        while outbox.size:
            found += b"".join(outbox.take()).count(b"\0")
            waiting = client.scene.broker.context.waiting
            while outbox.size > outbox.window:
                outbox.written(1)
            assert client.scene.broker.context.waiting == waiting
            outbox.written(1)
            assert client.scene.broker.context.waiting < waiting or not waiting
            outbox.written(min(100, outbox.size))
        assert found == len(bodies)

    def test_acks_while_nothing_is_read_change_nothing(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/queue/a", ack="client")
        fill(producer, 1)
        message = client.message()
        client.stalled = True
        fill(producer, 20, size=200)
        waiting = client.scene.broker.context.waiting
        client.ack(message)
        assert client.scene.broker.context.waiting == waiting > 0
        client.resume()
        assert len(client.messages()) == 20

    def test_a_starved_subscription_may_leave(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/queue/a", ack="client")
        client.stalled = True
        bodies = fill(producer, 20, size=200)
        client.unsubscribe()
        client.resume()
        assert len(client.messages()) < 20
        producer.subscribe("/queue/a")
        assert producer.bodies() == bodies

    def test_it_is_starved_once_however_often_it_was_found_full(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        fill(producer, 3)
        client.subscribe("/topic/a", "0")
        client.stalled = True
        fill(producer, 10, "/topic/a", size=200)
        for _ in range(100):
            client.subscribe("/queue/a", "1")
            client.unsubscribe("1")
        client.subscribe("/queue/a", "1")
        assert len(client.session.outbox.starved) == 1
        client.resume()
        assert len([message for message in client.messages() if message.subscription == "1"]) == 3

    def test_those_that_starve_take_turns(self, pair: tuple[Client, Client]) -> None:
        """The one that was left out first goes on first, and fills the window again."""
        client, producer = pair
        queues = ["/queue/a", "/queue/b"]
        for queue in queues:
            client.subscribe(queue, queue)
        client.stalled = True
        for _ in range(20):
            for queue in queues:
                fill(producer, 1, queue, size=600)
        outbox, nbytes = client.session.outbox, b""
        while outbox.size:
            nbytes += b"".join(outbox.take())
            outbox.written(outbox.size)
        order = [line for line in nbytes.split(b"\n") if line.startswith(b"subscription")]
        assert len(order) == 40
        assert max(order[:start].count(order[0]) - start // 2 for start in range(0, 41, 2)) <= 3

    def test_one_with_a_smaller_window_does_not_hold_up_the_others(self, stage: Stage) -> None:
        """A subscriber that gets news only starves earlier, and comes back at once."""
        scene = stage({"/topic/a": {"slow_consumer": "drop-oldest"}}, max_outbound=512 * KIB)
        client, producer = scene.connect(), scene.connect()
        client.subscribe("/topic/a", "news")
        client.subscribe("/queue/a", "all")
        client.stalled = True
        bodies = fill(producer, 30, "/topic/a", size=1_000)
        fill(producer, 100, size=1_000)
        outbox, nbytes = client.session.outbox, b""
        while outbox.size:
            nbytes += b"".join(outbox.take())
            outbox.written(min(10_000, outbox.size))
        assert nbytes.count(b"subscription:news") == len(bodies)
        assert nbytes.count(b"subscription:all") == 100


class TestBrokenConnection:
    """The transport found out that the connection is gone; the session's end comes a little later."""

    def test_queues_leave_it_out(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/queue/a")
        client.session.outbox.close()
        bodies = fill(producer, 3)
        assert client.scene.broker.context.waiting == 3
        producer.subscribe("/queue/a")
        assert producer.bodies() == bodies

    def test_topics_write_into_the_void(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        for each in pair:
            each.subscribe("/topic/a")
        client.session.outbox.close()
        producer.publish("/topic/a", b"m")
        assert producer.bodies() == [b"m"]
        client.drop()


class TestHigh:
    """A topic does not wait: it fills the outbox, and whoever publishes is told to."""

    def test_over_the_mark_it_is_strained(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/topic/a")
        client.stalled = True
        outbox, strained = client.session.outbox, client.scene.broker.context.slow_consumers.strained
        while outbox.size <= outbox.high:
            assert not strained
            fill(producer, 1, "/topic/a", size=500)
        assert client.scene.broker.context.slow_consumers.take_strained() == {outbox}
        assert client.scene.broker.context.slow_consumers.take_strained() == set()
        strained = client.scene.broker.context.slow_consumers.strained
        fill(producer, 5, "/topic/a")
        assert list(strained) == [outbox]
        client.resume()
        assert outbox.size == 0

    def test_who_never_reads_its_receipts_strains_its_own(self, pair: tuple[Client, Client]) -> None:
        client, _ = pair
        client.stalled = True
        outbox, strained = client.session.outbox, client.scene.broker.context.slow_consumers.strained
        while outbox.size <= outbox.high:
            assert not strained
            client.publish("/topic/a", receipt="r" * 1_000)
        assert set(strained) == {outbox}

    def test_one_who_is_waited_for_is_not_closed(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/topic/a")
        client.stalled = True
        bodies = fill(producer, 40, "/topic/a", size=500)
        assert client.session.outbox.size > client.session.outbox.limit
        client.resume()
        assert client.bodies() == bodies

    @pytest.mark.parametrize("destination", ["/topic/a", "/topic/b"])
    def test_one_who_is_excused_is_closed_over_the_limit(self, pair: tuple[Client, Client], destination: str) -> None:
        client, producer = pair
        client.subscribe(destination)
        producer.subscribe(destination)
        client.stalled = True
        outbox = client.session.outbox
        outbox.excused = True
        while not client.closed:
            assert outbox.size <= outbox.limit
            fill(producer, 1, destination, size=500)
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert "(max_outbound)" in failure.detail
        assert client.scene.broker.counters.slow_consumers == 1
        assert not client.scene.broker.context.slow_consumers.strained
        assert len(producer.messages()) > 10

    def test_and_only_once_however_much_its_neighbours_still_send(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/topic/a")
        client.stalled = True
        client.session.outbox.excused = True
        large = b"SEND\ndestination:/topic/a\n\n" + b"x" * 9_000 + b"\0"
        producer.receive(large * 4)
        assert len(client.failures) == 1
        assert client.scene.broker.counters.slow_consumers == 1
        assert client.scene.broker.counters.errors == 1

    def test_one_who_reads_again_is_excused_no_longer(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe("/topic/a")
        client.stalled = True
        fill(producer, 13, "/topic/a", size=500)
        outbox = client.session.outbox
        outbox.excused = True
        outbox.take()
        outbox.written(outbox.size - outbox.relief - 1)
        assert outbox.excused
        outbox.written(1)
        assert not outbox.excused


def test_one_that_has_room_again_may_be_the_end_of_another(pair: tuple[Client, Client]) -> None:
    """A reader that was starved beside its subscription, and has nothing more to give: found by the model."""
    outbox = pair[0].session.outbox

    class Starved:
        def offer(self) -> None:
            outbox.starved.clear()

    outbox.starved |= {Starved(): None, Starved(): None}
    outbox.append(b"octets")
    pair[0].flush()
    assert not outbox.starved
