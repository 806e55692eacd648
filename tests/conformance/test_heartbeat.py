"""Heart-beating (HBT): the only tests that measure time.

The gateway sends and wants to receive every 250 ms at most; measured times may be late by `LATE`.
"""

from __future__ import annotations

import itertools
import time

import pytest

from .scene import Scene
from .wire import Peer, octets

requirement = pytest.mark.requirement

pytestmark = pytest.mark.slow

LATE = 0.6


def beats_during(peer: Peer, seconds: float) -> list[float]:
    """Arrival times of the server's beats during that time, and the time's own begin and end."""
    begin = time.monotonic()
    peer.reader.beats.clear()
    peer.listen(seconds)
    return [begin, *(at for at, _ in peer.reader.beats), time.monotonic()]


def longest_gap(times: list[float]) -> float:
    return max(later - earlier for earlier, later in itertools.pairwise(times))


@requirement("HBT-01", "CON-06")
def test_connected_has_two_numbers(stomp: Scene) -> None:
    """This gateway names its own two intervals, whatever the client offers."""
    for offer in [None, "0,0", "1,10000", "0250,00"]:
        peer = stomp.connect(**({} if offer is None else {"heart_beat": offer}))
        assert peer.frames[0]["heart-beat"] == "250,250"


@requirement("HBT-02", "HBT-05", "HBT-09")
def test_without_the_header_nobody_beats(stomp: Scene) -> None:
    for offer in [None, "0,0"]:
        peer = stomp.connect(**({} if offer is None else {"heart_beat": offer}))
        assert len(beats_during(peer, 1.1)) == 2
        assert not peer.at_end
        peer.barrier()


@requirement("HBT-03", "HBT-04", "HBT-05", "WST-05")
def test_the_server_beats_in_time_with_single_ends_of_line(stomp: Scene) -> None:
    """The interval is MAX(sx, cy); the client promised nothing, is silent all the time, and lives."""
    for offer, interval in [("0,400", 0.4), ("0,100", 0.25)]:
        peer = stomp.connect(heart_beat=offer)
        times = beats_during(peer, 4 * interval)
        assert longest_gap(times) <= interval + LATE, times
        assert len(times) - 2 <= 8, "more beats than anybody asked for"
        assert {beat for _, beat in peer.reader.beats} <= ({b"\n", b"\r\n"} if stomp.version == "1.2" else {b"\n"})
        assert len(peer.reader.beats) >= 2
        peer.barrier()


@requirement("HBT-06")
def test_a_silent_client_that_promised_beats_is_taken_for_dead(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="300,0")
    begin = time.monotonic()
    peer.ends()
    assert 0.3 * 1.15 <= time.monotonic() - begin <= 0.6 + 4 * LATE


@requirement("HBT-07", "HBT-09")
def test_a_client_that_beats_a_little_late_lives(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="600,0")
    for _ in range(3):
        peer.listen(0.6 * 1.15)
        peer.raw(b"\n")
    peer.barrier()
    assert not peer.reader.beats, "it asked for none"


@requirement("HBT-08", "FRM-09")
def test_the_octets_of_a_slow_frame_count_as_life(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="500,0")
    frame = octets("SEND", {"destination": "/topic/x", "receipt": "r"}, b"slow")
    for octet in frame[:4]:
        peer.listen(0.44)
        peer.raw(bytes([octet]))
    peer.raw(frame[4:])
    peer.receipt("r")


@requirement("HBT-10", "CON-03")
def test_a_malformed_header_is_refused(stomp: Scene) -> None:
    for value in ["abc", "5", "-1,0", "1,2,3", ",5", "", "1.5,0", "1_0,0", "٥,٥"]:
        peer = stomp.open()
        peer.send("CONNECT", stomp.opening(heart_beat=value))
        peer.refusal()
        assert [frame.command for frame in peer.frames] == ["ERROR"]


@requirement("HBT-11")
def test_10_has_no_heart_beating(stomp: Scene) -> None:
    for value in ["300,300", "abc", "0,250"]:
        peer = stomp.connect(heart_beat=value)
        assert len(beats_during(peer, 0.8)) == 2
        peer.barrier()


@requirement("HBT-12", "HBT-03", "FRM-11")
def test_no_beat_breaks_a_frame(stomp: Scene) -> None:
    """The client takes large messages slowly, over many intervals; the strict reader sees every octet."""
    queue, body = stomp.queue(), bytes(range(256)) * 1_024
    stomp.connect().put(queue, *[body] * 10)
    peer = stomp.connect(heart_beat="0,250")
    peer.subscribe(queue)
    for _ in range(10):
        time.sleep(0.08)
        assert peer.message().body == body
    assert len(beats_during(peer, 0.6)) > 2
