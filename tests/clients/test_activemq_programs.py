"""Programs as users of ActiveMQ write them, unedited: in @stomp/stompjs (activemq.mjs) and in stomp.py."""

from __future__ import annotations

import time

import pytest

from tests.clients.driver import Driver
from tests.clients.worker import PATIENCE, Worker, work
from tests.gateway_process import GatewayProcess


@pytest.mark.parametrize("scenario", ["workers", "selectors", "groups", "browsing", "times", "names", "retained"])
def test_in_node(scenario: str, node: Driver, gateway: GatewayProcess, name: str) -> None:
    node.run(scenario, file="activemq.mjs", url=gateway.ws_url, version=None, name=name)


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


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_selector(kind: str, gateway: GatewayProcess, name: str) -> None:
    destination = f"/{kind}/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        worker.subscribe(destination, headers={"selector": "weight BETWEEN 1.5 AND 20 AND NOT (colour = 'red')"})
        for body, weight, colour in (("a", "3", "red"), ("b", "20", "blue"), ("c", "100", "blue"), ("d", "9", "")):
            worker.send(destination, body, headers={"weight": weight, "colour": colour})
        worker.send(destination, "e")  # neither weight nor colour: unknown, so not taken
        worker.send(destination, "f", headers={"weight": "1.5", "colour": "blue"})
        assert worker.bodies(3) == ["b", "d", "f"]


def test_groups(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as stays:
        with work("1.1", gateway.tcp_port) as leaves:
            for worker in (leaves, stays):
                worker.subscribe(line, ack="client")
            for body in ("x1", "y1", "x2", "y2"):
                stays.send(line, body, headers={"JMSXGroupID": body[0]})
            frames = [leaves.message(), leaves.message()]
            mine = frames[0].headers["JMSXGroupID"]
            assert [bytes(frame.body).decode() for frame in frames] == [f"{mine}1", f"{mine}2"]
            leaves.confirmed(leaves.ack, frames[0])
            other = "y" if mine == "x" else "x"
            assert stays.bodies(2) == [f"{other}1", f"{other}2"]
        again = stays.message()
        assert bytes(again.body).decode() == f"{mine}2"
        assert again.headers["redelivered"] == "true"
        stays.send(line, f"{mine}3", headers={"JMSXGroupID": mine})
        assert stays.body() == f"{mine}3"


def test_browsing(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        for body in ("1", "2"):
            worker.send(line, body)
        worker.subscribe(line, id="browser", headers={"browser": "true"})
        assert worker.bodies(2) == ["1", "2"]
        end = worker.message()
        assert (end.headers["browser"], end.headers["subscription"]) == ("end", "browser")
        worker.subscribe(line)
        assert worker.bodies(2) == ["1", "2"]


def test_times(gateway: GatewayProcess, name: str) -> None:
    line = f"/queue/{name}"
    with work("1.1", gateway.tcp_port) as worker:
        for body, lives in (("expired", -1000), ("expires soon", 50), ("expires late", 60_000)):
            worker.send(line, body, headers={"expires": str(int(time.time() * 1000) + lives)})
        worker.let_pass(150)
        worker.subscribe(line)
        assert worker.body() == "expires late"
        sent = time.monotonic()
        worker.send(line, "late", headers={"AMQ_SCHEDULED_DELAY": "200"})
        assert worker.body() == "late"
        assert time.monotonic() - sent >= 0.2


@pytest.mark.parametrize("header", ["AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"])
def test_a_schedule_is_refused(header: str, gateway: GatewayProcess, name: str) -> None:
    stranger = Worker("1.1", gateway.tcp_port)
    stranger.connection.connect(wait=True)
    stranger.connection.send(f"/queue/{name}", "x", headers={header: "3"})
    assert stranger.errors.get(timeout=PATIENCE).headers["message"] == f"{header} is not supported"
    stranger.losses.get(timeout=PATIENCE)


def test_names_and_no_local(gateway: GatewayProcess, name: str) -> None:
    with work("1.1", gateway.tcp_port) as a, work("1.1", gateway.tcp_port) as b:
        a.subscribe(f"/topic/{name}.>", headers={"activemq.noLocal": "true"})
        a.send(f"/topic/{name}.own", "local")
        b.send(f"/queue/{name},/topic/{name}.copy", "to both", headers={"priority": "7"})
        topics = a.message()
        assert (topics.body, topics.headers["destination"]) == (b"to both", f"/topic/{name}.copy")
        b.subscribe(f"/queue/{name}")
        queues = b.message()
        assert (queues.body, queues.headers["destination"]) == (b"to both", f"/queue/{name}")
        assert queues.headers["priority"] == "7"
