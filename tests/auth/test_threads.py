"""Threads that give way: their priority, their number, and what becomes of a caller that goes."""

from __future__ import annotations

import os
import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.users import NICENESS, SlowThreads


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


async def test_they_give_way_to_all_others() -> None:
    ours = niceness()
    assert await SlowThreads(1).run(niceness) == min(ours + NICENESS, 19)
    assert niceness() == ours
    assert await trio.to_thread.run_sync(niceness) == ours


async def test_where_the_system_refuses_they_do_their_work_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, who: int, priority: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    assert await SlowThreads(1).run(sum, [1, 2]) == 3


async def test_the_caller_gets_the_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await SlowThreads(1).run(int, "x")


class Work:
    """What a thread does until the test lets it end."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._release = threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self.has_begun = trio.Event()

    def __call__(self, number: int) -> int:
        self.begun.append(number)
        trio.from_thread.run_sync(self.has_begun.set, trio_token=self._token)
        self._release.wait(10)
        return number

    def end(self) -> None:
        self._release.set()


async def test_who_leaves_the_line_is_not_worked_for(nursery: trio.Nursery) -> None:
    threads, work = SlowThreads(1), Work()
    nursery.start_soon(threads.run, work, 1)
    await work.has_begun.wait()
    with trio.CancelScope() as scope:
        nursery.start_soon(_cancel_when_blocked, scope)
        await threads.run(work, 2)
    assert scope.cancelled_caught
    work.end()
    assert await threads.run(work, 3) == 3
    assert work.begun == [1, 3]


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


def test_a_loop_that_has_ended_is_not_told() -> None:
    found: list[Work] = []

    async def leave(threads: SlowThreads) -> None:
        found.append(Work())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(threads.run, found[0], 1)
            await found[0].has_begun.wait()
            nursery.cancel_scope.cancel()

    threads = SlowThreads(1)
    trio.run(leave, threads)
    found[0].end()
    assert trio.run(threads.run, sum, [1, 2]) == 3, "the thread lives on"
