"""Who may be here at once: by their number, their address, their user, and those that have not logged in yet."""

from __future__ import annotations

import random
import resource
import weakref
from collections import Counter

import pytest
import structlog
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.errors import NotAllowed
from gateway.codec import ProtocolError
from gateway.config.settings import load
from gateway.runtime.gateway import open_gateway
from gateway.transports import TransportOptions
from gateway.transports.flow.connection_limits import AtEdges, Capacity, ConnectionLimits, Slot, room_for, within_files

from .harness import MakeHarness, Slow
from .peers import UPGRADE, dial, dial_stream, read_all, until


class Door:
    """Connection limits, and the names of the connections that had to go."""

    def __init__(self, **limits: int) -> None:
        self.admission = ConnectionLimits(Capacity(**limits))  # type: ignore[arg-type]
        self.evicted: list[str] = []

    def enter(self, address: str = "10.0.0.1", name: str = "") -> Slot:
        def evict(error: ProtocolError) -> None:
            assert "(max_handshakes)" in error.detail
            self.evicted.append(name or address)

        slot = self.admission.enter(address, evict)
        slot.comes_from(address)
        return slot


class TestConnections:
    async def test_a_refused_client_is_no_connection(self) -> None:
        door = Door(max_connections=1, max_handshakes=1, most_turned_away=3)
        door.enter()
        refused = [door.enter() for _ in range(3)]
        assert (door.admission.connections, door.admission.handshakes) == (1, 1)
        assert door.admission.turned_away == len(refused)
        assert not refused[-1].closes_at_once
        assert door.enter().closes_at_once, "and of too many, not even that"
        refused[0].leave()
        assert not refused[1].closes_at_once
        assert door.admission.refusals["max_connections"] == len(refused) + 1


class TestAddresses:
    async def test_nothing_is_left_of_a_closed_connection(self) -> None:
        door = Door(max_connections_per_address=1, max_connections_per_user=1)
        for number in range(10):
            slot = door.enter(f"10.0.0.{number}")
            slot.logs_in(f"user-{number}")
            slot.leave()
        found = door.admission
        assert (found.connections, found.handshakes, found._by_network, found._by_user) == (0, 0, {}, {})
        assert (found.handshake_rows._rows, found.handshake_rows._networks, found.handshake_rows._most) == ({}, {}, 0)

    async def test_each_address_has_its_own(self) -> None:
        door = Door(max_connections_per_address=2)
        guests = [door.enter(address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.1")]
        assert [slot.refusal is None for slot in guests] == [True, True, True, False]
        refusal = guests[3].refusal
        assert refusal is not None
        sentence = "10.0.0.1 has 2 connections, as many as one address may (max_connections_per_address)"
        assert (refusal.detail, guests[3].status) == (sentence, 429)
        guests[0].leave()
        assert door.enter("10.0.0.1").refusal is None

    async def test_the_one_that_a_proxy_names(self) -> None:
        """Until it does, the proxy's own is not limited."""
        door = Door(max_connections_per_address=1)
        guests = [door.admission.enter("10.0.0.1", lambda error: None) for _ in range(3)]
        for slot, address in zip(guests, ("1.1.1.1", "2.2.2.2", "1.1.1.1"), strict=True):
            slot.comes_from(address)
        assert [slot.refusal is None for slot in guests] == [True, True, False]


class TestHandshakes:
    async def test_a_refused_client_does_not_log_in(self) -> None:
        """Its authenticator may have answered at that moment."""
        door = Door(max_handshakes=1)
        late = door.enter()
        door.enter()
        with pytest.raises(NotAllowed, match="too many handshakes"):
            late.logs_in("ann")
        late.leave()
        assert door.admission.turned_away == 0

    async def test_what_has_logged_in_at_an_edge_is_none(self) -> None:
        limits = ConnectionLimits(Capacity(max_handshakes=1, max_connections=3))
        slots = [limits.enter("10.0.0.1", lambda _: None, has_logged_in=True) for _ in range(3)]
        assert (limits.connections, limits.handshakes) == (3, 0)
        assert limits.enter("10.0.0.1", lambda _: None, has_logged_in=True).refusal is not None
        for slot in slots:
            slot.leave()
        assert limits.connections == 0

    async def test_as_a_search_would_find(self) -> None:
        """Against a model that counts, whatever comes and goes."""
        chance = random.Random(5)
        door = Door(max_handshakes=20)
        waiting: list[tuple[str, Slot]] = []
        asking: list[Slot] = []
        for _ in range(3000):
            known = list(waiting)
            if waiting and chance.random() < 0.3:
                place, slot = waiting.pop(chance.randrange(len(waiting)))
                slot.leave()
                continue
            if waiting and chance.random() < 0.3:
                place, slot = chance.choice(waiting)
                if slot not in asking:
                    slot.asks()
                    asking.append(slot)
            place = f"10.0.0.{chance.choice([1, 1, 1, 2, 2, 3, 4, 5])}"
            slot = door.admission.enter(place, lambda error: None)
            waiting.append((place, slot))
            gone = [each for each in waiting if each[1].refusal is not None]
            if len(known) < 20:
                assert not gone
                continue
            counts = Counter(place for place, _ in waiting)
            ((where, who),) = gone
            assert counts[where] == max(counts.values())
            silent = [slot for place, slot in waiting if place == where and slot not in asking]
            newest = [slot for slot in asking if (where, slot) in waiting][-1:]
            assert [who] == (silent[:1] or newest)
            waiting.remove((where, who))


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "room", "asked"),
    [
        (20_000, 20_000, 5_000, 5_000, []),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 50_000, 50_000, []),
        (1024, 100_000, 5_000, 5_000, [(5_512, 100_000)]),
        (1024, resource.RLIM_INFINITY, 5_000, 5_000, [(5_512, resource.RLIM_INFINITY)]),
        (1024, 4096, 50_000, 4096 - 512, [(4096, 4096)]),
        (256, 256, 50_000, 128, [(256, 256)]),
    ],
)
async def test_as_many_connections_as_files_may_be_open(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, room: int, asked: list[tuple[int, int]]
) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: calls.append(limits))
    assert (room_for(wanted)[0], calls) == (room, asked)
    with structlog.testing.capture_logs() as logs:
        capacity = within_files(Capacity(max_connections=wanted, max_handshakes=wanted), is_set=True)
    assert capacity.max_connections == room
    if room == wanted:
        assert not logs
        return
    start = f"max_connections is {wanted}, and this process may open {hard} files: {room} connections;"
    assert [line["event"].startswith(start) for line in logs] == [True]
    found = ConnectionLimits(capacity)
    refusal = [found.enter("10.0.0.1", lambda error: None) for _ in range(room + 1)][-1].refusal
    assert refusal is not None
    assert refusal.detail.endswith(f"(max_connections is {wanted}, but the process may not open more files)")


