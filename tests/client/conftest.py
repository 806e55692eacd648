"""What the tests of the client share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.demanding import demanding
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.shared import gateway, name

__all__ = ["gateway", "name"]

Main = Callable[[], Awaitable[None]]
PATIENCE = 60.0


@pytest.fixture(params=["trio", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Runs an async function, by each backend of AnyIO."""

    async def bounded(main: Main) -> None:
        with anyio.fail_after(PATIENCE):
            await main()

    return lambda main: anyio.run(bounded, main, backend=request.param)


@dataclass(frozen=True)
class Place:
    """A gateway by one transport: the arguments of `connect`."""

    url: str
    files: dict[str, Any]


@pytest.fixture(scope="package")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """A gateway by each transport."""
    folder = tmp_path_factory.mktemp("places")
    socket = folder / "stomp.sock"
    (port,) = free_ports(1)
    plain = GatewayProcess(folder, {"tcp": f"{HOST}:{port},unix:{socket}"})
    plain.tcp_port = port
    with demanding(tmp_path_factory.mktemp("tls")) as tls, plain.running():
        files = {"ca": str(tls.ca), "cert": str(tls.cert), "key": str(tls.key)}
        yield {
            "tcp": Place(f"stomp://{HOST}:{port}", {}),
            "unix": Place(f"unix:{socket}", {}),
            "websocket": Place(plain.ws_url, {}),
            "tls": Place(tls.url, files),
            "wss": Place(f"wss://{HOST}:{tls.websocket}/ws", files),
        }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that keeps queues over a kill, and lets clients come back soon."""
    policy = '[[policy]]\nmatch = "/queue/#"\ndurable = true\nbackoff = 0.01\nmax_attempts = 1000\n'
    (tmp_path / "gateway.toml").write_text(policy)
    with GatewayProcess(tmp_path, {"store": "sqlite:store.db", "drain_retry": 100}).running() as process:
        yield process
