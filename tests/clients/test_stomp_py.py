"""stomp.py 9 over TCP, in STOMP 1.0, 1.1 and 1.2, and over WebSocket."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest
import stomp
from stomp.utils import Frame

from tests.clients.forwarder import Forwarder
from tests.clients.worker import CONNECTIONS, PATIENCE, Worker, work
from tests.gateway_process import HOST, GatewayProcess, start_gateway

VERSIONS = list(CONNECTIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_pub_sub(version: str, gateway: GatewayProcess, name: str) -> None:
    topic, line = f"/topic/{name}", f"/queue/{name}"
    with work(version, gateway.tcp_port) as a, work(version, gateway.tcp_port) as b:
        a.subscribe(topic)
        b.subscribe(topic)
        a.send(topic, "to all", kind="news")
        for worker in (a, b):
            frame = worker.message()
            assert frame.body == b"to all"
            assert frame.headers["destination"] == topic
            assert frame.headers["kind"] == "news"

        a.send(line, "kept until somebody subscribes")
        b.subscribe(line, id="2")
        assert b.body() == "kept until somebody subscribes"
        a.subscribe(line, id="2")
        a.send(line, "1")
        a.send(line, "2")
        assert {a.body(), b.body()} == {"1", "2"}

        a.confirmed(a.connection.unsubscribe, id="1")
        a.send(topic, "after UNSUBSCRIBE")
        assert b.body() == "after UNSUBSCRIBE"
        a.send(line, "last")
        a.send(line, "last")
        assert a.body() == "last"


@pytest.mark.parametrize("version", VERSIONS)
def test_bodies_and_headers_arrive_unchanged(version: str, gateway: GatewayProcess, name: str) -> None:
    topic = f"/topic/{name}/\u0433\u043e\u0440\u043e\u0434-\U0001f30d"
    headers = {"\u043a\u043b\u044e\u0447": "\u503c \u20ac \U0001f600"}
    if version != "1.0":  # which escapes nothing
        headers["escaped"] = "a:b\nc\\d"
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic)
        worker.send(topic, "gr\u00fc\u00dfe \U0001f44b", headers=headers)
        frame = worker.message()
        assert bytes(frame.body).decode() == "gr\u00fc\u00dfe \U0001f44b"
        assert frame.headers["destination"] == topic
        assert {key: frame.headers[key] for key in headers} == headers
        for octets in (bytes(range(256)) * 4096, b""):
            worker.send(topic, octets, content_type="application/octet-stream")
            frame = worker.message()
            assert (frame.body, frame.headers["content-type"]) == (octets, "application/octet-stream")


@pytest.mark.parametrize("version", VERSIONS)
def test_redelivery_of_what_a_lost_connection_held(
    version: str, gateway: GatewayProcess, tcp_relay: Forwarder, name: str
) -> None:
    line = f"/queue/{name}"
    mode = "client" if version == "1.0" else "client-individual"
    with work(version, gateway.tcp_port) as other, work(version, tcp_relay.port) as broken:
        broken.subscribe(line, ack=mode)
        for body in ("one", "two", "three"):
            other.send(line, body)
        frames = [broken.message() for _ in range(3)]
        assert [frame.body for frame in frames] == [b"one", b"two", b"three"]
        assert all(frame.headers.get("redelivered", "false") == "false" for frame in frames)
        kept = frames[1:] if version == "1.0" else [frames[0], frames[2]]  # an ACK of 1.0 is cumulative
        broken.confirmed(broken.ack, frames[0] if version == "1.0" else frames[1])

        other.subscribe(line, ack=mode)
        tcp_relay.cut()
        for frame in kept:
            again = other.message()
            assert again.body == frame.body
            assert again.headers["redelivered"] == "true"
            assert again.headers["message-id"] == frame.headers["message-id"]
            other.ack(again)
        other.send(line, "end")
        assert other.body() == "end"


@pytest.mark.parametrize("version", VERSIONS)
def test_login(version: str, users: Path) -> None:
    with start_gateway(users_file=users) as gateway:
        with work(version, gateway.tcp_port, login=("ada", "engine")) as worker:
            worker.subscribe("/topic/x")
        stranger = Worker(version, gateway.tcp_port)
        with pytest.raises(stomp.exception.ConnectFailedException):
            stranger.connection.connect("ada", "wrong", wait=True)
        assert stranger.errors.get(timeout=PATIENCE).headers["message"] == "login refused"
        stranger.losses.get(timeout=PATIENCE)


def test_over_websocket(gateway: GatewayProcess, name: str) -> None:
    """stomp.py's WebSocket connection, which offers no subprotocol and speaks 1.2."""
    messages: queue.Queue[Frame] = queue.Queue()
    receipts: queue.Queue[str] = queue.Queue()

    class Listener(stomp.ConnectionListener):
        def on_message(self, frame: Frame) -> None:
            messages.put(frame)

        def on_receipt(self, frame: Frame) -> None:
            receipts.put(frame.headers["receipt-id"])

    connection = stomp.WSConnection([(HOST, gateway.ws_port)], ws_path="/ws")
    connection.set_listener("worker", Listener())
    connection.connect(wait=True)
    connection.subscribe(f"/topic/{name}", id="1", receipt="subscribed")
    assert receipts.get(timeout=PATIENCE) == "subscribed"
    connection.send(f"/topic/{name}", "over WebSocket \u20ac")
    assert messages.get(timeout=PATIENCE).body == "over WebSocket \u20ac"
    connection.disconnect(receipt="farewell")
    assert receipts.get(timeout=PATIENCE) == "farewell"
