"""Processes that run queries and are killed with their children, and then what has become of the messages."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyspark.sql.datasource import InputPartition

from gateway.client import Client
from pyspark_stomp.batch import BatchReader
from pyspark_stomp.options import Options
from tests.pyspark_stomp.queries import DURABLE, STREAM, Query, config, written

_ROOT = Path(__file__).parents[2]
_START = 240.0
_KILLED = 20.0
_TOGETHER = 20
_EVERY = 0.25
_PAUSE = 0.05


class Life:
    """A process in a session of its own, which is killed with all its children.

    Args:
        folder: where it runs; its output is there in `log`.
        command: and arguments.
        more: variables of its environment.
    """

    def __init__(self, folder: Path, *command: str, **more: str) -> None:
        self._log = folder / "log"
        environment = os.environ | {"PYTHONPATH": str(_ROOT)} | more
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def check(self) -> None:
        assert self._process.poll() is None, self.said

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def wait(self) -> int:
        return self._process.wait(_START)

    def wait_for(self, true: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + _START
        while not true():
            self.check()
            assert time.monotonic() < deadline, self.said
            meanwhile()
            time.sleep(_PAUSE)

    def kill(self) -> None:
        """SIGKILL for all of the session, and until they are gone."""
        deadline = time.monotonic() + _KILLED
        while living := [pid for pid in _session(self._process.pid) if pid != os.getpid()]:
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            assert time.monotonic() < deadline, f"processes {living} do not end"
            time.sleep(0.01)
        self._process.wait()


def _session(leader: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                yield int(path.parent.name)


class Feed:
    """Sends the same messages to the sources of all queries, numbered on."""

    def __init__(self, queries: list[Query]) -> None:
        self._queries = queries
        self.sent = 0  # how many each source has got
        self._next = 0.0

    def trickle(self) -> None:
        """A few more, if the last are some time ago."""
        if time.monotonic() >= self._next:
            self.send(_TOGETHER)
            self._next = time.monotonic() + _EVERY

    def send(self, count: int) -> None:
        bodies = [f"b{number}" for number in range(self.sent, self.sent + count)]
        self.sent += count
        for query in self._queries:
            client = Client(Options.of(query.where).server())
            headers = {"destination": query.source} | (STREAM if query.source.endswith(".stream") else DURABLE)
            client.send(b"".join([client.encode("SEND", headers | {"x-id": body}, body.encode()) for body in bodies]))
            client.disconnect()


@dataclass(frozen=True)
class Outcome:
    query: str
    lost: int  # messages that are not there
    doubled: int  # rows that are there twice, by body in files and at a gateway, by `x-dedup-id` at RabbitMQ
    left: int  # messages that still wait in its source
    exact: bool

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.left or (self.exact and self.doubled))


def waiting(query: Query, destination: str) -> list[tuple[str, str]]:
    """Body and `x-dedup-id` of what waits in a queue, which stays there."""
    told = {**query.where, "destination": destination, "idleTimeoutMs": "500"}
    batches = BatchReader(Options.of(told), ["body", "headers"]).read(InputPartition(0))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["body"].decode(), dict(row["headers"]).get("x-dedup-id", "")) for row in rows]


def outcomes(queries: list[Query], folder: Path, sent: int) -> list[Outcome]:
    """The outcome for the messages: of each query's files, and of each one's target."""
    expected = {f"b{number}" for number in range(sent)}
    found = []
    for query in queries:
        left = len(waiting(query, query.source)) if query.mode != "offset" else 0
        if query.files:
            got = written(folder, query.name)
            doubled = len(got) - len(set(got))
            found.append(Outcome(query.name, len(expected - set(got)), doubled, left, query.exact))
        if query.target:
            rows = waiting(query, query.target)
            lost = len(expected - {body for body, _ in rows})
            by_id = "vhost" in query.where  # RabbitMQ drops nothing; a reader of the ids can
            doubled = len(set(rows) if by_id else rows) - len({body for body, _ in rows})
            found.append(Outcome(f"{query.name}, sink", lost, doubled, 0, exact=True))
    return found


def live(folder: Path, queries: list[Query], feed: Feed, dice: random.Random, standing: str) -> None:
    """Start everything, and kill everything when that query stands still."""
    once = [query.name for query in queries if dice.random() < 0.5]
    arguments = [sys.executable, "-m", "tests.pyspark_stomp.queries", config(folder, queries, once, standing)]
    with Life(folder, *arguments) as life:
        life.wait_for((folder / "standing").exists, feed.trickle)
