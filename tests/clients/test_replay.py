"""Clients that are cut off again and again miss nothing: @stomp/stompjs against a topic with a stream (replay.mjs)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.clients.driver import Driver
from tests.clients.forwarder import Forwarder
from tests.clients.worker import Worker, work
from tests.gateway_process import HOST, GatewayProcess

pytestmark = pytest.mark.slow

CUTS = 50

Run = Callable[[str], tuple[Any, int]]
"""Runs a scenario: what came, and how many messages were sent."""


LOGS = """
[[policy]]
match = "/topic/#"
log_messages = 1_000_000

[[policy]]
match = "/topic/memory/#"
durable = false
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with a store, whose topics have logs."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "gateway.toml").write_text(LOGS)
    with GatewayProcess(folder, {"store": "sqlite:store.db"}).running() as process:
        yield process


class Publisher:
    """It sends 0, 1, 2 and so on, each when the one before is stored, and at last `end`."""

    def __init__(self, worker: Worker, topic: str) -> None:
        self.count = 0
        self._worker = worker
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        while not self._is_over.is_set():
            self._worker.send(self._topic, str(self.count))
            self.count += 1
        self._worker.send(self._topic, "end")

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def publisher(gateway: GatewayProcess, topic: str) -> Iterator[Publisher]:
    with work("1.2", gateway.tcp_port) as worker:
        found = Publisher(worker, topic)
        try:
            yield found
        finally:
            found.stop()


@pytest.fixture(params=["node", pytest.param("chromium", marks=pytest.mark.long)])
def run(request: pytest.FixtureRequest, gateway: GatewayProcess, ws_relay: Forwarder, name: str) -> Run:
    """Run a scenario; in node with a stream in memory, in Chromium behind nginx with one in the store."""
    driver: Driver = request.getfixturevalue(request.param)
    job = {"file": "replay.mjs", "version": None, "url": f"ws://{HOST}:{ws_relay.port}/ws", "name": name}
    job["topic"] = topic = f"/topic/memory/{name}"
    if request.param == "chromium":
        origin = f"{HOST}:{request.getfixturevalue('nginx')}"
        topic = f"/topic/store/{name}"
        job |= {"url": f"ws://{origin}/ws", "origin": f"http://{origin}/", "topic": topic}

    def run(scenario: str) -> tuple[Any, int]:
        with publisher(gateway, topic) as sent:
            return driver.run(scenario, {"cut": ws_relay.cut, "stop": sent.stop}, **job), sent.count

    return run


def test_who_keeps_the_number(run: Run) -> None:
    connections, count = run("numbered")
    assert len(connections) == CUTS + 1
    assert [int(body) for bodies in connections for body in bodies] == list(range(count))


def test_who_keeps_nothing(run: Run) -> None:
    came, count = run("named")
    connections = [[int(body) for body in bodies] for bodies in came["connections"]]
    assert len(connections) == CUTS + 1
    assert list(dict.fromkeys(body for bodies in connections for body in bodies)) == list(range(count))
    first, last = 0, 0  # where the next connection may begin
    for bodies, acknowledged, confirmed in zip(connections, came["acknowledged"], came["confirmed"], strict=True):
        if bodies:
            assert first <= bodies[0] <= last
            assert bodies == list(range(bodies[0], bodies[-1] + 1))
        first = first if confirmed is None else int(confirmed) + 1
        last = last if acknowledged is None else int(acknowledged) + 1
