"""Heart-beating (HBT): the only tests that measure time.

The gateway of this run offers to send every 250 ms at most and wants to receive every 250 ms at most, and takes a
silent client for dead after two of its intervals.  Measured times are allowed to be late by `LATE`, a margin for a
busy machine; what must not happen is waited for over several intervals.
"""

from __future__ import annotations

import itertools
import time

import pytest

from .scene import Scene
from .wire import Peer, octets

requirement, columns, parametrize = pytest.mark.requirement, pytest.mark.columns, pytest.mark.parametrize

pytestmark = pytest.mark.slow

LATE = 0.25


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
    for offer in [None, "0,0", "500,500", "0,1000", "1000,0", "1,1", "10000,10000", "0250,00"]:
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


@requirement("HBT-06", "ACK-06")
def test_what_a_silent_client_held_is_given_to_others(stomp: Scene) -> None:
    queue = stomp.queue()
    stomp.connect().put(queue, b"x")
    silent = stomp.connect(heart_beat="300,0")
    silent.subscribe(queue, ack="client")
    silent.message()
    assert stomp.watch(queue).message().body == b"x"


@requirement("HBT-07")
def test_a_client_that_beats_a_little_late_lives(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="300,0")
    for _ in range(4):
        peer.listen(0.3 * 1.15)
        peer.raw(b"\n")
    peer.barrier()


@requirement("HBT-08")
def test_frames_count_as_life(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="250,0")
    for _ in range(4):
        peer.listen(0.25)
        peer.barrier()
    assert not peer.at_end


@requirement("HBT-08", "FRM-09")
def test_the_octets_of_a_slow_frame_count_as_life(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="250,0")
    frame = octets("SEND", {"destination": "/topic/x", "receipt": "r"}, b"slow")
    for octet in frame[:6]:
        peer.listen(0.22)
        peer.raw(bytes([octet]))
    peer.raw(frame[6:])
    peer.receipt("r")


@requirement("HBT-09", "HBT-07")
def test_a_client_that_wants_no_beats_gets_none(stomp: Scene) -> None:
    peer = stomp.connect(heart_beat="250,0")
    beats = 0
    for _ in range(4):
        beats += len(beats_during(peer, 0.25)) - 2
        peer.raw(b"\n")
    assert beats == 0
    peer.barrier()


@requirement("HBT-10", "CON-03")
def test_a_malformed_header_is_refused(stomp: Scene) -> None:
    for value in [
        "abc",
        "5",
        "-1,0",
        "0,-1",
        "1,2,3",
        ",",
        "5,",
        ",5",
        "",
        "1.5,0",
        "1_0,0",
        "٥,٥",
        "0x5,0",
        "5;5",
        "a,b",
    ]:
        peer = stomp.open()
        peer.send("CONNECT", stomp.opening(heart_beat=value))
        peer.refusal()
        assert [frame.command for frame in peer.frames] == ["ERROR"]


@requirement("HBT-10", "SES-04")
def test_absurd_intervals_hurt_nobody(stomp: Scene) -> None:
    """Two non-negative integers, so either kept or refused."""
    for value in ["9" * 30 + "," + "9" * 30, "9" * 5_000 + ",0", "0," + "9" * 5_000]:
        peer = stomp.open()
        peer.send("CONNECT", stomp.opening(heart_beat=value))
        while not peer.frames:
            assert peer.pump(3.0), "no answer"
        assert peer.frames[0].command in ("CONNECTED", "ERROR")
        stomp.is_well()


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


@requirement("HBT-12", "HBT-03")
def test_frames_count_towards_the_servers_duty(stomp: Scene) -> None:
    """While frames flow, no gap is longer than the interval; beats between them are allowed, and not needed."""
    peer, topic = stomp.connect(heart_beat="0,250"), stomp.topic()
    peer.subscribe(topic)
    producer, times = stomp.connect(), [time.monotonic()]
    for _ in range(12):
        producer.publish(topic, b"x")
        times.append(peer.message().at)
        peer.listen(0.08)
    peer.reader.beats.extend((at, b"\n") for at in times)
    assert longest_gap(sorted(at for at, _ in peer.reader.beats)) <= 0.25 + LATE
