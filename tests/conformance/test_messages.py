"""MESSAGE, ERROR and the session (MSG, ERR, SES)."""

from __future__ import annotations

import pytest

from .requirements import VERSIONS
from .scene import Scene
from .wire import octets

requirement, columns = pytest.mark.requirement, pytest.mark.columns


@requirement("MSG-02")
def test_message_ids_are_unique(stomp: Scene) -> None:
    peer, queue, topic = stomp.connect(), stomp.queue(), stomp.topic()
    peer.subscribe(queue, id="q")
    peer.subscribe(topic, id="t")
    for _ in range(10):
        peer.publish(queue, b"same")
        peer.publish(topic, b"same")
    ids = {message["message-id"] for message in peer.messages(20)}
    assert len(ids) == 20
    assert all(ids)


@requirement("MSG-04", "MSG-07", "ACK-03")
def test_ack_is_there_when_one_is_asked_for(stomp: Scene) -> None:
    for ack in ["client", "client-individual"]:
        peer, messages = stomp.holder(stomp.queue(), *[b"x"] * 10, ack=ack)
        assert len({message["ack"] for message in messages}) == 10
        assert all(message["ack"] for message in messages)
        peer.ack(messages[-1])


@requirement("MSG-05")
def test_no_ack_in_auto_mode(stomp: Scene) -> None:
    assert stomp.sent().get("ack") is None


@requirement("MSG-06", "ACK-03")
def test_a_sender_cannot_set_the_headers_of_the_server(stomp: Scene) -> None:
    queue, foreign = stomp.queue(), {"message-id": "mine", "subscription": "mine", "ack": "mine", "k": "v"}
    stomp.connect().put(queue, b"x", headers=foreign | {"redelivered": "true", "delivery-count": "9"})
    for mode in ("client", "auto"):
        peer = stomp.connect()
        peer.subscribe(queue, id="0", ack=mode)
        message = peer.message()
        assert message.all("subscription") == ["0"]
        assert "mine" not in message.all("message-id") + message.all("ack")
        assert message["k"] == "v"
        if mode == "client":
            assert (message.get("redelivered"), message.get("delivery-count")) == (None, None)
            stomp.end(peer, "disconnect")


# -- ERROR

WRONG = {
    "send": ("SEND", {}),
    "subscribe": ("SUBSCRIBE", {"id": "1"}),
    "unsubscribe": ("UNSUBSCRIBE", {"id": "unknown"}),
    "begin": ("BEGIN", {}),
    "commit": ("COMMIT", {"transaction": "unknown"}),
    "abort": ("ABORT", {"transaction": "unknown"}),
    "ack": ("ACK", {"id": "unknown", "message-id": "unknown", "subscription": "unknown"}),
    "unknown": ("FETCH", {"destination": "/queue/x"}),
    "connect": ("CONNECT", {"accept-version": "1.2"}),
}


@requirement("ERR-01", "ERR-02", "ERR-03", "ERR-04", "RCP-03")
@columns(*VERSIONS)
def test_an_error_says_what_was_wrong_names_the_receipt_and_ends_the_connection(stomp: Scene) -> None:
    """Every ERROR closes, in every version: 1.0 does not forbid it, and one rule is easier to rely on."""
    for command, headers in WRONG.values():
        peer = stomp.connect()
        peer.send(command, {**headers, "receipt": "which-one"})
        error = peer.refusal()
        assert [frame.command for frame in peer.frames] == ["CONNECTED", "ERROR"]
        assert error["receipt-id"] == "which-one"
        assert b"Traceback" not in error.body
        if error.body:
            assert error["content-length"] == str(len(error.body))
            assert error["content-type"] == "text/plain;charset=utf-8"
            error.body.decode()


@requirement("ERR-05", "ERR-04", "LNG-02")
@columns(*VERSIONS)
def test_frames_behind_the_bad_one_have_no_effect(stomp: Scene) -> None:
    for apart in [False, True]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        late = octets("SEND", {"destination": queue, "receipt": "late"}, b"late")
        if apart:
            peer.raw(octets("SEND"))
            peer.flood(late * 10)
        else:
            peer.raw(octets("SEND") + late * 10)
        peer.refusal()
        assert watcher.seen(queue) == []


# -- the session

COMMANDS = "SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT MESSAGE CONNECTED FETCH".split()


@requirement("SES-01", "LEN-14", "RCP-03")
def test_nothing_is_served_before_connect(stomp: Scene) -> None:
    for command in COMMANDS:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.open()
        headers = {"destination": queue, "id": "1", "transaction": "t", "message-id": "1", "receipt": "r"}
        peer.send(command, headers, b"x" if command == "SEND" else b"")
        peer.refused()
        assert [frame.command for frame in peer.frames] in ([], ["ERROR"])
        assert watcher.seen(queue) == []


@requirement("SES-02", "SES-03", "SES-04")
def test_unknown_commands_are_refused(stomp: Scene) -> None:
    """An ERROR is optional; this gateway gives one, and it is the end."""
    for command in ["FETCH", "MESSAGE", "CONNECTED", "SENDX", "SEN", " SEND", "X" * 300, "ÄÖ"]:
        queue = stomp.queue()
        watcher, peer = stomp.watch(queue), stomp.connect()
        peer.send(command, {"destination": queue, "subscription": "0", "message-id": "1", "receipt": "r"}, b"x")
        peer.refusal()
        assert [frame.command for frame in peer.frames] == ["CONNECTED", "ERROR"]
        assert watcher.seen(queue) == []
