"""Value encoding (ENC): escapes, spaces and UTF-8 in names and values, by version."""

from __future__ import annotations

import pytest

from .scene import Scene
from .wire import escaped, octets

requirement = pytest.mark.requirement

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
