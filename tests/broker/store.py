"""A store in memory, and the committer in the hands of a test.

`MemoryStore` stands where SQLite stands: it keeps the batches that it was given, and what they come to, as
`broker/model/changes.py` describes it.  It is stricter than a store has to be: a row that goes twice, or whose content
is missing, is a fault of the broker.  What it holds after a kill is `crash()`.

`Vault` is the store of a scene with the committer before it.  A test says when a batch is taken and when it is written,
and so it can stop the process at any moment between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.broker.core.metadata import Metadata
from gateway.broker.core.ports import StoreError
from gateway.broker.core.storage import Storage
from gateway.broker.model.changes import Batch, Container, Payload, Stored, StoredRow
from gateway.broker.recovery import recover
from gateway.broker.routing import scheduled
from gateway.broker.topic import retained, stream

if TYPE_CHECKING:
    from .client import Scene


class MemoryStore:
    """A store that lasts as long as a test."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []  # all that were written, and what they come to:
        self.places: dict[int, Container] = {}
        self.rows: dict[int, StoredRow] = {}
        self.contents: dict[int, Payload] = {}
        self.seen: dict[bytes, float] = {}
        self.highest = 0  # no row or content had a higher number
        self.clean = True  # the last process has stopped in order
        self.failure = ""  # why it can do nothing; empty: it can

    def write(self, batch: Batch) -> None:
        """See `Store`."""
        if self.failure:
            raise StoreError(self.failure)
        assert not self.batches or batch.number > self.batches[-1].number
        self.batches.append(batch)
        for row in batch.gone:
            if row in batch.rows:
                del self.rows[row]  # it stands elsewhere now
        self._add(batch)
        self._remove(batch)
        self.highest = max(self.highest, *batch.rows, *batch.contents, 0)
        assert {row.place for row in self.rows.values()} <= self.places.keys(), "rows of no place"
        assert {row.content for row in self.rows.values()} == self.contents.keys(), "rows and contents do not match"

    def _add(self, batch: Batch) -> None:
        for place in batch.places.values():
            old = self.places.get(place.number, place)
            assert old.name == place.name, "a place becomes another"
            assert place.kind in (old.kind, "ended"), "a place becomes another"
        self.places |= batch.places
        self.contents |= batch.contents
        assert not self.rows.keys() & batch.rows.keys(), "rows that are there already"
        self.rows |= batch.rows
        for row, facts in batch.facts.items():
            self.rows[row] = self.rows[row]._replace(facts=facts)
        self.seen |= batch.seen

    def _remove(self, batch: Batch) -> None:
        assert len(set(batch.gone)) == len(batch.gone), "rows that go twice"
        for row in batch.gone:
            if row not in batch.rows:
                del self.rows[row]
        places = {*batch.emptied, *batch.dropped}
        self.rows = {number: row for number, row in self.rows.items() if row.place not in places}
        for number in batch.dropped:
            self.places.pop(number, None)
        used = {row.content for row in self.rows.values()}
        self.contents = {number: content for number, content in self.contents.items() if number in used}

    def read(self, rows: Sequence[int]) -> list[Stored]:
        """See `Store`."""
        if self.failure:
            raise StoreError(self.failure)
        found = [self.rows[row] for row in rows if row in self.rows]
        return [Stored(row, self.contents[row.content]) for row in found]

    def crash(self, *, clean: bool = False) -> MemoryStore:
        """What the next process finds."""
        found = MemoryStore()
        found.places = dict(self.places)
        found.rows = {number: row for number, row in self.rows.items() if not row.transient}
        used = {row.content for row in found.rows.values()}
        found.contents = {number: content for number, content in self.contents.items() if number in used}
        found.seen = dict(self.seen)
        found.highest, found.clean = self.highest, clean
        return found


class Vault:
    """The store of a scene, what the broker has for it, and the committer between them."""

    def __init__(self, scene: Scene, store: MemoryStore) -> None:
        broker = scene.broker
        self.store = store
        self.asked = 0  # how often the committer was called
        self.reliefs = 0  # how often the storage said that it is not behind any more
        self._scene = scene
        # the broker's side
        self.storage = broker.storage = Storage(
            Metadata(broker.scheduler.clock, broker.scheduler.epoch),
            busy=self._on_busy,
            on_relief=self._on_relief,
            on_state=broker.look_at_store,
            work_limits=broker.context.work_limits,
        )
        self.storage.places_from(max(store.places, default=0) + 1)
        broker.router.number_from(max(store.highest, int(broker.scheduler.epoch() * 1e6)))
        broker.router.restore_seen(store.seen)
        rows = [store.rows[number] for number in sorted(store.rows)]
        recover(broker, list(store.places.values()), rows, store.read, clean=store.clean)

    def _on_busy(self) -> None:
        self.asked += 1

    def _on_relief(self) -> None:
        self.reliefs += 1

    def take(self) -> Batch | None:
        """The committer takes what has gathered, and begins to write it."""
        return self.storage.take()

    def write(self, batch: Batch | None) -> bool:
        """It has been written, or has failed; then what is asked for is read.  False: there was nothing, or no way."""
        storage = self.storage
        try:
            if batch is not None:
                self.store.write(batch)
                storage.written()
            reads = storage.take_reads() if not self.store.failure else []
            for rows, action in reads:
                action(self.store.read(rows))
        except StoreError as error:
            storage.failed(str(error))
            return False
        finally:
            self._scene.settle()
        return batch is not None or bool(reads)

    def commit(self) -> list[Batch]:
        """All of it, until there is nothing left to write or to read; what was written."""
        before = len(self.store.batches)
        while self.write(self.take()):
            pass
        return self.store.batches[before:]

    # the books

    def finish(self) -> None:
        """The broker has nothing left; then the store has neither, at the latest when it is opened again."""
        self.commit()
        storage, store = self.storage, self.store
        assert not storage.unwritten
        assert storage.nbytes == 0
        assert not store.rows
        assert not store.contents
        if store.places:
            again = self._scene.crash()
            again.commit()
            assert {place.kind for place in again.store.places.values()} <= {scheduled.KIND, stream.KIND, retained.KIND}

    def coming(self, unused: Sequence[str] = ()) -> dict[int, bool]:
        """The rows that the store will hold once all is written; True: transient.

        `unused`: names of logs that stay in the store, and that the broker does not know.
        """
        storage = self.storage
        coming = {number: (row.place, row.transient) for number, row in self.store.rows.items()}
        for batch in filter(None, [storage._under_way, storage._batch]):
            coming |= {number: (row.place, row.transient) for number, row in batch.rows.items()}
            coming = {
                number: row
                for number, row in coming.items()
                if number not in batch.gone and row[0] not in (*batch.emptied, *batch.dropped)
            }
        coming |= {number: (entry[0], entry[2]) for number, entry in storage._new.items()}
        left = {place.number for place in self.store.places.values() if place.kind == "log" and place.name in unused}
        return {number: transient for number, (place, transient) in coming.items() if place not in left}
