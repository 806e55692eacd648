"""Programs as users of RabbitMQ and ActiveMQ write them: in @stomp/stompjs and in stomp.py."""

from __future__ import annotations

import pytest

from tests.clients.driver import Driver
from tests.clients.worker import work
from tests.gateway_process import GatewayProcess

SCENARIOS = {
    "rabbitmq.mjs": "workers rpc names times expired",
    "activemq.mjs": "workers selectors groups browsing times names retained",
}


@pytest.mark.parametrize(
    ("file", "scenario"), [(file, scenario) for file, names in SCENARIOS.items() for scenario in names.split()]
)
def test_in_node(file: str, scenario: str, node: Driver, gateway: GatewayProcess, name: str) -> None:
    node.run(scenario, file=file, url=gateway.ws_url, version=None, name=name)


# -- RabbitMQ


def test_a_refused_message_is_a_dead_letter(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        worker.subscribe(line, ack="client-individual")
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


# -- ActiveMQ


def test_prefetch_and_priority_of_consumers(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    one = {"activemq.prefetchSize": "1"}
    with work("1.1", gateway.tcp_port) as low, work("1.1", gateway.tcp_port) as high:
        low.subscribe(line, ack="client", headers=one)
        high.subscribe(line, ack="client", headers={**one, "activemq.priority": "10"})
        for body in ("1", "2", "3"):
            low.send(line, body)
        first = high.message()
        assert first.body == b"1"
        second = low.message()
        assert second.body == b"2"
        high.ack(first)
        third = high.message()
        assert third.body == b"3"
        high.confirmed(high.ack, third)
        low.confirmed(low.ack, second)


def test_an_exclusive_consumer_and_its_heir(gateway: GatewayProcess, name: str) -> None:
    line, exclusive = f"/queue/{name}", {"activemq.exclusive": "true"}
    with work("1.1", gateway.tcp_port) as heir:
        with work("1.1", gateway.tcp_port) as active:
            active.subscribe(line, ack="client-individual", headers=exclusive)
            heir.subscribe(line, headers=exclusive)
            for body in ("1", "2"):
                heir.send(line, body)
            frame = active.message()
            active.confirmed(active.ack, frame)
            assert active.body() == "2"  # and it leaves without an ACK
            assert heir.messages.empty()
        again = heir.message()
        assert (again.body, again.headers["redelivered"]) == (b"2", "true")
