"""Frames (FRM), value encoding (ENC), bodies and standard headers (BOD, HDR): what is a frame, and what it carries."""

from __future__ import annotations

import pytest

from .requirements import SOCKETS
from .scene import Scene
from .wire import escaped, octets

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


# -- value encoding

EVERYTHING = "a:b\nc\\d::\\n\\\\c\\\\\n:"


@requirement("ENC-01", "ENC-02", "ENC-04", "ENC-07", "HDR-02", "NEG-08")
def test_escapes_of_names_and_values_are_undone_and_done_again(stomp: Scene) -> None:
    everything = EVERYTHING + ("\r\n\r" if stomp.version == "1.2" else "")
    message = stomp.sent({"k": everything, "n" + everything: "v"})
    assert (message["k"], message["n" + everything]) == (everything, "v")
    wire = escaped(everything, stomp.version).encode()
    assert (message.raw(b"k"), message.raw(b"n" + wire)) == (wire, b"v")


@requirement("ENC-03", "ENC-13", "SND-03")
def test_an_undefined_escape_is_fatal(stomp: Scene) -> None:
    """A lone backslash at the end of a name or a value is one too."""
    for header in [b"k:a\\tb", b"a\\tb:v", b"k:\\\\\\x", b"k:v\\", b"k\\:v", b"k:\\\\\\"]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.raw(f"SEND\ndestination:{queue}\n".encode() + header + b"\n\nx\0")
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("ENC-04", "ENC-01", "MSG-01", "MSG-03", "SND-04", "RCP-02")
def test_destination_subscription_and_receipt_id_are_escaped(stomp: Scene) -> None:
    peer, queue, id = stomp.connect(), stomp.queue() + ":a\\b\nc", "sub:1\\\n"
    peer.subscribe(queue, id=id)
    peer.send("SEND", {"destination": queue, "receipt": id})
    assert peer.receipt(id).raw(b"receipt-id") == escaped(id, stomp.version).encode()
    message = peer.message()
    assert message.raw(b"destination") == escaped(queue, stomp.version).encode()
    assert message.raw(b"subscription") == escaped(id, stomp.version).encode()
    assert b"\\" not in message.raw(b"message-id"), "ids free of what needs an escape: some clients cannot undo it"


@requirement("ENC-05")
def test_connect_is_not_unescaped(stomp: Scene) -> None:
    for value in ["C:\\temp\\q", "\\", "\\t\\c\\n", "a:b"]:
        for command in ["CONNECT", "STOMP"]:
            peer = stomp.greet(stomp.open(), stomp.opening(x=value), command)
            assert peer.connected is not None
            assert peer.connected["version"] == stomp.version
            peer.barrier()


@requirement("ENC-06")
def test_connected_is_not_escaped(stomp: Scene) -> None:
    connected = stomp.connect().connected
    assert connected is not None
    assert not [line for line in connected.lines if b"\\" in line]


@requirement("ENC-08")
def test_spaces_of_values_and_names_are_kept(stomp: Scene) -> None:
    headers = {"a": " leading", "b": "trailing  ", "c": "  ", "d": "in side", " e ": "v", "\tf\t": "\tw\t"}
    message = stomp.sent(headers)
    assert {name: message[name] for name in headers} == headers


@requirement("ENC-09", "SND-04", "RCP-02")
def test_utf8_everywhere(stomp: Scene) -> None:
    for text in ["é", "漢字", "😀", "e\u0301", "ж漢😀"]:
        peer, queue = stomp.connect(), stomp.queue() + text
        peer.send("SUBSCRIBE", {"destination": queue, "id": text, "receipt": text})
        peer.receipt(text)
        peer.request("BEGIN", {"transaction": text})
        peer.publish(queue, text.encode(), {text: text, "transaction": text})
        peer.request("COMMIT", {"transaction": text})
        message = peer.message()
        assert (message["destination"], message["subscription"], message[text]) == (queue, text, text)
        assert message.body == text.encode()


@requirement("ENC-10", "NEG-08", "LEN-10")
def test_10_knows_no_escapes(stomp: Scene) -> None:
    value = "a\\cb\\nc\\\\d\\te\\"
    message = stomp.sent({"k": value, "n\\c": "v"})
    assert (message.raw(b"k"), message.raw(b"n\\c")) == (value.encode(), b"v")


@requirement("ENC-11", "XTR-02")
def test_a_cr_travels_raw_to_11(stomp: Scene) -> None:
    queue = stomp.queue()
    watcher, producer = stomp.watch(queue), stomp.connect(version="1.2")
    producer.publish(queue, b"x", {"k": "a\rb\r", "n\rm": "v"})
    message = watcher.message()
    assert (message.raw(b"k"), message.raw(b"n\rm")) == (b"a\rb\r", b"v")


