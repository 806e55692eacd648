"""The client against the real gateway, and against servers that misbehave."""

from __future__ import annotations

import dataclasses
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.client import Client, ConnectionLost, ServerError, StompServer
from gateway.client import blocking as module
from gateway.codec import Frame
from tests.gateway_process import HOST, GatewayProcess


@contextmanager
def server(*answers: bytes) -> Iterator[StompServer]:
    """A server that answers each chunk with the next of these, then with nothing; b"": it ends the connection."""
    listener = socket.create_server((HOST, 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            for answer in answers:
                connection.recv(65_536)
                if not answer:
                    return
                connection.sendall(answer)
            while connection.recv(65_536):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        port = int(listener.getsockname()[1])
        yield StompServer(HOST, port, receipt_timeout=300, connect_timeout=300)
    finally:
        thread.join(10)
        assert not thread.is_alive()


CONNECTED = b"CONNECTED\nversion:1.2\nserver:test/1\n\n\0"


def until(client: Client, count: int) -> list[Frame]:
    frames: list[Frame] = []
    deadline = time.monotonic() + 10
    while len(frames) < count and time.monotonic() < deadline:
        frames += client.receive(0.5)
    return frames


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_there_and_back(gateway: GatewayProcess, name: str, version: str) -> None:
    client = Client(StompServer(HOST, gateway.tcp_port, versions=version))
    assert client.version.name == version
    assert client.server.startswith("stomp-gateway")
    queue = f"/queue/{name}"
    client.request("SUBSCRIBE", {"id": queue, "destination": queue, "ack": "client"})
    headers = {"destination": queue, "colour": "red: dark"}
    client.request("SEND", headers, b"one\0two")
    client.request("SEND", headers, b"")
    frames = until(client, 2)
    assert [(frame.body, frame.headers["colour"]) for frame in frames] == [
        (b"one\0two", "red: dark"),
        (b"", "red: dark"),
    ]
    handles = [frame.headers.get("ack", frame.headers["message-id"]) for frame in frames]
    client.send(client.acks(queue, handles if version != "1.0" else handles[1:], "done"))
    client.wait_for("done", "the ACKs")
    client.request("SUBSCRIBE", {"id": "b", "destination": queue, "browser": "true", "ack": "auto"})
    assert [frame.headers.get("browser") for frame in until(client, 1)] == ["end"]  # nothing is left
    client.disconnect()


@pytest.mark.parametrize(
    ("answers", "error", "sentence"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n\0",), ServerError, "answered CONNECT with HTTP"),
        ((b"ERROR\nmessage:go away\n\nfar\0",), ServerError, r"says: go away \(far\)"),
        ((b"ERROR\nmessage:later\nretry-after:2000\n\n\0",), ConnectionLost, "says: later"),
        ((b"",), ConnectionLost, r"ended the connection without an answer to CONNECT; does it expect TLS, or a PROXY"),
    ],
)
def test_what_does_not_connect(answers: tuple[bytes, ...], error: type[Exception], sentence: str) -> None:
    with server(*answers) as where, pytest.raises(error, match=sentence):
        Client(where)


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (b"\n", ConnectionLost, r"did not confirm SEND in 0.3 s"),
        (b"", ConnectionLost, "ended the connection"),
        (b"MESSAGE\nmessage-id:7\ndestination:/a\n\nb\0GARBAGE\nno colon\n\n\0", ServerError, "behind 7 of /a"),
    ],
)
def test_what_does_not_confirm(answer: bytes, error: type[Exception], sentence: str) -> None:
    with server(CONNECTED, answer) as where:
        client = Client(where)
        with pytest.raises(error, match=sentence):
            client.request("SEND", {"destination": "/queue/a"}, b"x")
        client.close()


def test_messages_wait_while_a_receipt_is_waited_for() -> None:
    with server(CONNECTED + b"MESSAGE\n\n1\0", b"MESSAGE\n\n2\0RECEIPT\nreceipt-id:r1\n\n\0MESSAGE\n\n3\0") as where:
        client = Client(where)
        client.request("BEGIN", {"transaction": "t"})
        assert [frame.body for frame in until(client, 3)] == [b"1", b"2", b"3"]
        client.close()


def test_no_more_at_a_time_than_a_batch_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 40)
    messages = b"".join([b"MESSAGE\nmessage-id:%d\n\nten octets\0" % number for number in range(5)])
    with server(CONNECTED, messages + b"RECEIPT\nreceipt-id:r1\n\n\0") as where:
        client = Client(where)
        client.request("BEGIN", {"transaction": "t"})
        counts = [len(client.receive(0.5)) for _ in range(4)]
        client.close()
    assert sum(counts) == 5
    assert max(counts) == 2


def test_beating_without_reading() -> None:
    """The server's bytes stay where they are, and it hears that somebody is there."""
    with server(CONNECTED.replace(b"\n\n", b"\nheart-beat:0,50\n\n") + b"MESSAGE\n\n1\0", b"MESSAGE\n\n2\0") as where:
        client = Client(dataclasses.replace(where, heartbeat=50), beat=True)
        client.receive(0.5)
        for _ in range(10):
            client.rest(0.01)
        assert client._frames == []
        assert [frame.body for frame in until(client, 1)] == [b"2"]
        client.close()


def test_neither_side_waits_for_the_other_to_read(gateway: GatewayProcess, name: str) -> None:
    """As much as no socket holds, to ourselves."""
    topic = f"/topic/{name}"
    client = Client(StompServer(HOST, gateway.tcp_port))
    client.request("SUBSCRIBE", {"id": "0", "destination": topic})
    body = bytes(100_000)
    client.send(b"".join([client.encode("SEND", {"destination": topic}, body)] * 200))
    assert len(until(client, 200)) == 200
    client.disconnect()


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now


def test_heart_beats_find_a_dead_network(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    connections: list[socket.socket] = []

    def serve() -> None:
        connections.append(listener.accept()[0])
        connections[0].recv(65_536)
        connections[0].sendall(CONNECTED.replace(b"\n\n", b"\nheart-beat:250,250\n\n"))

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        client = Client(StompServer(HOST, int(listener.getsockname()[1]), heartbeat=100), beat=True)
        thread.join(10)
    with connections[0] as peer:
        peer.settimeout(10)
        for _ in range(10):  # both sides beat, and nobody hangs up
            clock.now += 0.25
            assert client.receive(0) == []
            assert peer.recv(100) == b"\n"
            peer.sendall(b"\n")
            while client._heard < clock.now:
                assert client.receive(10) == []
        peer.sendall(b"\n")  # also while there is always something to read
        assert select.select([client._socket], [], [], 10)[0]
        clock.now += 0.25
        assert client.receive(0) == []
        assert peer.recv(100) == b"\n"
        clock.now += 0.625
        assert client.receive(0) == []
        clock.now += 0.001
        with pytest.raises(ConnectionLost, match=r"has sent nothing for 0\.6 s"):
            client.receive(10)
    client.close()
