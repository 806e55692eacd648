"""Fixtures of all tests of edges in one process."""

from __future__ import annotations

import pytest

from gateway.edges import primary
from tests.transports.conftest import harness, make_harness, turns_take_no_time  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def batches_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a busy machine ends turns in the middle of a batch."""
    monkeypatch.setattr(primary, "perf_counter", lambda: 1.0)
