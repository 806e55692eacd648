"""Limits and lingering (LIM, LNG): what is too large is refused so that the peer can read it, and hurts nobody else."""

from __future__ import annotations

import time

import pytest

from .conftest import SETTINGS
from .requirements import SOCKETS
from .scene import Scene
from .wire import Peer, octets

requirement, columns, parametrize = pytest.mark.requirement, pytest.mark.columns, pytest.mark.parametrize

MAX_BODY = int(SETTINGS["max_body"])
KIB = 1024


@requirement("SES-04", "LIM-01", "LIM-04")
def test_too_many_headers(stomp: Scene) -> None:
    for count in [1_001, 20_000]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        headers = {"destination": queue, "receipt": "r"} | {f"h{number}": number for number in range(count)}
        peer.flood(octets("SEND", headers, b"x"))
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("SES-04", "LIM-02", "LIM-04")
def test_a_header_line_that_is_too_long(stomp: Scene) -> None:
    for size in [65 * KIB, KIB * KIB]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.flood(octets("SEND", {"destination": queue, "receipt": "r", "big": "v" * size}, b"x"))
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("SES-04", "LIM-03", "LIM-04")
@columns(*SOCKETS)
def test_a_body_announced_as_too_large_is_refused_before_it_comes(stomp: Scene) -> None:
    for size in [MAX_BODY + 1, 2**31, 2**63, 10**30]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.raw(f"SEND\ndestination:{queue}\nreceipt:r\ncontent-length:{size}\n\n".encode())
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("SES-04", "LIM-03", "LIM-04")
@columns(*SOCKETS)
def test_a_body_that_is_too_large(stomp: Scene) -> None:
    for counted in [True, False]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        body = b"x" * (MAX_BODY + 1)
        count = {"content-length": len(body)} if counted else {}
        peer.flood(octets("SEND", {"destination": queue, "receipt": "r", **count}, body))
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("LIM-05", "LIM-03")
def test_the_largest_body_is_carried(stomp: Scene) -> None:
    for counted in [True, False]:
        queue, body = stomp.queue(), b"x" * MAX_BODY
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue} | ({"content-length": len(body)} if counted else {}), body)
        assert watcher.message().body == body


@requirement("LIM-05", "LIM-01", "LIM-02")
def test_sizes_at_the_limits(stomp: Scene) -> None:
    """A thousand headers, a line of 60 KiB, a destination and a receipt of 4 KiB."""
    assert stomp.sent({f"h{number}": number for number in range(990)})["h989"] == "989"
    assert len(stomp.sent({"k": "v" * 60 * KIB})["k"]) == 60 * KIB
    peer, queue, id = stomp.connect(), stomp.queue() + "d" * 4 * KIB, "r" * 4 * KIB
    peer.subscribe(queue, id=id)
    peer.send("SEND", {"destination": queue, "receipt": id})
    peer.receipt(id)
    message = peer.message()
    assert (message["destination"], message["subscription"]) == (queue, id)


@requirement("LIM-05", "SUB-05")
def test_many_subscriptions_and_transactions(stomp: Scene) -> None:
    peer, topic = stomp.connect(), stomp.topic()
    for number in range(300):
        peer.send("SUBSCRIBE", {"destination": topic, "id": number})
    for number in range(50):
        peer.send("BEGIN", {"transaction": number})
    peer.publish(topic, b"x")
    assert {int(message["subscription"]) for message in peer.messages(300)} == set(range(300))


def _vanish(peer: Peer, opening: bytes, turn: int) -> None:
    """Five ways to come and go."""
    more = b"DISCONNECT\n\n\0", b"SEND\ndestination:/topic/x"
    first = (b"", opening[:20], opening, opening + more[0], opening + more[1])[turn % 5]
    if first:
        peer.raw(first)
    if turn % 2:
        peer.link.close()
    else:
        peer.link.reset()


@requirement("SES-04", "LNG-01")
def test_rapid_connects_and_disconnects(stomp: Scene) -> None:
    for turn in range(60):
        peer = stomp.open()
        _vanish(peer, stomp.opening_octets(), turn)
    stomp.is_well()


@requirement("SES-04", "LNG-01")
def test_many_sessions_at_once(stomp: Scene) -> None:
    topic = stomp.topic()
    peers = [stomp.open() for _ in range(50)]
    for peer in peers:
        peer.send("CONNECT", stomp.opening())
        peer.send("SUBSCRIBE", {"destination": topic, "id": "0", "receipt": "r"})
    for peer in peers:
        peer.receipt("r")
    peers[0].publish(topic, b"to all")
    assert all(peer.message().body == b"to all" for peer in peers)


@requirement("ERR-01", "LNG-02")
def test_the_error_is_readable_with_more_data_in_flight(stomp: Scene) -> None:
    for more in [200_000, 3_000_000]:
        peer = stomp.connect()
        peer.raw(octets("SEND", {}, b"no destination"))
        for _ in range(more // 50_000):
            peer.flood(b"x" * 50_000)
        peer.refusal()
        assert not peer.link.was_reset


@requirement("ERR-01", "LNG-02")
def test_the_error_is_readable_by_a_client_that_goes_on_sending(stomp: Scene) -> None:
    """It looks for an answer only half a second later, as one does that reads between its own batches."""
    peer = stomp.connect()
    peer.raw(octets("SEND", {}, b"no destination"))
    for _ in range(20):
        peer.flood(octets("SEND", {"destination": "/topic/x"}, b"x" * 1_000))
        time.sleep(0.025)
    peer.refusal()
    assert not peer.link.was_reset


@requirement("DSC-01", "LNG-03")
def test_the_receipt_of_disconnect_is_readable(stomp: Scene) -> None:
    for _ in range(5):
        peer = stomp.connect()
        peer.request("DISCONNECT")
        peer.ends()
        assert not peer.link.was_reset
