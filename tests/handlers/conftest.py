"""Fixtures: a hall of functions, whose waits cost no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.handlers import Handlers

from .hall import Hall

MakeHall = Callable[..., Hall]


@pytest.fixture
def handlers() -> Handlers:
    """Where a test puts its functions."""
    return Handlers()


@pytest.fixture
async def make_hall(nursery: trio.Nursery, autojump_clock: MockClock, handlers: Handlers) -> MakeHall:
    """A hall with the functions that the test has registered by then; not begun."""

    def make(policies: Mapping[str, Mapping[str, Any]] | None = None, **quotas: Any) -> Hall:
        return Hall(nursery, handlers, policies, **quotas)

    return make
