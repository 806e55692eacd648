"""What the tests of the connector share: one gateway, one Spark session, and words for what they do with them.

The gateway's topics under `/topic/log` keep a stream.  Each test has destinations of its own (`name`).  Spark is
started once, with the first test that asks for it, and says by itself what is missing where there is no Java.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.client import Client
from pyspark_stomp.options import Options
from tests.gateway_process import HOST, GatewayProcess
from tests.pyspark_stomp.rabbitmq import is_installed, running_rabbitmq
from tests.spark import spark

__all__ = ["spark"]

_numbers = itertools.count(1)
_POLICIES = '[[policy]]\nmatch = "/topic/log.#"\nlog_messages = 1_000_000\nlog_bytes = "256MiB"\n'
_POLICIES += '[[policy]]\nmatch = "/topic/short.#"\nlog_messages = 100\n'


@contextmanager
def running_gateway(folder: Path, **settings: object) -> Iterator[GatewayProcess]:
    (folder / "gateway.toml").write_text(_POLICIES)
    with GatewayProcess(folder, settings).running() as process:
        yield process


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture(scope="package")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The STOMP port of a RabbitMQ that all tests share; 0 where it is not installed, which CI must not pass over."""
    if not is_installed():
        assert not os.environ.get("CI"), "RabbitMQ is missing: tests/install-tools brings it"
        yield 0
        return
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as port:
        yield port


@pytest.fixture
def name() -> str:
    return f"spark-{next(_numbers)}"


class Broker:
    def __init__(self, process: GatewayProcess) -> None:
        self.process = process
        self.where = {"host": HOST, "port": str(process.tcp_port)}

    def options(self, **more: str) -> Options:
        return Options.of({**self.where, **more})

    def send(self, destination: str, bodies: list[str], **headers: str) -> None:
        client = Client(self.options().server())
        lines = {"destination": destination, **headers}
        client.send(b"".join([client.encode("SEND", lines, body.encode()) for body in bodies]))
        client.disconnect()

    def waiting(self, destination: str) -> list[str]:
        client = Client(self.options().server())
        headers = {"id": "0", "destination": destination, "browser": "true", "ack": "auto"}
        client.request("SUBSCRIBE", headers)
        bodies: list[str] = []
        while True:
            for frame in client.receive(5):
                if frame.headers.get("browser") == "end":
                    client.disconnect()
                    return bodies
                bodies.append(frame.body.decode())


@pytest.fixture
def broker(gateway: GatewayProcess) -> Broker:
    return Broker(gateway)
