"""Follower: reads the log and applies it to the node's own file, and makes a primary of the node.

Everything here blocks, and is called from one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.broker.core.ports import StoreError

from .log import Fenced, Log, LogUnavailable, LogWriter, Message
from .records import LONGEST_PART, Assembler, Kind, Record, RecordError, pack_map, parse
from .replica import Replica
from .store import ReplicatedStore

TRIES = 20
"""Attempts of a node that won the lease to be the last writer of the log, while the old primary still writes; and to
read what the log has."""

PAUSE = 0.05
"""Seconds between two of them, while a server lags."""


class LogGap(StoreError):
    """The log was purged beyond what is applied here: a snapshot is needed."""


class Follower:
    """A replica, and its place in the log.

    `end`: sequence of the last message of the log, when it was last asked; `read`: of the last one that was read here.
    `longest`: bytes of a part of the records that this node writes as primary.
    """

    def __init__(
        self, log: Log, replica: Replica, clock: Callable[[], float] = time.time, longest: int = LONGEST_PART
    ) -> None:
        self.replica = replica
        self.read = replica.sequence
        self.end = replica.sequence
        self._log = log
        self._clock = clock
        self._longest = longest
        self._assembler = Assembler()

    @property
    def lag(self) -> int:
        """Messages of the log that are not applied here yet."""
        return max(0, self.end - self.read)

    def look(self) -> None:
        """Ask how long the log is.  Raises LogUnavailable; LogGap: messages are missing; StoreError: there are
        fewer than this node has applied.
        """
        bounds = self._log.bounds()
        self.end = bounds.last
        if bounds.first > self.read + 1:
            raise LogGap(f"the log begins with {bounds.first}, and this node has applied {self.replica.sequence}")
        if bounds.last < self.read:
            raise StoreError(
                f"the log ends with {bounds.last}, and this node has applied {self.replica.sequence}: the servers have "
                f"lost messages, or it is another log; stop this node and move {self.replica.store.path} away"
            )

    def step(self) -> int:
        """Apply the next messages of the log; returns how many there were.

        Raises LogUnavailable: the log does not answer; LogGap: messages are missing; StoreError: they cannot be
        applied.
        """
        found = self._log.read(self.read + 1)
        for message in found:
            try:
                self._take(message)
            except StoreError:
                self._begin_again()
                raise
        self.end = max(self.end, self.read)
        return len(found)

    def _take(self, message: Message) -> None:
        sequence, data = message
        if sequence != self.read + 1:
            raise LogGap(f"the log goes on with {sequence}, and this node has applied {self.replica.sequence}")
        try:
            record = self._assembler.add(parse(data))
            if record is not None:
                self.replica.apply(record, sequence)
        except RecordError as error:
            raise StoreError(f"message {sequence} of the log cannot be applied: {error}") from None
        self.read = sequence

    def _begin_again(self) -> None:
        """Read on behind what is applied: of a record in several parts, the first ones must come again."""
        self.read = self.replica.sequence
        self._assembler = Assembler()

    def take_over(self, node: str, address: str, version: str, on_fenced: Callable[[], None]) -> ReplicatedStore:
        """Apply the log to its end, and append the record of a new epoch, which fences the old primary.

        Raises LogUnavailable: the log does not answer, or the old primary still writes; StoreError: it cannot be
        applied.
        """
        for _ in range(TRIES):
            self._catch_up()
            # The first primary gives the cluster the token of its file.
            values = {"node": node, "address": address, "token": self.replica.token, "version": version}
            record = Record(Kind.EPOCH, self.replica.epoch + 1, 0, int(self._clock() * 1e6), pack_map(values))
            writer = LogWriter(self._log, self.read, self._longest)
            try:
                self.read = writer.append(record)
            except Fenced:
                continue  # the old primary was faster, once more
            try:
                self.replica.apply(record, self.read)
            except StoreError:
                self._begin_again()
                raise
            return ReplicatedStore(self.replica, writer, record.epoch, on_fenced, self._clock)
        raise LogUnavailable("the old primary of the cluster still writes to the log")

    def _catch_up(self) -> None:
        self.look()
        empty = 0
        while self.lag:
            if not self.step():  # a server that lags has answered
                empty += 1
                if empty > TRIES:
                    raise LogUnavailable(f"the log does not show its messages from {self.read + 1} to {self.end}")
                time.sleep(PAUSE)
