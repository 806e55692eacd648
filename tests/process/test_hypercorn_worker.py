"""The worker process: what holds only in a process that a server has spawned."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import trio

from gateway.process import hypercorn_worker


@dataclass
class Parent:
    """What multiprocessing tells a child of its parent: a descriptor that reads as ended when the parent has."""

    sentinel: int


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """We are a spawned worker; closing the fixture is the end of the parent."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: Parent(ours.fileno()))
        yield theirs


class TestSpawned:
    def test_sigterm_is_ignored(self, parent: socket.socket) -> None:
        before = signal.getsignal(signal.SIGTERM)
        try:
            hypercorn_worker.ignore_sigterm()
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_only_one_of_a_family(self, parent: socket.socket) -> None:
        second = pytest.raises(hypercorn_worker.SecondWorker, match="start the server with one worker")
        with hypercorn_worker.only_one(), second, hypercorn_worker.only_one():
            pass
        with hypercorn_worker.only_one():
            pass  # the place is free again

    async def test_end_of_the_parent(self, parent: socket.socket) -> None:
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.expect_end)
                await trio.testing.wait_all_tasks_blocked()
                parent.close()

    async def expect_end(self) -> None:
        with pytest.raises(hypercorn_worker.ParentGone):
            await hypercorn_worker.watch_parent()


class TestNotSpawned:
    def test_nothing_is_special(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        assert not hypercorn_worker.is_spawned()
        hypercorn_worker.ignore_sigterm()
        assert signal.getsignal(signal.SIGTERM) is before
        with hypercorn_worker.only_one(), hypercorn_worker.only_one():
            pass


def test_a_refusal_is_one_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Exited(BaseException):
        pass

    def leave(status: int) -> None:
        raise Exited(status)

    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(Exited) as exited:
        hypercorn_worker.refuse("tcp is wrong")
    assert exited.value.args == (1,)
    assert capsys.readouterr().err == "gateway: tcp is wrong\n"
