"""The NATS servers of a cluster: a connection for each purpose, for each is used by a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from . import preflight
from .directory import LEASE, Directory, NoDirectory
from .log import NoLog
from .nats.connection import NatsConnection, NatsOptions
from .nats.faults import About, NatsUnavailable
from .nats.jetstream import JetStream
from .room import Room, rooms
from .snapshots import Snapshots
from .stream_log import StreamLog


class Servers:
    """Makes connections when they are needed, and closes them at the end of the block.

    `options_for`: how to reach the servers, for a purpose that names the connection in their lists.  `name`: of the
    cluster.
    """

    def __init__(self, options_for: Callable[[str], NatsOptions], name: str) -> None:
        self._options_for = options_for
        self._name = name
        self._connections: list[NatsConnection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._connections:
            each.close()

    def check(self) -> bool:
        """Look whether the servers are what a cluster needs; returns whether they tell that they synchronize always.

        Raises NatsUnavailable: they do not answer yet; NatsRefused: they are not.
        """
        with self._for_now("start") as jets:
            return preflight.check(jets)

    def make(self, replicas: int, applied: int = 0) -> None:
        """Make log, directory and snapshots, unless they are there; but no new log in the place of a lost one.

        Where the directory alone is gone, it is made behind the last lease.

        `applied`: messages of the log that this node's copy has.  Raises NatsUnavailable, LogUnavailable: the servers
        do not answer, or the log is lost; NatsRefused: they refuse.
        """
        with self._for_now("start") as jets:
            log, directory = StreamLog(jets, self._name), Directory(jets, self._name)
            if _is_lost(log, directory, applied):
                # Servers that start may not know their streams yet: a node's start waits a while.
                raise NatsUnavailable(f"{lost(self._name, applied)}: {LOST_REMEDY}", About.SERVER)
            log.make(replicas)
            if log.bounds().last and not _has_directory(directory):
                time.sleep(LEASE)  # a primary may still have one
            directory.make(replicas)
            Snapshots(jets, self._name).make(replicas)

    def log(self) -> StreamLog:
        return StreamLog(self._connect("log"), self._name)

    def directory(self, purpose: str = "directory") -> Directory:
        return Directory(self._connect(purpose), self._name)

    def snapshots(self) -> Snapshots:
        return Snapshots(self._connect("snapshots"), self._name)

    def rooms(self) -> list[Room]:
        """What has a limit of storage, and tells it; see `room.py`."""
        with self._for_now("room") as jets:
            return rooms(jets)

    def _connect(self, purpose: str) -> JetStream:
        jets = self._new(purpose)
        self._connections.append(jets.connection)
        return jets

    @contextmanager
    def _for_now(self, purpose: str) -> Iterator[JetStream]:
        jets = self._new(purpose)
        try:
            yield jets
        finally:
            jets.connection.close()

    def _new(self, purpose: str) -> JetStream:
        return JetStream(NatsConnection(replace(self._options_for(purpose), demand=preflight.unfit)))


LOST_REMEDY = (
    "name a new file if the copy is another cluster's; if not, stop all nodes, and do what docs/cluster.md says under "
    "A lost log"
)


def lost(name: str, applied: int) -> str:
    """The sentence on a log that was lost.  `applied`: messages of it that this node's copy has."""
    return f"the log of the cluster {name} is empty or gone, and this node's copy has it up to message {applied:,}"


def _is_lost(log: StreamLog, directory: Directory, applied: int) -> bool:
    """True if there was a log with messages: this node has applied some, or there was a primary."""
    try:
        return not log.bounds().last and applied > 0
    except NoLog:
        if applied:
            return True
    return _has_directory(directory) and directory.won() > 0


def _has_directory(directory: Directory) -> bool:
    try:
        directory.won()
    except NoDirectory:
        return False
    return True
