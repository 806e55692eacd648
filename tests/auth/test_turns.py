"""Turns: an address has a few places, and others do not wait behind it."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.turns import PLACES, Turns


async def test_places() -> None:
    turns, release, inside = Turns(), trio.Event(), []

    async def enter(address: str) -> None:
        async with turns.of(address):
            inside.append(address)
            await release.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(PLACES + 3):
            nursery.start_soon(enter, "a")
        nursery.start_soon(enter, "b")
        await wait_all_tasks_blocked()
        assert sorted(inside) == ["a"] * PLACES + ["b"]
        release.set()
    assert len(inside) == PLACES + 4
    assert turns._lines == {}


async def test_who_gives_up_leaves_the_line() -> None:
    turns = Turns()

    async def enter(scope: trio.CancelScope) -> None:
        with scope:
            async with turns.of("a"):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(PLACES + 1)]
        for scope in scopes:
            nursery.start_soon(enter, scope)
        await wait_all_tasks_blocked()
        for scope in scopes:
            scope.cancel()
    assert turns._lines == {}
