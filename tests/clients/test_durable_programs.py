"""Durable and shared subscriptions, as users of RabbitMQ, ActiveMQ, Artemis and Apollo write their programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.worker import CONNECTIONS, PATIENCE, Worker, work
from tests.gateway_process import GatewayProcess, start_gateway

VERSIONS = list(CONNECTIONS)
Headers = dict[str, str]

RABBITMQ = {"durable": "true", "auto-delete": "false"}


@contextmanager
def client(gateway: GatewayProcess, client_id: str, version: str = "1.1") -> Iterator[Worker]:
    """A program of ActiveMQ's users: it says its client-id, and leaves with DISCONNECT unless it was sent away."""
    worker = Worker(version, gateway.tcp_port)
    worker.connection.connect("ada", "secret", wait=True, headers={"client-id": client_id})
    yield worker
    if worker.connection.is_connected():
        worker.connection.disconnect(receipt="farewell")
        worker.losses.get(timeout=PATIENCE)


def send(gateway: GatewayProcess, topic: str, *bodies: str, **headers: str) -> None:
    with work("1.1", gateway.tcp_port) as publisher:
        for body in bodies:
            publisher.send(topic, body, headers=headers)


def leave_for_good(worker: Worker, headers: Headers, id: str = "1") -> None:
    worker.confirmed(worker.connection.unsubscribe, id=id, headers=headers)


@pytest.mark.parametrize("version", VERSIONS)
def test_rabbitmq(version: str, gateway: GatewayProcess, name: str) -> None:
    topic, id = f"/topic/{name}", f"sub-{name}"
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, id=id, ack="client", headers={**RABBITMQ, "prefetch-count": "1"})
        send(gateway, topic, "1", "2")
        worker.confirmed(worker.ack, worker.message())
        assert worker.body() == "2"
    send(gateway, topic, "3")
    with work(version, gateway.tcp_port) as worker:
        worker.subscribe(topic, id=id, headers=RABBITMQ)
        frames = [worker.message(), worker.message()]
        assert [frame.body for frame in frames] == [b"2", b"3"]
        assert [frame.headers.get("redelivered") for frame in frames] == ["true", None]
        leave_for_good(worker, RABBITMQ, id)
        send(gateway, topic, "missed")
        worker.subscribe(topic, id=id, headers=RABBITMQ)
        send(gateway, topic, "4")
        assert worker.body() == "4"
        leave_for_good(worker, RABBITMQ, id)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "header", ["activemq.subscriptionName", "durable-subscription-name", "durable-subscriber-name"]
)
def test_activemq_and_artemis(version: str, header: str, gateway: GatewayProcess, name: str) -> None:
    topic, named = f"/topic/{name}", {header: "clerk"}
    selective = {**named, "selector": "price > 10"}
    with client(gateway, name, version) as worker:
        worker.subscribe(topic, ack="client", headers=selective)
    for body, price in (("cheap", "9"), ("dear", "11"), ("dearer", "100")):
        send(gateway, topic, body, price=price)
    with client(gateway, name, version) as worker:
        worker.subscribe(topic, ack="client", headers=selective)
        frames = [worker.message(), worker.message()]
        assert [frame.body for frame in frames] == [b"dear", b"dearer"]
        worker.confirmed(worker.ack, frames[-1])
    with client(gateway, name, version) as worker:
        worker.subscribe(topic, headers=named)  # another selector: another subscription
        send(gateway, topic, "new")
        assert worker.body() == "new"
    with client(gateway, name, version) as worker:
        leave_for_good(worker, named)  # without being subscribed
        send(gateway, topic, "missed")
        worker.subscribe(topic, headers=named)
        send(gateway, topic, "last")
        assert worker.body() == "last"
        leave_for_good(worker, named)


def test_apollo(gateway: GatewayProcess, name: str) -> None:
    topic, headers = f"/topic/{name}", {"persistent": "true"}
    with work("1.1", gateway.tcp_port) as a:
        with work("1.1", gateway.tcp_port) as b:
            for worker in (a, b):
                worker.subscribe(topic, id=name, headers=headers)
            send(gateway, topic, "1", "2", "3", "4")
            assert [a.bodies(2), b.bodies(2)] == [["1", "3"], ["2", "4"]]
        leave_for_good(a, headers, name)


def test_a_restart_of_the_server(name: str, tmp_path: Path) -> None:
    """All of them, each in its own words; the server is killed while they are away."""
    topic = f"/topic/{name}"
    spelled = {"1": RABBITMQ, "2": {"activemq.subscriptionName": "clerk"}, "3": {"x-queue-name": "jobs", **RABBITMQ}}
    with start_gateway(store=f"sqlite:{tmp_path / 'store.db'}") as gateway:
        with client(gateway, name) as worker:
            for id, headers in spelled.items():
                worker.subscribe(topic, id=id, ack="client", headers=headers)
        send(gateway, topic, "in memory", persistent="false")
        send(gateway, topic, "1", "2", persistent="true")
        gateway.kill()
        gateway.start()
        send(gateway, topic, "3", persistent="true")
        for id, headers in spelled.items():
            with client(gateway, name) as worker:
                worker.subscribe(topic, id=id, headers=headers)
                assert worker.bodies(3) == ["1", "2", "3"]
                leave_for_good(worker, headers, id)