@requirement("ENC-12", "LEN-05")
def test_padded_values_of_10_mean_the_unpadded_ones(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    peer.raw(f"SUBSCRIBE\ndestination: {queue}\nid:  7\nack: client\nreceipt: r\n\n\0".encode())
    peer.receipt("r")
    peer.raw(b"BEGIN\ntransaction: t\n\n\0")
    peer.raw(f"SEND\ndestination: {queue}\ncontent-length: 3\ntransaction:   t\n\na\0b\0".encode())
    peer.raw(b"COMMIT\ntransaction: t\n\n\0")
    message = peer.message()
    assert (message["destination"], message["subscription"], message.body) == (queue, "7", b"a\0b")
    peer.raw(f"ACK\nmessage-id: {message['message-id']}\nreceipt: a\n\n\0".encode())
    peer.receipt("a")


@requirement("ENC-14", "SES-04")
def test_headers_that_are_not_utf8_are_refused(stomp: Scene) -> None:
    for octet in [b"\xc3\x28", b"\xff", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82"]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.raw(octets("SEND", {"destination": queue, "k": octet}, b"x"))
        peer.refusal()
        assert watcher.seen(queue) == []


# -- bodies and standard headers

ALL_OCTETS = bytes(range(256))
UNKNOWN = {"x-unknown": "1", "selector-hint": "k = 'v'", "prefetch-count": "5", "X.Y_z~!": ""}


@requirement("BOD-01")
def test_a_body_where_none_belongs_is_ignored(stomp: Scene) -> None:
    """As 1.0 demands; 1.1 and 1.2 leave open what a server does, and this gateway has one way for all."""
    peer, queue = stomp.connect(), stomp.queue()
    peer.request("SUBSCRIBE", {"id": "0", "destination": queue, "content-length": 5}, b"a\0b\n\0")
    peer.request("BEGIN", {"transaction": "t"}, b"some body")
    peer.request("COMMIT", {"transaction": "t"}, b"SEND\n\n")
    assert peer.seen(queue) == []
    peer.request("DISCONNECT", body=b"bye")


@requirement("BOD-02", "BOD-06", "BOD-11", "LEN-08")
def test_a_counted_body_may_hold_nul(stomp: Scene) -> None:
    for body in [b"\0", b"\0a\0\0b\0", b"\0\nSEND\ndestination:/queue/x\n\ny\0\n", b"\n\0", ALL_OCTETS * 3]:
        message = stomp.sent(body=body)
        assert (message.body, message["content-length"]) == (body, str(len(body)))


@requirement("BOD-03", "BOD-05", "BOD-07", "LEN-08", "LEN-09")
def test_an_uncounted_body_ends_at_nul(stomp: Scene) -> None:
    for body in [b"hello", b"\n\nhello\r\n\n", b"SEND\n\nx", b"\r", b"\xff\xfe", "漢字".encode()]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue}, body)
        message = watcher.message()
        assert (message.body, message["content-length"]) == (body, str(len(body)))


@requirement("BOD-08")
def test_content_type_is_that_of_the_send(stomp: Scene) -> None:
    for type in ["text/plain;charset=utf-8", "application/octet-stream", 'Text/HTML; charset="UTF-8"', "x", ""]:
        assert stomp.sent({"content-type": type})["content-type"] == type
    assert stomp.sent(body=b"\xff\0").get("content-type") is None, "none is made up"


@requirement("BOD-04", "BOD-10", "SES-04")
def test_a_count_that_is_too_small_or_no_number_is_refused(stomp: Scene) -> None:
    for value in ["0", "10", "abc", "-1", "", "5.0", "1_0", "٥", "9" * 5_000]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue, "content-length": value}, b"hello world")
        peer.refusal()
        assert watcher.seen(queue) == []


@requirement("BOD-13")
def test_a_body_may_be_empty(stomp: Scene) -> None:
    for headers in [{}, {"content-length": "0"}, {"content-type": "text/plain"}]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send("SEND", {"destination": queue, **headers})
        message = watcher.message()
        assert message.body == b""
        assert message.get("content-length") in (None, "0")


@requirement("HDR-01")
def test_of_repeated_headers_the_first_counts(stomp: Scene) -> None:
    peer, first, second = stomp.connect(), stomp.queue(), stomp.queue()
    twice = [("destination", first), ("destination", second), ("receipt", "r1"), ("receipt", "r2")]
    peer.send("SUBSCRIBE", [*twice, ("id", "1"), ("id", "2"), ("ack", "client"), ("ack", "x")])
    peer.receipt("r1")
    peer.send("SEND", [*twice, ("content-length", 3), ("content-length", 1)], b"a\0b")
    peer.receipt("r1")
    message = peer.message()
    assert (message["destination"], message["subscription"], message.body) == (first, "1", b"a\0b")
    peer.request("BEGIN", [("transaction", "t"), ("transaction", "u")])
    peer.request("ACK", [*peer.settlement(message).items(), ("id", "no"), ("message-id", "no"), ("subscription", "no")])
    peer.request("ABORT", [("transaction", "t"), ("transaction", "u")])
    assert not peer.inbox


@requirement("HDR-03")
def test_a_repeated_user_header_keeps_its_first_value(stomp: Scene) -> None:
    assert stomp.sent([("foo", "World"), ("foo", "Hello"), ("foo", "")])["foo"] == "World"


@requirement("HDR-04", "BOD-09")
def test_unknown_headers_and_a_count_of_zero_do_no_harm(stomp: Scene) -> None:
    for more in (UNKNOWN, {"content-length": 0}):
        queue = stomp.queue()
        peer = stomp.greet(stomp.open(), {**stomp.opening(), **more})
        peer.request("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client"} | more)
        peer.put(queue, b"x", b"y", headers=UNKNOWN)
        first, second = peer.messages(2)
        peer.request("BEGIN", {"transaction": "t"} | more)
        peer.request("ACK", peer.settlement(first, "t") | more)
        peer.request("COMMIT", {"transaction": "t"} | more)
        peer.request("BEGIN", {"transaction": "t"} | more)
        peer.request("ABORT", {"transaction": "t"} | more)
        if stomp.version != "1.0":
            peer.request("NACK", peer.settlement(second) | more)
        peer.request("UNSUBSCRIBE", {"id": "1"} | more)
        peer.request("SEND", {"destination": queue} | more)
        peer.request("DISCONNECT", more)
