"""Fixtures: both transports, and a harness for the clients of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from gateway.transports.connection import connection
from gateway.transports.flow import back_pressure

from .harness import Harness, MakeHarness


@pytest.fixture(autouse=True)
def turns_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a busy machine ends turns in the middle of a chunk.  Tests of their length hand in a clock of their own."""
    for module in (back_pressure, connection):
        monkeypatch.setattr(module, "perf_counter", lambda: 1.0)


@pytest.fixture(params=["tcp", "websocket"])
def kind(request: pytest.FixtureRequest) -> str:
    """The transport: a test that takes this runs over both."""
    name: str = request.param
    return name


@pytest.fixture
async def make_harness(nursery: trio.Nursery) -> AsyncIterator[MakeHarness]:
    """A harness with other parts than the usual: authenticator, options, quotas."""
    harnesses: list[Harness] = []

    def make(**parts: object) -> Harness:
        harnesses.append(Harness(nursery, **parts))  # type: ignore[arg-type]
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()


@pytest.fixture
async def harness(make_harness: MakeHarness) -> Harness:
    """The usual harness."""
    return make_harness()
