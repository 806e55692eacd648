"""Turns: an address has a few places, and others do not wait behind it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.failed_logins import PLACES, FailedLogins, LoginQueue, TooManyFailedLogins


async def test_places() -> None:
    turns, release, inside = LoginQueue(), trio.Event(), []

    async def enter(address: str) -> None:
        async with turns.place(address):
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
    assert turns._queues == {}


async def test_who_failed_too_often_has_no_turn() -> None:
    """Nor has who waits already: a thousand guesses at once are not more than one after the other."""
    failures, release, told = FailedLogins(2), trio.Event(), []
    turns = LoginQueue(failures, places=2)

    async def guess() -> None:
        try:
            async with turns.place("2001:db8::1"):
                await release.wait()
                failures.count("2001:db8::2")
                told.append("wrong")
        except TooManyFailedLogins:
            told.append("unheard")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(guess)
        await wait_all_tasks_blocked()
        assert list(turns._queues) == ["2001:db8::/64"]
        release.set()
    assert (told.count("wrong"), told.count("unheard")) == (2, 8)
    with pytest.raises(TooManyFailedLogins):
        turns.check("2001:db8::1")
    async with turns.place("192.0.2.1"):
        pass
    assert turns._queues == {}


async def test_who_gives_up_leaves_the_line() -> None:
    turns = LoginQueue()

    async def enter(scope: trio.CancelScope) -> None:
        with scope:
            async with turns.place("a"):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(PLACES + 1)]
        for scope in scopes:
            nursery.start_soon(enter, scope)
        await wait_all_tasks_blocked()
        for scope in scopes:
            scope.cancel()
    assert turns._queues == {}
