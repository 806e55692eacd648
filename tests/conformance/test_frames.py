"""Frame grammar (FRM): what is a frame, where it ends, and what happens to octets that are none."""

from __future__ import annotations

import pytest

from .requirements import SOCKETS
from .scene import Scene
from .wire import octets

requirement, columns = pytest.mark.requirement, pytest.mark.columns

# Octets that open no session.  Some have neither NUL nor LF: nothing more comes, and they must not be waited for.
FOREIGN = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x00\xf5\x01\x00\x00\xf1\x03\x03" + bytes(range(32)),
    "nuls": b"\0" * 10_000,
    "high-octets": b"\xff\xfe\xfd\xfc" * 8,
    "no-line-end": b"QUIT",
    "long-line": b"A" * 100_000,
    "connected": b"CONNECTED\n\n\0",
    "no-headers-end": b"CONNECT\naccept-version:1.2\0",
    "not-utf8": b"CONNECT\naccept-version:1.2\nk:\xc3\x28\nl\n\n\0",
}


@requirement("FRM-01", "CON-01", "SND-01", "SUB-01", "LEN-18")
def test_a_canonical_exchange(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    peer.raw(octets("SUBSCRIBE", {"id": "1", "destination": queue}))
    peer.raw(octets("SEND", {"destination": queue}, b"hello"))
    message = peer.message()
    assert (message["destination"], message["subscription"], message.body) == (queue, "1", b"hello")
    assert [frame.command for frame in peer.frames] == ["CONNECTED", "MESSAGE"]


@requirement("FRM-02")
def test_lines_may_end_in_cr_lf(stomp: Scene) -> None:
    peer, queue = stomp.open(), stomp.queue()
    peer.send("CONNECT", stomp.opening(), eol=b"\r\n")
    assert peer.take("CONNECTED")["version"] == "1.2"
    peer.send("SUBSCRIBE", {"id": "1", "destination": queue, "receipt": "r"}, eol=b"\r\n")
    peer.receipt("r")
    peer.send("SEND", {"destination": queue, "k": "v"}, b"\r\nbody\r\n", eol=b"\r\n")
    message = peer.message()
    assert (message["k"], message["destination"], message.body) == ("v", queue, b"\r\nbody\r\n")


@requirement("FRM-03", "NEG-08")
def test_a_cr_before_lf_is_data_in_11(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, producer = stomp.watch(queue), stomp.connect()
    producer.raw(f"SEND\ndestination:{queue}\nk:v\r\nl:\r\nm:w\n\nx\0".encode())
    message = watcher.message()
    assert (message.raw(b"k"), message.raw(b"l"), message.raw(b"m")) == (b"v\r", b"\r", b"w")


@requirement("FRM-04")
def test_ends_of_line_between_frames(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    peer.raw(b"\n")
    peer.subscribe(queue)
    first, second, third = (octets("SEND", {"destination": queue}, body) for body in (b"1", b"2", b"3"))
    peer.raw(b"\n\n\n" + first + b"\n" * 50_000 + second + b"\n")
    peer.raw(b"\n")
    peer.raw(third)
    assert [message.body for message in peer.messages(3)] == [b"1", b"2", b"3"]


@requirement("FRM-05", "DSC-03")
def test_disconnect_without_headers_is_a_graceful_end(stomp: Scene) -> None:
    peer = stomp.connect()
    peer.raw(b"DISCONNECT\n\n\0")
    peer.ends()
    assert not peer.inbox
    assert not peer.link.was_reset


@requirement("FRM-06")
def test_command_names_are_case_sensitive(stomp: Scene) -> None:
    for command in ["send", "Send", "SENd"]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send(command, {"destination": queue}, b"x")
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("FRM-06", "LEN-03")
def test_only_the_first_command_may_be_written_in_any_case(stomp: Scene) -> None:
    """It comes before the version is known, and might be one of 1.0; all after it is strict."""
    for command in ["connect", "Stomp"]:
        peer = stomp.greet(stomp.open(), stomp.opening(), command)
        assert peer.frames[0]["version"] == stomp.version
        peer.send("disconnect", {"receipt": "r"})
        peer.refusal()


@requirement("FRM-07")
def test_header_names_are_case_sensitive(stomp: Scene) -> None:
    stomp.refuses("SEND", {"Destination": "/queue/x"}, b"x")


@requirement("FRM-08")
def test_a_header_line_needs_a_colon_and_a_name(stomp: Scene) -> None:
    for line in [b"nocolon", b":value", b":", b" ", b"k:v\nnocolon", b":empty:name"]:
        if stomp.version == "1.0" and line == b" ":
            line = b" x "  # in the lenient dialect a line of spaces is the empty line
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.raw(f"SEND\ndestination:{queue}\n".encode() + line + b"\n\nx\0")
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("FRM-09")
def test_every_cut_of_a_frame(stomp: Scene) -> None:
    """In the command, a name, a character, an escape, before and behind the empty line, in the body, before NUL."""
    peer, queue, body = stomp.connect(), stomp.queue(), b"\0\n\0"
    peer.subscribe(queue)
    headers = {"destination": queue, "k": "é:", "content-length": len(body)}
    frame = octets("SEND", headers, body, stomp.version)
    for cut in range(1, len(frame)):
        peer.raw(frame[:cut])
        peer.raw(frame[cut:])
        message = peer.message()
        assert (message["k"], message.body) == ("é:", body), f"cut behind octet {cut}"


@requirement("FRM-10")
def test_a_value_may_be_empty(stomp: Scene) -> None:
    message = stomp.sent([("k", ""), ("z", "1"), ("last", "")])
    assert [message["k"], message["z"], message["last"]] == ["", "1", ""]
    assert message.raw(b"k") == b""


@requirement("FRM-11", "BOD-12", "MSG-01", "MSG-03")
def test_what_the_server_emits_is_in_the_grammar(stomp: Scene) -> None:
    """The reader of each peer judges every octet; here it is given something of everything."""
    peer, queue, topic = stomp.connect(), stomp.queue(), stomp.topic()
    peer.subscribe(queue, id="q", ack="client")
    peer.subscribe(topic, id="t")
    peer.put(queue, b"", b"one", b"\0", bytes(range(256)), headers={"k": "v w", "ключ": "é"})
    peer.put(topic, b"copy")
    for message in peer.messages(5):
        if message["subscription"] == "q":
            peer.ack(message)
    peer.request("UNSUBSCRIBE", {"id": "q"})
    peer.request("DISCONNECT")
    peer.ends()
    assert {frame.command for frame in peer.frames} == {"CONNECTED", "MESSAGE", "RECEIPT"}
    broken = stomp.connect()
    broken.send("SEND")
    broken.refusal()


@requirement("FRM-12")
def test_a_colon_in_a_value_is_part_of_it(stomp: Scene) -> None:
    """Outside the BNF of 1.1 and 1.2; this gateway accepts it there too: clients in use send it."""
    queue = stomp.queue()
    watcher, peer = stomp.watch(queue), stomp.connect()
    peer.raw(f"SEND\ndestination:{queue}\nwhen:12:30:00\nurl:http://x/:\n\nx\0".encode())
    message = watcher.message()
    assert (message["when"], message["url"]) == ("12:30:00", "http://x/:")


@requirement("FRM-11")
@columns(*SOCKETS)
def test_an_lf_stands_behind_each_frame_over_tcp_alone(stomp: Scene) -> None:
    """PHP's stomp extension reads two octets behind a body; stompjs takes an LF in a message for a heart-beat."""
    peer, queue = stomp.connect(), stomp.queue()
    peer.subscribe(queue)
    peer.publish(queue, b"one")
    peer.message()
    peer.send("NONSENSE")
    peer.refusal()
    assert [frame.command for frame in peer.frames] == ["CONNECTED", "RECEIPT", "MESSAGE", "ERROR"]
    assert peer.reader.ends == [b"\0\n" if peer.link.kind == "tcp" else b"\0"] * 4
    assert peer.reader.beats == []


@requirement("FRM-13", "SES-01", "SES-04")
def test_what_is_not_stomp_opens_no_session(stomp: Scene) -> None:
    for kind in FOREIGN:
        peer = stomp.open()
        peer.flood(FOREIGN[kind])
        peer.refused()
        assert [frame.command for frame in peer.frames] in ([], ["ERROR"])
        stomp.is_well()
