"""Two gateways for all tests of the relay, a RabbitMQ, and a name for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client import StompServer
from tests.gateway_process import GatewayProcess
from tests.pyspark_stomp.rabbitmq import is_installed, running_rabbitmq
from tests.shared import name

from .relaying import AT_RABBITMQ, Pair, at, running

__all__ = ["name"]


@pytest.fixture(scope="package")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with running(tmp_path_factory.mktemp("one") / "gateway") as process:
        yield process


@pytest.fixture(scope="package")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Where they go; it wants no body above 1 KiB."""
    with running(tmp_path_factory.mktemp("two") / "gateway", max_body=1024) as process:
        yield process


@pytest.fixture
def source(one: GatewayProcess) -> StompServer:
    return at(one.tcp_port)


@pytest.fixture
def target(two: GatewayProcess) -> StompServer:
    return at(two.tcp_port)


@pytest.fixture
def pair(one: GatewayProcess, two: GatewayProcess, name: str, tmp_path: Path) -> Pair:
    """Both gateways, with a name and a folder for the test."""
    return Pair(one, two, at(one.tcp_port), at(two.tcp_port), name, tmp_path)


@pytest.fixture(scope="package")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StompServer]:
    """A RabbitMQ that all tests share."""
    assert is_installed() or not os.environ.get("CI"), "RabbitMQ is missing: tests/install-tools brings it"
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as port:
        yield at(port, **AT_RABBITMQ)
