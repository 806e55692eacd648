"""Connections that end without a word: what their clients were at work on has failed, as after a NACK.

The message a client was probably at work on is the oldest that it did not acknowledge, in each of its subscriptions.
With one attempt allowed, a failure shows at once: the message is in the dead-letter queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.broker import Quotas
from gateway.broker.errors import SessionEnded
from gateway.broker.queue.queue import Queue
from gateway.config.settings import Settings
from gateway.runtime.gateway import open_gateway

from .house import House, Valve
from .peers import Peer, dial, frame, vanish

parametrize = pytest.mark.parametrize
MakeHouse = Callable[..., House]
End = Callable[[House, Peer, Valve], Awaitable[None]]

ONE_ATTEMPT = {"#": {"max_attempts": 1}}


@pytest.fixture
async def house(make_house: MakeHouse) -> House:
    """Where the first failure is the last."""
    return make_house(policies=ONE_ATTEMPT)


def waiting(house: House, name: str) -> list[bytes]:
    queue = house.broker.destinations.get(name)
    if queue is None:
        return []
    assert isinstance(queue, Queue)
    return [message.body for message in queue.in_memory.ready_lists[0].messages()]


async def closes(house: House, peer: Peer, valve: Valve) -> None:
    valve.hang_up(broken=False)


async def breaks(house: House, peer: Peer, valve: Valve) -> None:
    valve.hang_up()


async def falls_silent(house: House, peer: Peer, valve: Valve) -> None:
    await trio.sleep(3)
    assert house.counters.heartbeat_timeouts == 1


async def falls_silent_and_takes_nothing(house: House, peer: Peer, valve: Valve) -> None:
    valve.room = 0
    await trio.sleep(15)
    assert house.counters.heartbeat_timeouts == 1


async def sends_nonsense(house: House, peer: Peer, valve: Valve) -> None:
    await peer.send(b"HELLO\n\n\0")


async def disconnects(house: House, peer: Peer, valve: Valve) -> None:
    await peer.send_frame("DISCONNECT")
    await peer.at_end()
    valve.hang_up()


async def unsubscribes(house: House, peer: Peer, valve: Valve) -> None:
    await peer.send_frame("UNSUBSCRIBE", id=1)


async def is_sent_away(house: House, peer: Peer, valve: Valve) -> None:
    house.connections[0].end(SessionEnded("session ended", "go home"))


async def is_drained(house: House, peer: Peer, valve: Valve) -> None:
    house.server.draining = True
    house.connections[0].end(SessionEnded("server is shutting down", retry_after=2000))
    await wait_all_tasks_blocked()
    valve.hang_up()  # before it has read its ERROR


LOST = [closes, breaks, falls_silent, falls_silent_and_takes_nothing, sends_nonsense]
KEPT = [disconnects, unsubscribes, is_sent_away, is_drained]


class TestConsumer:
    """It has acknowledged the first of four messages when it ends."""

    async def at_work(self, house: House, kind: str, valve: Valve, ack: str = "client") -> Peer:
        peer = house.visit_through(kind, valve)
        await peer.connect(heart_beat="1000,0")
        await peer.subscribe("/queue/a", ack=ack)
        await peer.send(b"".join(frame("SEND", b"%d" % number, destination="/queue/a") for number in range(4)))
        messages = [await peer.frame("MESSAGE") for _ in range(4)]
        await peer.send_frame("ACK", id=messages[0]["ack"])
        await peer.settled()
        return peer

    @parametrize("end", LOST)
    @parametrize("ack", ["client", "client-individual"])
    async def test_lost(self, house: House, kind: str, ack: str, end: End, autojump_clock: MockClock) -> None:
        """The oldest has failed, the others come back as they are."""
        valve = Valve()
        await end(house, await self.at_work(house, kind, valve, ack), valve)
        await wait_all_tasks_blocked()
        assert waiting(house, "/queue/dlq.a") == [b"1"]
        assert waiting(house, "/queue/a") == [b"2", b"3"]
        other = await house.session(kind)
        (letter,) = await other.subscribe_and_read("/queue/dlq.a", 1)
        assert (letter["dlq-reason"], letter["dlq-source"], letter["dlq-attempts"]) == ("max-attempts", "/queue/a", "1")

    @parametrize("end", KEPT)
    async def test_it_took_its_leave(self, house: House, kind: str, end: End, autojump_clock: MockClock) -> None:
        """DISCONNECT, UNSUBSCRIBE, an operator and a drain say nothing of the messages."""
        valve = Valve()
        peer = await self.at_work(house, kind, valve)
        await end(house, peer, valve)
        await wait_all_tasks_blocked()
        assert waiting(house, "/queue/dlq.a") == []
        assert waiting(house, "/queue/a") == [b"1", b"2", b"3"]

    async def test_once_more_and_once_more(self, make_house: MakeHouse, kind: str, autojump_clock: MockClock) -> None:
        """A message that brings down whoever gets it comes to an end, and at once: a lost client is no reason to
        wait before another one tries."""
        house = make_house(policies={"#": {"max_attempts": 3, "backoff": 30.0}})
        publisher = await house.session(kind)
        for number in range(3):
            await publisher.publish("/queue/a", b"%d" % number)
        for attempt in range(1, 4):
            valve = Valve()
            peer = house.visit_through(kind, valve)
            await peer.connect()
            messages = await peer.subscribe_and_read("/queue/a", 3, ack="client")
            assert [message.body for message in messages] == [b"0", b"1", b"2"]
            assert {message.headers.get("delivery-count", "1") for message in messages} == {str(attempt)}
            valve.hang_up()
            await wait_all_tasks_blocked()
        assert (waiting(house, "/queue/dlq.a"), waiting(house, "/queue/a")) == ([b"0"], [b"1", b"2"])
        assert trio.current_time() == pytest.approx(0.0, abs=0.05)

    async def test_the_oldest_of_each_subscription(self, house: House, kind: str) -> None:
        valve = Valve()
        peer = house.visit_through(kind, valve)
        await peer.connect()
        for number, name in enumerate(("/queue/a", "/queue/b", "/queue/c")):
            await peer.subscribe(name, id=number, ack="auto" if name == "/queue/c" else "client")
            for body in (b"1", b"2"):
                await peer.publish(name, body)
                await peer.frame("MESSAGE")
        valve.hang_up()
        await wait_all_tasks_blocked()
        assert waiting(house, "/queue/dlq.a") == waiting(house, "/queue/dlq.b") == [b"1"]
        assert waiting(house, "/queue/a") == waiting(house, "/queue/b") == [b"2"]
        assert house.broker.context.waiting == 4

    async def test_what_never_went_out_has_not_failed(self, house: House, kind: str) -> None:
        """Mode auto: no client was at work on it."""
        valve = Valve()
        peer, publisher = house.visit_through(kind, valve), await house.session(kind)
        await peer.connect()
        await peer.subscribe("/queue/a")
        valve.room = 0
        for number in range(5):
            await publisher.publish("/queue/a", b"%d" % number)
        await publisher.settled()
        valve.hang_up()
        await wait_all_tasks_blocked()
        assert waiting(house, "/queue/dlq.a") == []
        assert waiting(house, "/queue/a") == [b"%d" % number for number in range(5)]

    @parametrize("end", [breaks, sends_nonsense, falls_silent])
    async def test_a_dead_letter_that_finds_no_room_holds_nobody(
        self, make_house: MakeHouse, kind: str, end: End, autojump_clock: MockClock
    ) -> None:
        """It fills its queue; those who come next did not send it."""
        house = make_house(policies=ONE_ATTEMPT | {"/queue/dlq.a": {"max_messages": 1}})
        valve = Valve()
        peer, other = await self.at_work(house, kind, valve), await house.session(kind)
        await end(house, peer, valve)
        await wait_all_tasks_blocked()
        assert waiting(house, "/queue/dlq.a") == [b"1"]
        began = trio.current_time()
        for _ in range(3):
            await other.settled()
        assert trio.current_time() - began < 0.1

    async def test_in_a_transaction(self, house: House, kind: str) -> None:
        """What an open transaction held comes back unharmed; the one behind it is the oldest it was at work on."""
        valve = Valve()
        peer = house.visit_through(kind, valve)
        await peer.connect()
        await peer.subscribe("/queue/a", ack="client-individual")
        await peer.send_frame("BEGIN", transaction="t")
        for body in (b"1", b"2", b"3"):
            await peer.publish("/queue/a", body)
            message = await peer.frame("MESSAGE")
            if body == b"1":
                await peer.send_frame("ACK", id=message["ack"], transaction="t")
        await peer.settled()
        valve.hang_up()
        await wait_all_tasks_blocked()
        failed = waiting(house, "/queue/dlq.a")
        assert sorted([*failed, *waiting(house, "/queue/a")]) == [b"1", b"2", b"3"]
        assert len(failed) == 1

    async def test_a_slow_consumer_that_is_cut(
        self, make_house: MakeHouse, kind: str, autojump_clock: MockClock
    ) -> None:
        """It did not say goodbye either."""
        house = make_house(policies=ONE_ATTEMPT, quotas=Quotas(max_outbound=64_000))
        valve = Valve()
        peer, publisher = house.visit_through(kind, valve), await house.session(kind)
        await peer.connect()
        await peer.subscribe("/queue/a", id=1, ack="client")
        await peer.subscribe("/topic/a", id=2)
        await peer.publish("/queue/a", b"1")
        await peer.frame("MESSAGE")
        valve.room = 0
        for _ in range(20):
            await publisher.publish("/topic/a", b"x" * 8000)
            await publisher.settled()
        await wait_all_tasks_blocked()
        assert valve.closed
        assert waiting(house, "/queue/dlq.a") == [b"1"]

    async def test_over_sockets(self, kind: str) -> None:
        """A reset by one, a drain for the other, of a whole gateway."""
        values = {"tcp": "127.0.0.1:0", "websocket": "127.0.0.1:0", "close_linger": 0.0, "drain_timeout": 5.0}
        policies = [{"match": "/queue/#", "max_attempts": 1}]
        settings = Settings(**values, policy=policies)  # type: ignore[arg-type]
        async with open_gateway(settings, authenticator=Anonymous()) as gateway:
            address = gateway.addresses[kind][0]
            vanishing, staying, observer = [await dial(kind, address) for _ in range(3)]
            for peer, name in ((vanishing, "/queue/a"), (staying, "/queue/b")):
                await peer.connect()
                await peer.subscribe(name, ack="client")
                await peer.publish(name, b"x")
                await peer.frame("MESSAGE")
            await observer.connect()
            assert isinstance(vanishing.wire.stream, trio.SocketStream)
            vanish(vanishing.wire.stream)
            await observer.subscribe_and_read("/queue/dlq.a", 1)
        assert set(gateway.broker.destinations) == {"/queue/b"}
        for peer in (staying, observer):
            await peer.aclose()


class TestTemporaries:
    """A session's temporary destinations go with it, whatever ends it."""

    @parametrize("end", [closes, breaks, falls_silent, sends_nonsense, disconnects, is_drained])
    @parametrize("explicit", [True, False])
    async def test_queue(self, house: House, kind: str, end: End, explicit: bool, autojump_clock: MockClock) -> None:
        """Answers that come too late are not kept."""
        valve = Valve()
        asking, answering = house.visit_through(kind, valve), await house.session(kind)
        await asking.connect(heart_beat="1000,0")
        await answering.subscribe("/queue/requests")
        if explicit:
            await asking.subscribe("/temp-queue/answers", ack="client-individual")
        await asking.publish("/queue/requests", b"?", reply_to="/temp-queue/answers")
        name = (await answering.frame("MESSAGE"))["reply-to"]
        await answering.publish(name, b"!")
        answer = await asking.frame("MESSAGE")
        assert (answer.body, answer["subscription"]) == (b"!", "1" if explicit else "/temp-queue/answers")
        assert name in house.broker.destinations
        await end(house, asking, valve)
        await wait_all_tasks_blocked()
        assert set(house.broker.destinations) == {"/queue/requests"}
        await answering.publish(name, b"too late")
        await answering.settled()
        assert set(house.broker.destinations) == {"/queue/requests"}
        assert (house.broker.context.waiting, house.broker.memory.used) == (0, 0)

    async def test_topic(self, house: House, kind: str) -> None:
        peer = await house.session(kind)
        await peer.subscribe("/temp-topic/news")
        await peer.publish("/temp-topic/news", b"x")
        assert (await peer.frame("MESSAGE")).body == b"x"
        await peer.aclose()
        await wait_all_tasks_blocked()
        assert not house.broker.destinations
        assert not house.broker.registry.temporaries
