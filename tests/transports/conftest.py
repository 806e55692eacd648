"""Fixtures: both transports, and a house or a street for the clients of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from gateway.transports.connection import connection
from gateway.transports.flow import back_pressure

from .house import House
from .street import OpenStreet, open_street


@pytest.fixture(autouse=True)
def turns_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a busy machine ends turns in the middle of a chunk.  Who tests their length hands in a clock of his own."""
    for module in (back_pressure, connection):
        monkeypatch.setattr(module, "perf_counter", lambda: 1.0)


@pytest.fixture(params=["tcp", "websocket"])
def kind(request: pytest.FixtureRequest) -> str:
    """The transport: whatever takes this runs over both."""
    name: str = request.param
    return name


@pytest.fixture
async def make_house(nursery: trio.Nursery) -> AsyncIterator[Callable[..., House]]:
    """A house with other parts than the usual: authenticator, options, quotas."""
    houses: list[House] = []

    def make(**parts: object) -> House:
        houses.append(House(nursery, **parts))  # type: ignore[arg-type]
        return houses[-1]

    yield make
    for house in houses:
        house.close()


@pytest.fixture
async def house(make_house: Callable[..., House]) -> House:
    """The usual house."""
    return make_house()


@pytest.fixture
def street(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenStreet:
    """Opens a street, whatever settings lie in the working directory."""
    monkeypatch.chdir(tmp_path)
    return open_street
