"""Programs that RabbitMQ and ActiveMQ forgive, with `lenient = true`: what stomp-php's tests/Functional/RabbitMq send.

stomp-php speaks 1.2 and names things as in 1.0: it subscribes without an id, and its ACK has the message-id in `id`.
Tests of its folder that write the same frames are one here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from gateway.codec import V12
from tests.broker.wire import Received, build, parse
from tests.gateway_process import HOST, GatewayProcess, start_gateway

PATIENCE = 8.0


@pytest.fixture(scope="module")
def lenient() -> Iterator[GatewayProcess]:
    with start_gateway(LENIENT="true") as gateway:
        yield gateway


class Php:
    def __init__(self, gateway: GatewayProcess) -> None:
        self._socket = socket.create_connection((HOST, gateway.tcp_port), timeout=PATIENCE)
        self._came = b""
        self._frames: list[Received] = []
        self._receipts = 0
        offered = {"accept-version": "1.0,1.1,1.2", "host": "/", "heart-beat": "0,0"}
        self.write("CONNECT", {"login": "guest", "passcode": "guest", **offered})
        connected = self.read()
        assert (connected.command, connected.headers["version"]) == ("CONNECTED", "1.2")
        assert connected.headers["session"]

    def write(self, command: str, headers: dict[str, str], body: str = "") -> None:
        self._socket.sendall(build(command, headers, body.encode(), version=V12))

    def read(self) -> Received:
        while not self._frames:
            chunk = self._socket.recv(65536)
            assert chunk, "the connection has ended"
            self._came += chunk
            end = self._came.rfind(b"\0\n") + 2
            self._frames += parse(self._came[:end], V12)
            self._came = self._came[end:]
        frame = self._frames.pop(0)
        assert frame.command != "ERROR", frame
        return frame

    def sync(self, command: str, headers: dict[str, str], body: str = "") -> list[Received]:
        """A frame, and its RECEIPT; what came before that."""
        self._receipts += 1
        self.write(command, {**headers, "receipt": str(self._receipts)}, body)
        before = []
        while (frame := self.read()).command != "RECEIPT":
            before.append(frame)
        assert frame.headers["receipt-id"] == str(self._receipts)
        return before

    def subscribe(self, destination: str, ack: str = "auto", **headers: str) -> None:
        assert self.sync("SUBSCRIBE", {"destination": destination, "ack": ack, **headers}) == []

    def unsubscribe(self, destination: str, **headers: str) -> None:
        assert self.sync("UNSUBSCRIBE", {"destination": destination, **headers}) == []

    def message(self, body: str) -> Received:
        frame = self.read()
        assert (frame.command, frame.body) == ("MESSAGE", body.encode())
        return frame

    def ack(self, frame: Received) -> None:
        self.write("ACK", {"id": frame.message_id})

    def nack(self, frame: Received, **headers: str) -> None:
        self.write("NACK", {"id": frame.message_id, "message-id": frame.message_id, **headers})

    def close(self) -> None:
        assert self.sync("DISCONNECT", {}) == []
        self.shut()

    def shut(self) -> None:
        self._socket.close()


@pytest.fixture
def php(lenient: GatewayProcess) -> Iterator[Php]:
    """It must say goodbye at the test's end without an ERROR having come."""
    client = Php(lenient)
    yield client
    client.close()


@pytest.fixture
def queue(name: str) -> str:
    return f"/queue/{name}"


def test_send_and_read(php: Php, queue: str) -> None:
    """hasFrameToRead, readFrame, send, byteMessages, jsonMap, subscribe and unsubscribe, twice."""
    headers = {"content-type": "application/octet-stream", "transformation": "jms-map-json"}
    for _ in range(2):
        php.write("SEND", {"destination": queue, **headers}, "test")
        php.subscribe(queue, "client")
        frame = php.message("test")
        assert headers.items() <= frame.headers.items()
        assert frame.subscription == queue
        php.ack(frame)
        php.unsubscribe(queue)


def test_ack(lenient: GatewayProcess, queue: str) -> None:
    """Ten consumers, one after the other, acknowledge ten messages each."""
    publisher = Php(lenient)
    for number in range(100):
        publisher.write("SEND", {"destination": queue}, str(number))
    publisher.close()
    seen = []
    for _ in range(10):
        consumer = Php(lenient)
        consumer.write("SUBSCRIBE", {"destination": queue, "ack": "client"})
        for _ in range(10):
            frame = consumer.read()
            seen.append(int(frame.body))
            consumer.ack(frame)
        consumer.sync("DISCONNECT", {})  # behind further messages
        consumer.shut()
    assert seen == list(range(100))


def test_durable(lenient: GatewayProcess, name: str) -> None:
    topic, durable = f"/topic/{name}", {"id": "myId", "durable": "true", "auto-delete": "false"}
    first = Php(lenient)
    first.subscribe(topic, "client-individual", **durable)
    first.unsubscribe(topic, id="myId")
    first.close()
    publisher = Php(lenient)
    assert publisher.sync("SEND", {"persistent": "true", "destination": topic}, "test message") == []
    publisher.close()
    second = Php(lenient)
    second.subscribe(topic, "client-individual", **durable)
    second.ack(second.message("test message"))
    second.unsubscribe(topic, **durable)
    second.close()


def test_several_subscriptions(php: Php, queue: str) -> None:
    for id in "123":
        php.subscribe(queue + id, id=id)
    came = [frame for id in "123" for frame in php.sync("SEND", {"destination": queue + id}, id)]
    while len(came) < 3:
        came.append(php.read())
    assert [(frame.subscription, frame.body.decode()) for frame in came] == [(id, id) for id in "123"]
    for id in "123":
        php.unsubscribe(queue + id, id=id)


def test_transactions(php: Php, queue: str) -> None:
    php.subscribe(queue, id="1")
    for transaction, end, body in (("1", "ABORT", "a"), ("2", "COMMIT", "b")):
        php.sync("BEGIN", {"transaction": transaction})
        php.sync("SEND", {"transaction": transaction, "destination": queue}, body)
        php.write(end, {"transaction": transaction})
    php.message("b")


def test_ack_and_nack(php: Php, queue: str) -> None:
    """What is given back comes again, in its order, where one message may be unacknowledged at a time."""
    php.subscribe(queue, "client", id="1", **{"prefetch-count": "1"})
    for body in "ab":
        php.write("SEND", {"persistent": "true", "destination": queue}, body)
    for body in "ab":
        php.nack(php.message(body))
    for body in "ab":
        php.ack(php.message(body))


def test_nack_and_requeue(php: Php, queue: str) -> None:
    php.subscribe(queue, "client-individual", id="1", **{"prefetch-count": "1"})
    php.write("SEND", {"persistent": "true", "destination": queue}, "a")
    php.nack(php.message("a"), requeue="true")
    php.nack(php.message("a"), requeue="false")
    php.write("SEND", {"destination": queue}, "behind it")
    php.ack(php.message("behind it"))
    php.unsubscribe(queue, id="1")
