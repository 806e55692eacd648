"""The NATS servers of a cluster: a connection for each purpose, for each is used by a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from . import preflight
from .directory import Directory
from .nats.connection import NatsConnection, NatsOptions
from .nats.jetstream import JetStream
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

    def make(self, replicas: int) -> None:
        """Make log, directory and snapshots, unless they are there.

        Raises NatsUnavailable: the servers do not answer; NatsRefused: they refuse.
        """
        with self._for_now("start") as jets:
            StreamLog(jets, self._name).make(replicas)
            Directory(jets, self._name).make(replicas)
            Snapshots(jets, self._name).make(replicas)

    def log(self) -> StreamLog:
        return StreamLog(self._connect("log"), self._name)

    def directory(self, purpose: str = "directory") -> Directory:
        return Directory(self._connect(purpose), self._name)

    def snapshots(self) -> Snapshots:
        return Snapshots(self._connect("snapshots"), self._name)

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
