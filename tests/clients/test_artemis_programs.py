"""Programs as users of Artemis and of Apollo write them, unedited, in stomp.py."""

from __future__ import annotations

import time

import pytest

from tests.clients.worker import work
from tests.gateway_process import GatewayProcess


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
