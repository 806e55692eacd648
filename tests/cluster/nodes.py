"""Two nodes of a cluster as the store of a scene: each process of it is the next primary, on what its standby applied.

`LogStore` stands where `MemoryStore` stands.  It writes to a `ReplicatedStore`, and to the memory beside it, which says
what a standby must have.  `crash` is a take-over by the other node: the last primary is abandoned as it is, must not
write any more, and becomes the standby, mostly with its file, sometimes with an empty one or a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Batch, Container, Stored
from gateway.cluster.follower import Follower, LogGap
from gateway.cluster.log import Fenced
from gateway.cluster.records import Assembler, Kind, pack_batch, parse
from gateway.cluster.replica import Replica, remove
from gateway.cluster.store import ReplicatedStore
from gateway.stores import Recovered
from tests.broker.store import MemoryStore

from .logs import MemoryLog

LONGEST = 1_000
"""Bytes of payload in a part: many commits have several."""

NO_ANSWER = "the log does not answer, and has the commit"
NO_LOG = "the log does not answer"
NO_FILE = "the file cannot be written, and the log has the commit"


_UNUSED = "SELECT content FROM contents WHERE content NOT IN (SELECT content FROM rows)"


class Nodes:
    """A log and two nodes.  `primary` and `standby` change places with each take-over."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.fenced = 0  # primaries that were told
        self.terms = 0
        self._folder = TemporaryDirectory()
        self._snapshot: Path | None = None
        self.primary, self.standby = (self._follower(self._opened(name)) for name in "ab")
        self.patch = pytest.MonkeyPatch()

    def _opened(self, name: str) -> Replica:
        return self._timeless(Replica.open(Path(self._folder.name, name)))

    def _timeless(self, replica: Replica) -> Replica:
        replica.store._clock = lambda: 0.0  # the ids of a scene end by its clock
        return replica

    def _follower(self, replica: Replica) -> Follower:
        return Follower(self.log, replica, lambda: float(self.terms), longest=LONGEST)

    def close(self) -> None:
        """Leave no file."""
        self.patch.undo()
        for each in (self.primary, self.standby):
            each.replica.store.close(clean=False)
        self._folder.cleanup()

    def follow(self) -> None:
        """The standby applies what the log has."""
        try:
            self.standby.look()
        except LogGap:
            assert self._snapshot is not None
            self.standby = self._follower(self._timeless(self.standby.replica.replace(self._snapshot)))
            self._snapshot = None
            self.standby.look()
        while self.standby.lag:
            assert self.standby.step()

    def take_over(self) -> ReplicatedStore:
        """The standby becomes primary, and the last primary the standby."""
        if self._snapshot:
            self.follow()
        store = self.standby.take_over("node", "address", "1", self._count)
        self.primary, self.standby = self.standby, self._follower(self.primary.replica)
        self.terms += 1
        if self.terms % 5 == 3:
            self._lose_disk()
        elif self.terms % 5 == 0:
            self._trim()
        return store

    def _count(self) -> None:
        self.fenced += 1

    def _lose_disk(self) -> None:
        """The standby begins again with an empty file."""
        if self.log.purged:
            return
        replica = self.standby.replica
        path = replica.store.path
        replica.store.close(clean=False)
        remove(path)
        self.standby = self._follower(self._opened(path.name))

    def _trim(self) -> None:
        """The log is cut where a snapshot ends, and the standby, which is behind, must begin with that."""
        self._snapshot = Path(self._folder.name, "snapshot")
        sequence, _ = self.primary.replica.snapshot(self._snapshot)
        self.log.purge(sequence)

    def last_commit(self, epoch: int) -> int:
        """The number of the last batch of a primary that is whole in the log; 0: none."""
        assembler, last = Assembler(), 0
        for data in self.log.messages:
            record = assembler.add(parse(data))
            if record is not None and record.kind is Kind.BATCH and record.epoch == epoch:
                last = record.number
        return last


