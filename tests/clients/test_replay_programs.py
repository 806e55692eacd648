"""Replay, as users of RabbitMQ's streams, ActiveMQ, Apollo and of our own `resume` write their programs."""

from __future__ import annotations

import time

import pytest
from stomp.utils import Frame

from tests.clients.worker import CONNECTIONS, Worker, work
from tests.gateway_process import GatewayProcess

VERSIONS = list(CONNECTIONS)

STREAM = {"prefetch-count": "10"}  # which RabbitMQ wants from who reads a stream
RESUME = {"resume": "desk", "from-seq": "0"}
"""One name, and another topic in each test: so it begins anew."""


@pytest.fixture
def gateway(logging_gateway: GatewayProcess) -> GatewayProcess:
    return logging_gateway


def send(gateway: GatewayProcess, topic: str, *bodies: str) -> None:
    """A publisher, that comes and goes; what it sends is stored."""
    with work("1.1", gateway.tcp_port) as publisher:
        for body in bodies:
            publisher.send(topic, body)


def read(worker: Worker, count: int) -> list[Frame]:
    return [worker.message() for _ in range(count)]


def bodies(frames: list[Frame]) -> list[str]:
    return [bytes(frame.body).decode() for frame in frames]


def numbers(frames: list[Frame], header: str = "seq") -> list[int]:
    return [int(frame.headers[header]) for frame in frames]


@pytest.fixture
def topic(name: str) -> str:
    return f"/topic/{name}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("offset", "first"), [("first", 0), ("next", 4), ("offset={}", 2), ("timestamp={past}", 0)])
def test_streams_of_rabbitmq(version: str, offset: str, first: int, gateway: GatewayProcess, topic: str) -> None:
    past = int(time.time())
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic)
        send(gateway, topic, "0", "1", "2", "3")
        there = numbers(read(worker, 4))
    offset = offset.format(there[2], past=past)
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, ack="client", headers={**STREAM, "x-stream-offset": offset})
        send(gateway, topic, "4")
        frames = read(worker, 5 - first)
        assert bodies(frames) == list("01234")[first:]
        assert numbers(frames, "x-stream-offset") == list(range(there[0], there[0] + 5))[first:]
        worker.confirmed(worker.ack, frames[-1])


@pytest.mark.parametrize("has_log", [True, False])
def test_retroactive_consumers_of_activemq(has_log: bool, gateway: GatewayProcess, topic: str) -> None:
    topic = topic if has_log else "/topic/live"
    send(gateway, topic, "0", "1")
    with work("1.1", gateway.tcp_port) as worker:
        worker.subscribe(topic, headers={"activemq.retroactive": "true"})
        send(gateway, topic, "2")
        assert worker.bodies(3 if has_log else 1) == (["0", "1", "2"] if has_log else ["2"])


@pytest.mark.parametrize("version", VERSIONS)
def test_apollo(version: str, gateway: GatewayProcess, topic: str) -> None:
    named = {"include-seq": "position"}
    send(gateway, topic, "0", "1")
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, headers={"from-seq": "0", **named})
        first, second = numbers(read(worker, 2), "position")
        assert second == first + 1
    send(gateway, topic, "2")
    with work(version, gateway.tcp_port) as worker, work(version, gateway.tcp_port) as live:
        worker.subscribe(topic, headers={"from-seq": str(second + 1), **named})
        live.subscribe(topic, headers={"from-seq": "-1", **named})
        send(gateway, topic, "3")
        assert numbers(read(worker, 2), "position") == [second + 1, second + 2]
        assert numbers(read(live, 1), "position") == [second + 2]


def resume(gateway: GatewayProcess, topic: str, version: str, expected: list[str], *, done: int) -> None:
    """A program that comes back under its name, gets these, acknowledges so many of them, and leaves."""
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, ack="client", headers=RESUME)
        frames = read(worker, len(expected))
        assert bodies(frames) == expected
        if done:
            worker.confirmed(worker.ack, frames[done - 1])


@pytest.mark.parametrize("version", VERSIONS)
def test_resume(version: str, gateway: GatewayProcess, topic: str) -> None:
    send(gateway, topic, "0", "1", "2")
    resume(gateway, topic, version, ["0", "1", "2"], done=2)
    send(gateway, topic, "3")
    resume(gateway, topic, version, ["2", "3"], done=0)
    resume(gateway, topic, version, ["2", "3"], done=2)
    send(gateway, topic, "4")
    resume(gateway, topic, version, ["4"], done=1)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kill(version: str, gateway: GatewayProcess, topic: str) -> None:
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, headers={"from-seq": "0"})
        send(gateway, topic, "0", "1")
        first, _ = numbers(read(worker, 2))
    gateway.kill()
    gateway.start()
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, headers={"from-seq": str(first + 1)})
        send(gateway, topic, "2")
        frames = read(worker, 2)
        assert bodies(frames) == ["1", "2"]
        assert numbers(frames)[0] == first + 1 < numbers(frames)[1]
        assert not any("gap" in frame.headers for frame in frames)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gap(version: str, gateway: GatewayProcess) -> None:
    topic = "/topic/short"
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic)
        send(gateway, topic, *"01234")
        there = numbers(read(worker, 5))
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, headers={"from-seq": str(there[1])})
        frames = read(worker, 3)
        assert bodies(frames) == ["2", "3", "4"]
        assert [frame.headers.get("gap") for frame in frames] == ["true", None, None]
        assert frames[0].headers["first-seq"] == frames[0].headers["seq"] == str(there[2])