def test_edges_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (4096, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: None)
    for wanted, most in ((7_000, 7_000), (50_000, 2 * (4096 - 512))):
        assert within_files(Capacity(max_connections=wanted), 2, is_set=True).max_connections == most


async def test_an_edge_counts_the_connections_of_the_others() -> None:
    found = ConnectionLimits(Capacity(max_connections=3))
    found.elsewhere = 2
    assert [found.enter("10.0.0.1", lambda error: None).refusal is None for _ in range(2)] == [True, False]
    found.at_edges = AtEdges(connections=7, handshakes=2)
    assert (found.all_connections, found.all_handshakes) == (7, 3)


class TestConnection:
    """What a connection makes of it."""

    async def test_too_many_handshakes(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        """Also of those that an authenticator is busy with."""
        harness = make_harness(options=TransportOptions(capacity=Capacity(max_handshakes=2)), authenticator=Slow(5.0))
        first, second, third = (
            harness.connect("tcp", address=address) for address in ("1.1.1.1", "2.2.2.2", "2.2.2.2")
        )
        await second.send_frame("CONNECT", accept_version="1.2", host="h")
        await wait_all_tasks_blocked()
        error = await second.at_end_after_error()
        assert error["message"] == "too many handshakes"
        assert b"2 connections wait to log in (max_handshakes), most of them from 2.2.2.2" in error.body
        await first.connect()
        await third.connect()
        assert harness.server.connection_limits.handshakes == 0


@pytest.mark.parametrize(("limit", "status"), [("max_connections", b"503"), ("max_connections_per_address", b"429")])
async def test_a_listener_refuses_with_a_reason(kind: str, limit: str, status: bytes) -> None:
    settings = load(**{"tcp": "127.0.0.1:0", "websocket": "127.0.0.1:0", "close_linger": 0.1, limit: 1})
    async with open_gateway(settings, authenticator=Anonymous()) as gateway:
        address = gateway.addresses[kind][0]
        peer, stream = await dial(kind, address), await dial_stream(address)
        await peer.connect()
        if kind == "websocket":
            await stream.send_all(UPGRADE)
        answer = await read_all(stream)
        assert answer.startswith(b"ERROR\n" if kind == "tcp" else b"HTTP/1.1 " + status)
        assert f" may ({limit})".encode() in answer
        assert gateway.connection_limits.refusals[limit] == 1
        await stream.aclose()
        await peer.aclose()
        await until(lambda: not gateway.connection_limits.connections)
        peer = await dial(kind, address)
        await peer.connect()
        await peer.aclose()


class TestCollector:
    """Connections are no work for the collector that stops the loop."""

    async def test_a_closed_slot_refers_to_no_connection(self) -> None:
        class Somebody:
            def end(self, refusal: ProtocolError) -> None:
                raise AssertionError("it has left")

        somebody = Somebody()
        slot = ConnectionLimits(Capacity()).enter("10.0.0.1", somebody.end)
        gone = weakref.ref(somebody)
        del somebody
        assert gone() is not None
        slot.leave()
        assert gone() is None
        slot.evict(NotAllowed("too late"))


async def test_each_user_has_its_own() -> None:
    """A replaced connection leaves its place to the one that replaces it; anonymous is no user."""
    door = Door(max_connections_per_user=1)
    first, second, third, again = (door.enter() for _ in range(4))
    first.logs_in("ann")
    second.logs_in("ben")
    again.logs_in("ann", first)
    first.leave()
    with pytest.raises(NotAllowed) as caught:
        third.logs_in("ann")
    assert caught.value.detail == "this user has 1, as many as one may (max_connections_per_user)"
    assert door.admission.refusals["max_connections_per_user"] == 1
    again.leave()
    third.logs_in("ann")
    for _ in range(3):
        door.enter().logs_in(ANONYMOUS)
    assert door.admission.handshakes == 0