class LogStore(MemoryStore):
    """The store of a primary, and what it comes to."""

    def __init__(self, nodes: Nodes | None = None) -> None:
        super().__init__()
        self.nodes = nodes or Nodes()
        self.replicated = self.nodes.take_over()
        self.epoch = self.nodes.primary.replica.epoch
        self.is_behind = False  # the log may have a commit that `batches` has not
        self.recovered = self.replicated.load()
        self._fill(self.recovered)

    def _fill(self, found: Recovered) -> None:
        self.places = {place.number: place for place in found.places}
        self.rows = {row.row: row for row in found.rows}
        stored = self.replicated.read(list(self.rows))
        assert [each.row for each in stored] == list(self.rows.values()), "rows that cannot be read"
        self.contents = {each.row.content: each.content for each in stored}
        self.seen, self.highest, self.clean = dict(found.seen), found.highest, found.clean

    def write(self, batch: Batch) -> None:
        self.is_behind = self.failure in (NO_ANSWER, NO_FILE)
        with self._failing(batch):
            self.replicated.write(batch)
        super().write(batch)
        self.is_behind = False

    @contextmanager
    def _failing(self, batch: Batch) -> Iterator[None]:
        """Log or file fail, as `failure` says."""
        log, file = self.nodes.log, self.nodes.primary.replica.store
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log, "is_down", self.failure == NO_LOG)
            if self.failure == NO_ANSWER:
                if self.nodes.last_commit(self.epoch) == batch.number:
                    patch.setattr(log, "is_down", True)
                log.lost_answers = 1
            if self.failure == NO_FILE:
                patch.setattr(file, "write", self._refuse)
            try:
                yield
            finally:
                log.lost_answers = 0

    def _refuse(self, *_: object) -> None:
        raise StoreError(self.failure)

    def read(self, rows: Sequence[int]) -> list[Stored]:
        expected = super().read(rows)
        found = self.replicated.read(rows)
        assert found == expected
        return found

    def die_in(self, batch: Batch, appends: int, *, answers: bool) -> bool:
        """The primary is lost within a commit, after so many appends at most; True: the log has all of the batch.

        `answers`: the last one is known here.
        """
        log = self.nodes.log
        log.appends_left, log.lost_answers = appends, int(not answers)
        try:
            self.replicated.write(batch)
        except StoreError:
            pass
        finally:
            log.appends_left, log.lost_answers = None, 0
        is_whole = self.nodes.last_commit(self.epoch) == batch.number
        if is_whole or not pack_batch(batch):
            super().write(batch)
        return is_whole

    def compare(self) -> None:
        """What the standby has applied is what the primary was told to keep."""
        self.nodes.follow()
        if self.is_behind:
            return  # the log has a commit whose answer was lost
        replica = self.nodes.standby.replica
        self._compare(replica.load(), replica.store.read)
        assert not replica.store.query(_UNUSED), "contents of no row"

    def _compare(self, found: Recovered, read: Callable[[Sequence[int]], list[Stored]]) -> None:
        must = super().crash()
        rows = list(found.rows)
        assert {each.number: each for each in found.places} == must.places
        assert rows == [must.rows[number] for number in sorted(must.rows)]
        assert found.seen == must.seen
        assert found.highest >= max([*must.rows, *must.contents, 0])
        stored = read([row.row for row in rows])
        assert [each.content for each in stored] == [must.contents[row.content] for row in rows]

    def crash(self, *, clean: bool = False) -> LogStore:
        """The other node takes over."""
        if clean:
            self.replicated.close(clean=True)
        found = LogStore(self.nodes)
        found._like(self, clean=clean)
        end = len(self.nodes.log.messages)
        with pytest.raises(Fenced):
            self.replicated.write(Batch(1 << 40, {1 << 20: Container(1 << 20, "queue", "/queue/fenced")}))
        assert len(self.nodes.log.messages) == end, "a fenced primary writes"
        assert self.nodes.fenced == self.nodes.terms - 1
        return found

    def _like(self, last: LogStore, *, clean: bool) -> None:
        """This one was made of what the last one was told to keep."""
        last._compare(self.recovered._replace(rows=iter(self.rows.values())), self.replicated.read)
        assert self.clean == clean
