"""Programs as users of RabbitMQ write them, unedited: in @stomp/stompjs (rabbitmq.mjs) and in stomp.py, in 1.1."""

from __future__ import annotations

import pytest
from stomp.utils import Frame

from tests.clients.driver import Driver
from tests.clients.worker import CONNECTIONS, Worker, work
from tests.gateway_process import GatewayProcess

INDIVIDUAL = "client-individual"


@pytest.mark.parametrize("scenario", ["workers", "rpc", "names", "times", "expired"])
def test_in_node(scenario: str, node: Driver, gateway: GatewayProcess, name: str) -> None:
    node.run(scenario, file="rabbitmq.mjs", url=gateway.ws_url, version=None, name=name)


def test_a_refused_message_is_a_dead_letter(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        worker.subscribe(line, ack=INDIVIDUAL)
        worker.send(line, "bad", kind="order")
        worker.nack(worker.message())  # RabbitMQ's default: back into the queue
        again = worker.message()
        assert again.headers["redelivered"] == "true"
        worker.nack(again, requeue="false")
        worker.subscribe(f"/queue/dlq.{name}", id="2")
        dead = worker.message()
        assert dead.body == b"bad"
        assert dead.headers["kind"] == "order"
        assert dead.headers["dlq-reason"] == "rejected"
        assert dead.headers["dlq-source"] == line
        assert dead.headers["dlq-attempts"] == "2"


@pytest.mark.parametrize("version", CONNECTIONS)
def test_request_and_reply(version: str, gateway: GatewayProcess, name: str) -> None:
    port = gateway.tcp_port
    with work("1.1", port) as server, work(version, port) as a, work("1.2", port) as b:
        server.subscribe(f"/queue/{name}")
        for body, client in (("a", a), ("b", b)):
            client.send(f"/queue/{name}", body, headers={"reply-to": "/temp-queue/answers", "correlation-id": body})
        for _ in range(2):
            answer(server)
        for body, client in (("a", a), ("b", b)):
            reply = client.message()
            assert bytes(reply.body).decode() == f"to {body}"
            assert reply.headers["correlation-id"] == body
            assert reply.headers["subscription"] == "/temp-queue/answers"


def answer(server: Worker) -> Frame:
    """Answer the next request, and return it."""
    request = server.message()
    destination = request.headers["reply-to"]
    assert destination.startswith("/reply-queue/")
    headers = {"correlation-id": request.headers["correlation-id"]}
    server.send(destination, b"to " + bytes(request.body), headers=headers)
    return request
