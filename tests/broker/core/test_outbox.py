"""Outbox: what waits to be written, the three marks in bytes, and what becomes of it when the client does not read."""

from __future__ import annotations

from typing import SupportsIndex

import pytest

from ..client import Client, Scene
from ..conftest import Stage

KIB = 1024
A, T = "/queue/a", "/topic/a"


def fill(producer: Client, count: int, destination: str = A, size: int = 0) -> list[bytes]:
    """Send so many numbered messages; returns their bodies."""
    bodies = [b"%d" % number + b" " * size for number in range(1, count + 1)]
    for body in bodies:
        producer.publish(destination, body)
    return bodies


@pytest.fixture
def pair(stage: Stage) -> tuple[Client, Client]:
    """A consumer and a producer; the consumer's marks are 1 KiB, 6 KiB and 8 KiB."""
    scene = stage(max_outbound=8 * KIB)
    return scene.connect(), scene.connect()


class TestParts:
    def test_frames_are_taken_in_order_with_their_parts_side_by_side(self, scene: Scene) -> None:
        outbox = scene.connect().session.outbox
        for data in (b"a", b"c", b"e"):
            outbox.append(data, data.upper())
        assert outbox.take(2) == [b"a", b"A"]
        outbox.written(2)
        assert outbox.take(2) == [b"c", b"C"]
        outbox.append(b"g")
        assert outbox.take() == [b"e", b"E", b"g", b""]
        assert outbox.take() == outbox.take(2) == []
        assert (outbox.size, outbox.frames) == (5, 4), "what is not written counts"
        outbox.written(4)
        assert outbox.size == 1

    def test_however_many_pieces_each_part_is_moved_once(self, scene: Scene) -> None:
        """An outbox of megabytes would else cost more with each piece that leaves it."""
        moved: list[int] = []

        class Counting(list[bytes]):
            def __getitem__(self, place: SupportsIndex | slice) -> list[bytes]:  # type: ignore[override]
                found = list.__getitem__(self, place)  # a slice
                moved.append(len(found))
                return Counting(found)

        outbox = scene.connect().session.outbox
        outbox.append(b"x" * 20_000)
        outbox.parts = Counting([b"x"] * 20_000)
        for _ in range(200):
            assert outbox.take(100) == [b"x"] * 100
            outbox.append(b"y")
        assert sum(moved) == 20_000
        assert outbox.take() == [b"y", b""] * 200

    @pytest.mark.parametrize("hands_over", [True, False])
    def test_at_the_end_it_is_empty_and_stays_so(self, scene: Scene, hands_over: bool) -> None:
        outbox = scene.connect().session.outbox
        for data in (b"1", b"2", b"3"):
            outbox.append(data)
        outbox.take(2)
        outbox.append(b"4")
        scene.broker.dirty.clear()
        if hands_over:
            assert outbox.hand_over() == [[b"1", b"", b"2", b"", b"3", b""], [b"4", b""]]
            assert outbox.hand_over() == [[], []]
        outbox.close()
        outbox.append(b"z")
        assert outbox.take(2) == outbox.take() == []
        assert outbox.size == 0


