"""What the tests of the connector share: one gateway, one Spark session, and words for what they do with them.

The gateway's topics under `/topic/log` keep a log.  Each test has destinations of its own (`name`).  Spark is started
once, with the first test that asks for it, and says by itself what is missing where there is no Java.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_stomp.client import Client
from pyspark_stomp.options import Options
from tests.gateway_process import HOST, GatewayProcess

_numbers = itertools.count(1)
_POLICIES = '[[policy]]\nmatch = "/topic/log.#"\nlog_messages = 1_000_000\nlog_octets = "256MiB"\n'
_POLICIES += '[[policy]]\nmatch = "/topic/short.#"\nlog_messages = 100\n'


def start_spark() -> SparkSession:
    """A small local Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # or its workers run the system's Python
    os.environ["SPARK_LOCAL_IP"] = HOST
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",  # what runs once is not worth compiling
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = SparkSession.builder.master("local[2]").appName("tests.pyspark_stomp")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests share."""
    session = start_spark()
    yield session
    session.stop()


@contextmanager
def running_gateway(folder: Path) -> Iterator[GatewayProcess]:
    """A gateway for the time of the block, in a folder that is there."""
    (folder / "gateway.toml").write_text(_POLICIES)
    process = GatewayProcess(folder, {})
    try:
        process.start()
        yield process
    except BaseException:
        process.kill()
        raise
    process.stop()


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """The gateway that all tests share."""
    with running_gateway(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def name() -> str:
    """A word that no other test has, for destinations."""
    return f"spark-{next(_numbers)}"


class Broker:
    """A gateway as tests use it beside Spark."""

    def __init__(self, process: GatewayProcess) -> None:
        self.process = process
        self.where = {"host": HOST, "port": str(process.tcp_port)}

    def options(self, **more: str) -> Options:
        """Options of a query at this gateway."""
        return Options.of({**self.where, **more})

    def send(self, destination: str, bodies: list[str], **headers: str) -> None:
        """Send messages; on return the gateway has them."""
        client = Client(self.options())
        lines = {"destination": destination, **headers}
        client.send(b"".join([client.encode("SEND", lines, body.encode()) for body in bodies]))
        client.disconnect()

    def waiting(self, destination: str) -> list[str]:
        """The bodies of what waits in a queue."""
        client = Client(self.options())
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
    """The gateway, with words for what tests do."""
    return Broker(gateway)
