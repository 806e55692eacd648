"""The worker process: what holds only in a process that a server has spawned."""

from __future__ import annotations

import multiprocessing
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

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
    def test_only_one_of_a_family(self, parent: socket.socket) -> None:
        second = pytest.raises(hypercorn_worker.SecondWorker, match="start the server with one worker")
        with hypercorn_worker.only_one(), second, hypercorn_worker.only_one():
            pass
        with hypercorn_worker.only_one():
            pass  # the place is free again


class TestNotSpawned:
    def test_nothing_is_special(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        assert not hypercorn_worker.is_spawned()
        hypercorn_worker.ignore_sigterm()
        assert signal.getsignal(signal.SIGTERM) is before
        with hypercorn_worker.only_one(), hypercorn_worker.only_one():
            pass
