"""Programs as users of RabbitMQ, ActiveMQ, Artemis and Apollo write them: in @stomp/stompjs and in stomp.py."""

from __future__ import annotations

import time

import pytest
from stomp.utils import Frame

from tests.clients.driver import Driver
from tests.clients.worker import CONNECTIONS, PATIENCE, Worker, work
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


@pytest.mark.parametrize("header", ["AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"])
def test_a_schedule_is_refused(header: str, gateway: GatewayProcess, name: str) -> None:
    stranger = Worker("1.1", gateway.tcp_port)
    stranger.connection.connect(wait=True)
    stranger.connection.send(f"/queue/{name}", "x", headers={header: "3"})
    assert stranger.errors.get(timeout=PATIENCE).headers["message"] == f"{header} is not supported"
    stranger.losses.get(timeout=PATIENCE)


# -- Artemis and Apollo


@pytest.mark.parametrize("window", ["consumer-window-size:2048", "credit:5,2048"])
def test_a_window_in_octets(window: str, gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    header, _, value = window.partition(":")
    with work("1.2", gateway.tcp_port) as slow, work("1.2", gateway.tcp_port) as fast:
        slow.subscribe(line, ack="client", headers={header: value})
        for body in ("1", "2", "3", "4"):
            slow.send(line, body * 1024)
        held = [slow.message(), slow.message()]  # the second one fills the window
        fast.subscribe(line)
        assert [body[0] for body in fast.bodies(2)] == ["3", "4"]
        slow.confirmed(slow.ack, held[1])
        assert slow.messages.empty()


@pytest.mark.parametrize("header", ["_AMQ_DUPL_ID", "dedup-id"])
def test_duplicates(header: str, gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        for body, identity in (("1", "a"), ("1 again", "a"), ("2", "b"), ("2 again", "b"), ("3", "c")):
            worker.send(line, body, headers={header: identity})
        worker.subscribe(line)
        assert worker.bodies(3) == ["1", "2", "3"]


def test_schedule_and_last_value(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        for body in ("old", "new"):
            worker.send(line, body, headers={"_AMQ_LVQ_NAME": "price"})
        moment = time.time() + 0.2
        worker.send(line, "late", headers={"_AMQ_SCHED_DELIVERY": str(int(moment * 1000) + 1)})
        worker.subscribe(line)
        assert worker.body() == "new"
        assert worker.body() == "late"
        assert time.time() >= moment


@pytest.mark.parametrize("header", ["message_group", "_AMQ_GROUP_ID"])
def test_groups(header: str, gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as a, work("1.1", gateway.tcp_port) as b:
        for worker in (a, b):
            worker.subscribe(line)
        for body in ("x1", "y1", "x2", "y2"):
            a.send(line, body, headers={header: body[0]})
        frames = sorted([[a.message(), a.message()], [b.message(), b.message()]], key=lambda pair: pair[0].body)
        assert [[frame.body for frame in pair] for pair in frames] == [[b"x1", b"x2"], [b"y1", b"y2"]]
        assert {frame.headers[header] for frame in frames[0]} == {"x"}


def test_time_to_live(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        worker.send(line, "brief", ttl="50")
        worker.send(line, "long", ttl="60000")
        worker.let_pass(150)
        worker.subscribe(line)
        frame = worker.message()
        assert frame.body == b"long"
        assert 0 < int(frame.headers["expires"]) - time.time() * 1000 <= 60_000


def test_a_browser_without_end(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as browser, work("1.1", gateway.tcp_port) as worker:
        worker.send(line, "waits")
        browser.subscribe(line, headers={"browser": "true", "browser-end": "false"})
        assert browser.body() == "waits"
        worker.send(line, "comes")
        assert browser.body() == "comes"
        worker.subscribe(line)
        assert worker.bodies(2) == ["waits", "comes"]
        worker.send(line, "taken at once")
        assert browser.body() == "taken at once"
        assert worker.body() == "taken at once"
