"""Follower: reads the log and applies it to the node's own file, and makes a primary of the node.

Everything here blocks, and is called from one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.broker.core.ports import StoreError

from .log import Bounds, Fenced, Log, LogUnavailable, LogWriter, Message
from .records import FORM, LONGEST_PART, Assembler, Kind, NewerForm, Record, RecordError, pack_map, parse
from .replica import Replica
from .store import ReplicatedStore

TRIES = 20
"""Attempts of a node that won the lease to be the last writer of the log, while the old primary still writes; and to
read what the log has."""

BEHIND = 80
"""Looks that find the log shorter than what is applied here, until it counts as another one: some 20 s.  A leader that
is cut off, and does not know yet that there is another, shows the log of before."""

PAUSE = 0.05
"""Seconds between two of them, while a server lags."""


class LogGap(StoreError):
    """The log was purged up to the last message that is applied here, or beyond: a snapshot is needed."""


class Follower:
    """A replica, and its place in the log.

    `bounds`: of the log, when it was last asked.  `end`: sequence of its last message, as far as it is known; `read`:
    of the last one that was read here.  `form`: of the last record that was seen; 0: none was.  `is_shown`:
    the log has shown that message, so that it is the log of this copy.

    Args:
        longest: bytes of a part of the records that this node writes as primary.
        newest: form of records that it reads.
    """

    def __init__(
        self,
        log: Log,
        replica: Replica,
        clock: Callable[[], float] = time.time,
        longest: int = LONGEST_PART,
        newest: int = FORM,
    ) -> None:
        self.replica = replica
        self.read = replica.sequence
        self.end = replica.sequence
        self.bounds = Bounds(1, 0, 0)
        self.form = 0
        self.is_shown = False
        self._log = log
        self._clock = clock
        self._longest = longest
        self._newest = newest
        self._mark = replica.mark  # of the message `read`; empty: not known
        self._assembler = Assembler()
        self._behind = 0  # looks in a row

    @property
    def lag(self) -> int:
        """Messages of the log that are not applied here yet."""
        return max(0, self.end - self.read)

    def check_form(self) -> None:
        """Look at the last record of the log.

        Raises LogUnavailable; StoreError: this gateway cannot read it, because a newer one wrote it.
        """
        bounds = self._log.bounds()
        if bounds.last < bounds.first:
            return
        try:
            for message in self._log.read(bounds.last):
                self.form = parse(message.data, self._newest).form
        except NewerForm as error:
            raise StoreError(f"the log of the cluster cannot be read: {error}") from None
        except RecordError:
            return  # `step` tells

    def look(self) -> None:
        """Ask how long the log is.

        Raises LogUnavailable; LogGap: messages are missing; StoreError: for long, there are fewer than this node has
        applied.
        """
        bounds = self.bounds = self._log.bounds()
        self.end = bounds.last
        if bounds.first > max(1, self.read):
            raise self._gap(f"the log begins with {bounds.first}")
        self._behind = self._behind + 1 if bounds.last < self.read else 0
        if self._behind:
            sentence = f"the log ends with {bounds.last}, and this node has applied {self.replica.sequence}"
            if self._behind <= BEHIND:
                raise LogUnavailable(f"{sentence}: the server that leads it may be behind")
            raise self._other(sentence)

    def step(self) -> int:
        """Apply the next messages of the log; returns how many there were.

        The last one that was read comes first again: if it is another message now, so is all in front of it.

        Raises LogUnavailable: the log does not answer; LogGap: messages are missing; StoreError: they cannot be
        applied, or are of another log.
        """
        found = self._log.read(max(1, self.read))
        try:
            if self.read and found:
                self._compare(found[0])
                found = found[1:]
            for message in found:
                self._take(message)
        except StoreError:
            self._begin_again()
            raise
        self.end = max(self.end, self.read)
        return len(found)

    def _compare(self, message: Message) -> None:
        """Raises LogGap, StoreError: it is not the message that was read last."""
        if message.sequence != self.read:
            raise self._gap(f"the log goes on with {message.sequence}")
        with _told(message):
            mark = parse(message.data, self._newest).mark
        if mark != (self._mark or mark):
            raise self._other(f"message {message.sequence} of the log is not the one that this node has applied")
        self.is_shown = True

    def _gap(self, found: str) -> LogGap:
        return LogGap(f"{found}, and this node has applied {self.replica.sequence}")

    def _other(self, found: str) -> StoreError:
        return StoreError(f"{found}: the servers have lost messages, or {self.replica.another_log}")

    def _take(self, message: Message) -> None:
        if message.sequence != self.read + 1:
            raise self._gap(f"the log goes on with {message.sequence}")
        with _told(message):
            part = parse(message.data, self._newest)
            self.form = part.form
            record = self._assembler.add(part)
            if record is not None:
                self.replica.apply(record, message.sequence)
        self.read, self._mark, self.is_shown = message.sequence, part.mark, True

    def _begin_again(self) -> None:
        """Read on behind what is applied: of a record in several parts, the first ones must come again."""
        self.read, self._mark, self.is_shown = self.replica.sequence, self.replica.mark, False
        self._assembler = Assembler()

    def take_over(
        self, node: str, address: str, version: str, on_fenced: Callable[[], None], form: int = FORM
    ) -> ReplicatedStore:
        """Apply the log to its end, and append the record of a new epoch, which fences the old primary.

        `form`: of the records that it writes, unless the log has newer ones.

        Raises LogUnavailable: the log does not answer, or the old primary still writes; StoreError: it cannot be
        applied.
        """
        self._log.approach()
        for _ in range(TRIES):
            self._catch_up()
            # The first primary gives the cluster the token of its file.
            values = {"node": node, "address": address, "token": self.replica.token, "version": version}
            form = max(form, self.form)
            record = Record(Kind.EPOCH, self.replica.epoch + 1, 0, int(self._clock() * 1e6), pack_map(values), form)
            writer = LogWriter(self._log, self.read, self._longest)
            try:
                self.read, self._mark = writer.append(record), record.mark
            except Fenced:
                continue  # the old primary was faster, once more
            try:
                self.replica.apply(record, self.read)
            except StoreError:
                self._begin_again()
                raise
            return ReplicatedStore(self.replica, writer, record.epoch, on_fenced, self._clock, form)
        raise LogUnavailable("the old primary of the cluster still writes to the log")

    def _catch_up(self) -> None:
        """Apply the log to its end, which follows what is applied here."""
        self.look()
        self.is_shown = not self.read
        for _ in range(TRIES):
            while self.step() and self.lag:
                pass
            if self.is_shown and not self.lag:
                return
            time.sleep(PAUSE)  # a server that lags has answered
        raise LogUnavailable(f"the log does not show its messages from {max(1, self.read)} to {self.end}")


@contextmanager
def _told(message: Message) -> Iterator[None]:
    """Turn a RecordError of the block into the sentence about a message."""
    try:
        yield
    except RecordError as error:
        raise StoreError(f"message {message.sequence} of the log cannot be applied: {error}") from None
