"""Fixtures: functions, and a hall for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio

from gateway.handlers import Handlers

from .hall import Hall

MakeHall = Callable[..., Hall]


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
async def make_hall(nursery: trio.Nursery, handlers: Handlers) -> MakeHall:
    """A hall with the functions that the test has registered by then; not begun."""

    def make(policies: Mapping[str, Mapping[str, Any]] | None = None, **quotas: Any) -> Hall:
        return Hall(nursery, handlers, policies, **quotas)

    return make
