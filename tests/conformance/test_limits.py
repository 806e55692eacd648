"""Limits and lingering (LIM, LNG): what is too large is refused so that the peer can read it, and hurts nobody else."""

from __future__ import annotations

import pytest

from .conftest import SETTINGS
from .requirements import SOCKETS
from .scene import Scene
from .wire import octets

requirement, columns = pytest.mark.requirement, pytest.mark.columns

MAX_BODY = int(SETTINGS["max_body"])
KIB = 1024


@requirement("SES-04", "LIM-01", "LIM-02", "LIM-03", "LIM-04")
@columns(*SOCKETS)
def test_what_is_over_a_limit_is_refused(stomp: Scene) -> None:
    """Too many headers, a line and a body that are too long; and a body announced so, before it comes."""
    for headers, body in [
        ({f"h{number}": number for number in range(1_001)}, b"x"),
        ({"big": "v" * 65 * KIB}, b"x"),
        ({"content-length": MAX_BODY + 1}, b"x" * (MAX_BODY + 1)),
        ({}, b"x" * (MAX_BODY + 1)),
        ({"content-length": 2**63}, b""),
    ]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.flood(octets("SEND", {"destination": queue, "receipt": "r", **headers}, body))
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("LIM-05", "LIM-03")
def test_the_largest_body_is_carried(stomp: Scene) -> None:
    for counted in [True, False]:
        queue, body = stomp.queue(), b"x" * MAX_BODY
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue} | ({"content-length": len(body)} if counted else {}), body)
        assert watcher.message().body == body


@requirement("ERR-01", "LNG-02")
def test_the_error_is_readable_with_more_data_in_flight(stomp: Scene) -> None:
    for more in [200_000, 3_000_000]:
        peer = stomp.connect()
        peer.raw(octets("SEND", {}, b"no destination"))
        for _ in range(more // 50_000):
            peer.flood(b"x" * 50_000)
        peer.refusal()
        assert not peer.link.was_reset


@requirement("DSC-01", "LNG-03")
def test_the_receipt_of_disconnect_is_readable(stomp: Scene) -> None:
    for _ in range(5):
        peer = stomp.connect()
        peer.request("DISCONNECT")
        peer.ends()
        assert not peer.link.was_reset
