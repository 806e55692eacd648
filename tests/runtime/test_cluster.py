"""Turns of a node: each gateway ends in order, also when the process stops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from gateway.runtime.cluster import turns


class ANode:
    """A node that becomes primary at once, or never, and then decides until it is stopped."""

    def __init__(self, *, wins: bool) -> None:
        self.term = SimpleNamespace(store=None, lease=None, reason="")
        self.ended: list[object] = []
        self._wins = wins

    def where(self) -> str:
        return ""

    async def follow(self) -> object:
        if not self._wins:
            await trio.sleep_forever()
        self._wins = False
        return self.term

    async def decide(self, term: object) -> None:
        await trio.sleep_forever()

    async def end(self, term: object) -> None:
        self.ended.append(term)


class Openings:
    """Gateways that were opened: what they are, and how they ended."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @asynccontextmanager
    async def open(self, **part: Any) -> AsyncIterator[SimpleNamespace]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)  # like the task that writes to the store
            yield SimpleNamespace(abandoned=False, connection_limits=None, broker=SimpleNamespace(storage=object()))
            await trio.lowlevel.checkpoint_if_cancelled()  # like a drain, for which that task has to run
            self.told.append(", ".join(part))
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("wins", "told"), [(False, ["standby"]), (True, ["standby", "store, lease"])], ids=["standby", "primary"]
)
async def test_a_stop_lets_the_gateway_drain(
    wins: bool, told: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    node, openings, stopping = ANode(wins=wins), Openings(), trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(turns, node, openings.open, stopping))  # type: ignore[arg-type]
            await trio.testing.wait_all_tasks_blocked()
            stopping.set()
    assert openings.told == told
    assert node.ended == ([node.term] if wins else [])
