"""The lenient dialect (LEN): what sessions without accept-version may write, and what they are sent."""

from __future__ import annotations

import re

import pytest

from .scene import Scene
from .wire import Peer, octets

requirement = pytest.mark.requirement


@requirement("LEN-01", "LEN-04")
def test_spaces_and_crs_at_the_end_of_a_line_are_no_part_of_it(stomp: Scene) -> None:
    """Of the command line too, although the document allows only one CR there: it also trims every line."""
    for tail in ["", "  ", "\r", " \r \r"]:
        peer, queue = stomp.connect(), stomp.queue()
        lines = ["SUBSCRIBE", f"destination:{queue}", "id:1", "receipt:r"]
        peer.raw("".join(f"{line}{tail}\n" for line in lines).encode() + b"\r\n\0")
        peer.receipt("r")
        peer.raw(f"SEND{tail}\ndestination:{queue}{tail}\nk:v{tail}\n\nbody{tail}\n\0".encode())
        message = peer.message()
        assert (message["k"], message["subscription"], message.body) == ("v", "1", f"body{tail}\n".encode())


@requirement("LEN-02", "FRM-04")
def test_empty_lines_before_a_frame_are_skipped(stomp: Scene) -> None:
    """Before the first frame, and before any other; lines that hold only spaces and CRs are empty."""
    for lines in [b"\n" * 1_000, b"\n\r\n", b" \n", b"\r\r\n"]:
        peer, queue = stomp.open(), stomp.queue()
        peer.raw(lines + stomp.opening_octets())
        peer.take("CONNECTED")
        peer.raw(lines + octets("SUBSCRIBE", {"destination": queue}) + lines)
        peer.raw(lines + octets("SEND", {"destination": queue}, b"x"))
        assert peer.message().body == b"x"


@requirement("LEN-06", "LEN-03", "LEN-11")
def test_the_case_of_commands_and_header_names_is_free(stomp: Scene) -> None:
    peer, queue = stomp.connect(Username="fred", Passcode="x"), stomp.queue()
    peer.send("Subscribe", {"Destination": queue, "ID": "1", "Ack": "client", "RECEIPT": "r1"})
    peer.receipt("r1")
    peer.send("begin", {"Transaction": "t", "Receipt": "r2"})
    peer.receipt("r2")
    peer.send("send", {"DESTINATION": queue, "Content-Length": "3", "TRANSACTION": "t"}, b"a\0b")
    peer.send("Commit", {"tRansactioN": "t"})
    message = peer.message()
    assert (message.body, message["subscription"], message["content-length"]) == (b"a\0b", "1", "3")
    peer.send("ack", {"Message-Id": message["message-id"], "Receipt": "r3"})
    peer.receipt("r3")
    peer.send("unsubscribe", {"Id": "1", "receipt": "r4"})
    peer.receipt("r4")
    assert stomp.sent({"Mixed-Case": "Yes"}).raw(b"Mixed-Case") == b"Yes", "user headers keep their spelling"


CONTROLS = ["\t", "\x01", "\x1f", "\r\t"]


@requirement("LEN-07", "HDR-02")
def test_control_octets_of_user_headers_are_left_out(stomp: Scene) -> None:
    for octet in CONTROLS:
        message = stomp.sent({"k": f"a{octet}b", f"n{octet}m": "v", "l": "w"})
        assert [name for name, _ in message.headers if name[0] in "kln"] == ["l"]


@requirement("LEN-07", "RCP-02", "SND-04")
def test_control_octets_in_what_the_server_must_give_back_are_refused(stomp: Scene) -> None:
    for name in ["destination", "receipt", "id"]:
        for octet in ["\t", "\r"]:
            peer = stomp.connect()
            headers = {"destination": stomp.queue(), "id": "1", "receipt": "r"}
            peer.send("SUBSCRIBE", headers | {name: f"{headers[name]}{octet}x"})
            peer.refusal()


def assert_well_formed(peer: Peer) -> None:
    """Commands in upper case, names in lower case, no control octets, nothing before the command."""
    for frame in peer.frames:
        assert frame.command.isupper()
        for line in frame.lines:
            assert re.fullmatch(rb"[a-z0-9]+(-[a-z0-9]+)*:[^\x00-\x1f\x7f]*", line), line
    assert not peer.reader.beats


@requirement("LEN-17", "LEN-09", "LEN-12")
def test_generated_frames(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    peer.subscribe(queue, id="1", ack="client")
    peer.put(queue, b"abc")
    peer.ack(peer.message())
    peer.request("DISCONNECT")
    peer.ends()
    assert_well_formed(peer)
    broken = stomp.connect()
    broken.send("SEND", {"receipt": "r"})
    broken.refusal()
    assert_well_formed(broken)


@requirement("LEN-13", "LEN-14", "DSC-03")
def test_a_session_of_this_dialect_ends_at_disconnect(stomp: Scene) -> None:
    queue = stomp.queue()
    peer, _ = stomp.holder(queue, b"x")
    peer.raw(b"disconnect \r\n\r\n\0")
    peer.ends()
    assert not peer.inbox
    assert stomp.watch(queue).message().body == b"x"
