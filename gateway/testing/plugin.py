"""The fixtures of pytest; entry point `stomp-gateway`, so `-p no:stomp-gateway` leaves them out.

gateway             a gateway of this test alone, empty and ready: in the loop of a test of pytest-trio, else in a
                    thread
gateway_settings    its settings; a project overrides this fixture, in conftest.py or in a module
@pytest.mark.gateway(name=value, ...)   settings of one test, over these

pytest imports this module in every run of a project that has it installed: it imports nothing else of the gateway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .local import LocalGateway
    from .starting import ThreadGateway


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gateway(**settings): settings of the gateway of this test (stomp-gateway)")


@pytest.fixture(scope="session")
def gateway_settings() -> Mapping[str, Any] | Path | str:
    """Settings of the gateway, by their names as in gateway.toml, or the path of such a file; override it."""
    return {}


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> Any:
    """A gateway of this test alone: `gateway.testing.LocalGateway`."""
    # pytest-trio runs async fixtures in the loop of the test, and passes on what stands for their values until then.
    is_trio = request.node.get_closest_marker("trio") is not None and request.config.pluginmanager.hasplugin("trio")
    return request.getfixturevalue("_gateway_in_loop" if is_trio else "_gateway_in_thread")


@pytest.fixture
async def _gateway_in_loop(request: pytest.FixtureRequest, gateway_settings: Any) -> AsyncIterator[LocalGateway]:
    from .starting import open_gateway

    async with open_gateway(gateway_settings, **_of_marks(request)) as opened:
        yield opened


@pytest.fixture
def _gateway_in_thread(request: pytest.FixtureRequest, gateway_settings: Any) -> Iterator[ThreadGateway]:
    from .starting import start_gateway

    with start_gateway(gateway_settings, **_of_marks(request)) as started:
        yield started


def _of_marks(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of the marks of a test, of which the nearest counts."""
    found: dict[str, Any] = {}
    for mark in request.node.iter_markers("gateway"):
        found = {**mark.kwargs, **found}
    return found
