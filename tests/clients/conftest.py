"""What the tests of real clients share: one gateway, relays to it, one nginx, and the running node programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.driver import Driver, start_driver, tool
from tests.clients.forwarder import Forwarder, start_forwarder
from tests.clients.nginx import start_nginx
from tests.gateway_process import GatewayProcess
from tests.shared import gateway, name, write_users

__all__ = ["gateway", "name"]


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A users file that knows ada, whose passcode is `engine`."""
    return write_users(tmp_path / "users.txt", {"ada": "engine"})


@pytest.fixture
def tcp_relay(gateway: GatewayProcess) -> Iterator[Forwarder]:
    """A breakable way to the gateway's TCP port."""
    with start_forwarder(gateway.tcp_port) as relay:
        yield relay


@pytest.fixture
def ws_relay(gateway: GatewayProcess) -> Iterator[Forwarder]:
    """A breakable way to the gateway's WebSocket port."""
    with start_forwarder(gateway.ws_port) as relay:
        yield relay


@pytest.fixture
def nginx(gateway: GatewayProcess, ws_relay: Forwarder) -> Iterator[int]:
    """The public port of an nginx whose way to the gateway's WebSocket port is breakable."""
    with start_nginx(ws_relay.port, gateway.http_port) as port:
        yield port


@pytest.fixture(scope="package")
def node() -> Iterator[Driver]:
    with start_driver("node.mjs") as driver:
        yield driver


@pytest.fixture(scope="package")
def chromium() -> Iterator[Driver]:
    with start_driver("chromium.mjs", tool("chromium")) as driver:
        yield driver
