"""The replicated log, and how one primary writes to it.

    LogWriter.append(record)      each part is appended behind the last one, or is refused
    Log.read(first)               what was appended, from a sequence on

An append names the sequence that it expects to be the last one.  If another node wrote meanwhile, the log refuses it:
the writer is `Fenced` and stops at once.  No clock is part of that.  An append without an answer is simply made again:
if the first attempt got through, the second one is refused, and the writer finds its own part behind its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gateway.broker.core.ports import StoreError

from .records import LONGEST_PART, Record, parts_of

ELECTION = 15.0
"""Seconds for which commits wait: the servers may be choosing a leader, which takes them up to ten."""


class LogUnavailable(StoreError):
    """The servers of the log do not answer, or have no majority.  What was asked may have happened all the same."""

    patience = ELECTION
    public = "the log of the cluster has no leader for now, or no majority of its servers"


class LogFull(LogUnavailable):
    """The servers have no room for the log."""

    public = "the log of the cluster is full"


class NoLog(LogUnavailable):
    """The servers answer that there is no log."""


class SequenceRefused(Exception):
    """The log has more messages than the append expects."""


class Fenced(StoreError):
    """Another node is primary: this one may not write, and what it has in memory counts no more."""

    public = "another node of the cluster is primary"


class Message(NamedTuple):
    """A message of the log."""

    sequence: int  # from 1
    data: bytes


class LogServer(NamedTuple):
    """A server that holds the log.  `is_current`: it is there, and has all of the log, as far as its leader knows."""

    name: str
    leads: bool
    is_current: bool


class Bounds(NamedTuple):
    """What the log has.  `servers`: that hold it, the leader first; empty: not known.  `limit`: most bytes that it may
    have; 0: none of its own.
    """

    first: int  # sequence of the first message that is not purged; `last` + 1 if there is none
    last: int  # of the last message that ever was there; 0: there was none
    nbytes: int
    servers: tuple[LogServer, ...] = ()
    limit: int = 0


class Log(Protocol):
    """The log.  Its calls block, each for some seconds at most.

    All raise LogUnavailable: there was no answer.
    """

    def approach(self) -> None:
        """Take the shortest way for appends: this node is about to make many."""

    def append(self, data: bytes, expected: int) -> int:
        """Append a message behind the one with the sequence `expected`; returns its own sequence.

        It is on the disks of a majority then.  Raises SequenceRefused: another message is the last; LogFull.
        """

    def read(self, first: int) -> Sequence[Message]:
        """The next messages from a sequence on, or from the first that is not purged; empty: none for now.

        A server that lags may answer, so that the last ones can be missing.
        """

    def bounds(self) -> Bounds:
        """First and last message, as the leader of the log knows them."""

    def purge(self, first: int) -> None:
        """Remove the messages in front of a sequence."""


class LogWriter:
    """Appends the records of one primary.  `last`: sequence of the last message that it has applied or appended."""

    def __init__(self, log: Log, last: int, longest: int = LONGEST_PART) -> None:
        self.last = last
        self._log = log
        self._longest = longest
        self._record: Record | None = None  # that is under way
        self._parts: list[bytes] = []  # of it, those that are still to be appended

    def append(self, record: Record) -> int:
        """Append a record; returns the sequence of its last part.

        Raises LogUnavailable: try again, with the same record; Fenced: another node writes; RecordError: it is too
        long.
        """
        if record is not self._record:
            self._parts = parts_of(record, self._longest)
            self._record = record
        while self._parts:
            self._append(self._parts[0])
            del self._parts[0]
        self._record = None
        return self.last

    def _append(self, part: bytes) -> None:
        try:
            self.last = self._log.append(part, self.last)
        except SequenceRefused:
            found = self._log.read(self.last + 1)
            # Only another primary's standby cuts the log there.
            if not found and self._log.bounds().first <= self.last + 1:
                raise LogUnavailable("the log of the cluster refuses a commit, and does not show why yet") from None
            if list(found[:1]) != [(self.last + 1, part)]:
                raise Fenced(
                    "another node of the cluster writes to the log: this one is not primary any more"
                ) from None
            self.last += 1  # an earlier attempt without an answer got through
