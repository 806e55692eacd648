"""A gateway for all tests of the push, and a name for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.client import StompServer
from tests.gateway_process import HOST, GatewayProcess
from tests.shared import name

__all__ = ["name"]

TOML = """
events = "/queue/events"
events_of = ["/topic/room.>"]
events_of_sessions = false

[[policy]]
match = "/queue/#"
backoff = 0.01

[[policy]]
match = "/queue/*.short"
ack_timeout = 1.5
"""


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("push") / "gateway"
    folder.mkdir()
    (folder / "gateway.toml").write_text(TOML)
    with GatewayProcess(folder, {}).running() as process:
        yield process


@pytest.fixture
def server(gateway: GatewayProcess) -> StompServer:
    return StompServer(HOST, gateway.tcp_port)