class TestWindow:
    """A queue does not fill the outbox of a client that does not read; others can have what it does not get."""

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_over_the_window_messages_wait_in_the_queue(self, pair: tuple[Client, Client], ack: str) -> None:
        client, producer = pair
        outbox, context = client.session.outbox, client.scene.broker.context
        assert (outbox.window, outbox.relief, outbox.high, outbox.limit) == (1 * KIB, 3 * KIB, 6 * KIB, 8 * KIB)
        client.subscribe(A, ack=ack)
        client.stalled = True
        bodies = fill(producer, 20, size=200)
        assert 1 * KIB <= outbox.size < 2 * KIB
        assert 10 < context.waiting < 20
        client.resume()
        assert client.bodies() == bodies
        assert context.waiting == 0

    def test_a_queue_goes_on_below_the_window_and_not_before(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe(A)
        client.stalled = True
        bodies = fill(producer, 20, size=200)
        outbox, context, found = client.session.outbox, client.scene.broker.context, 0
        while outbox.size:
            found += b"".join(outbox.take()).count(b"\0")
            waiting = context.waiting
            while outbox.size > outbox.window:
                outbox.written(1)
            assert context.waiting == waiting
            outbox.written(1)
            assert context.waiting < waiting or not waiting
            outbox.written(min(100, outbox.size))
        assert found == len(bodies)

    def test_one_with_a_smaller_window_does_not_hold_up_the_others(self, stage: Stage) -> None:
        """A subscriber that gets the newest messages only starves earlier, and comes back at once."""
        scene = stage({T: {"slow_consumer": "drop-oldest"}}, max_outbound=512 * KIB)
        client, producer = scene.connect(), scene.connect()
        client.subscribe(T, "news")
        client.subscribe(A, "all")
        client.stalled = True
        bodies = fill(producer, 30, T, size=1_000)
        fill(producer, 100, size=1_000)
        nbytes = drained(client, 10_000)
        assert nbytes.count(b"subscription:news") == len(bodies)
        assert nbytes.count(b"subscription:all") == 100

    def test_one_that_has_room_again_may_be_the_end_of_another(self, pair: tuple[Client, Client]) -> None:
        """A reader that was starved beside its subscription, and has nothing more to give: found by the model."""
        outbox = pair[0].session.outbox

        class Starved:
            def offer(self) -> None:
                outbox.starved.clear()

        outbox.starved |= {Starved(): None, Starved(): None}
        outbox.feed_starved()
        assert not outbox.starved


def drained(client: Client, most: int) -> bytes:
    """All that a client gets, whose socket takes so many bytes at a time."""
    outbox, nbytes = client.session.outbox, b""
    while outbox.size:
        nbytes += b"".join(outbox.take())
        outbox.written(min(most, outbox.size))
    return nbytes


@pytest.mark.parametrize("destination", [A, T])
def test_while_a_broken_connection_ends_queues_leave_it_out(pair: tuple[Client, Client], destination: str) -> None:
    client, producer = pair
    client.subscribe(destination)
    client.session.outbox.close()
    bodies = fill(producer, 3, destination)
    assert client.scene.broker.context.waiting == (3 if destination == A else 0)
    producer.subscribe(destination)
    assert producer.bodies() == (bodies if destination == A else [])
    client.drop()


class TestHigh:
    """A topic does not wait: it fills the outbox, and the publisher is told to."""

    def test_over_the_mark_it_is_strained_and_not_closed(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe(T)
        client.stalled = True
        outbox, slow = client.session.outbox, client.scene.broker.context.slow_consumers
        bodies = []
        while outbox.size <= outbox.high:
            assert not slow.strained
            bodies += fill(producer, 1, T, size=500)
        assert slow.take_strained() == {outbox}
        assert slow.take_strained() == set()
        bodies += fill(producer, 40, T, size=500)
        assert slow.strained == {outbox}
        assert outbox.size > outbox.limit
        client.resume()
        assert client.bodies() == bodies

    def test_one_that_is_excused_is_closed_over_the_limit(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        for each in pair:
            each.subscribe(T)
        client.stalled = True
        outbox, scene = client.session.outbox, client.scene
        outbox.excused = True
        while not client.closed:
            assert outbox.size <= outbox.limit
            fill(producer, 1, T, size=500)
        (failure,) = client.failures
        assert str(failure) == "slow consumer"
        assert "(max_outbound)" in failure.detail
        assert not scene.broker.context.slow_consumers.strained
        assert len(producer.messages()) > 10

    def test_it_is_closed_once_however_much_is_still_sent(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe(T)
        client.stalled = True
        client.session.outbox.excused = True
        producer.receive((b"SEND\ndestination:/topic/a\n\n" + b"x" * 9_000 + b"\0") * 4)
        counters = client.scene.broker.counters
        assert (len(client.failures), counters.slow_consumers, counters.totals()["errors"]) == (1, 1, 1)
        assert client.scene.broker.context.slow_consumers.by_limit["max_outbound"] == 1

    def test_one_that_reads_again_is_excused_no_longer(self, pair: tuple[Client, Client]) -> None:
        client, producer = pair
        client.subscribe(T)
        client.stalled = True
        fill(producer, 13, T, size=500)
        outbox = client.session.outbox
        outbox.excused = True
        outbox.take()
        outbox.written(outbox.size - outbox.relief - 1)
        assert outbox.excused
        outbox.written(1)
        assert not outbox.excused
