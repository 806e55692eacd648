"""Open gateways, for all tests of the admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .running import Running, running


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A gateway in memory; programs on this machine may use its API."""
    monkeypatch.chdir(tmp_path)
    async with running() as site:
        yield site


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A gateway with an admin token; see `running.BEARER`."""
    monkeypatch.chdir(tmp_path)
    async with running(admin_token="planted-token") as site:
        yield site
