"""Recovery at the start of a process: the rows of the store become queues again.

Queues come back with their rows alone: contents are read when a client wants them, so that a million messages are there
within a second or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .model.changes import Container, Stored, StoredRow
from .queue.durable import ENDED
from .queue.queue import Queue
from .routing import scheduled
from .topic import offsets, retained, stream

if TYPE_CHECKING:
    from .broker import Broker

Read = Callable[[Sequence[int]], list[Stored]]


def recover(broker: Broker, places: Iterable[Container], rows: Iterable[StoredRow], read: Read, *, clean: bool) -> None:
    """Fill a broker that is empty so far.

    `rows`: of all places, in order.  `read`: reads rows with their contents, at once.  `clean`: the last process told
    all it knew before it ended.
    """
    recovery = _Recovery(broker, read)
    for place in places:
        recovery.add_place(place)
    last = recovery.add_rows(rows)
    recovery.finish(last, clean=clean)


class _Recovery:
    """A recovery under way."""

    def __init__(self, broker: Broker, read: Read) -> None:
        assert broker.storage is not None  # recovery reads it
        self._broker, self._storage, self._read = broker, broker.storage, read
        self._most = broker.context.work_limits.recovery_rows
        router = broker.router
        # Of streams that are not stored, all up to here was lost with the last process.
        broker.registry.streams.started = router.number
        self._restorers = {scheduled.KIND: router.delayed.restore, retained.KIND: router.retained.restore}
        self._queues: dict[int, Queue] = {}
        self._logged: list[stream.Stream] = []
        self._pools: list[tuple[Callable[[Stored], None], list[int]]] = []
        self._takers: dict[int, Callable[[StoredRow], None]] = {}
        self._used: set[int] = set()

    def add_place(self, place: Container) -> None:
        """Restore what a place is for; its rows come later."""
        registry, number = self._broker.registry, place.number
        # Its queue was gone when the last process ended, but for messages that sessions still held.
        if place.kind == ENDED:
            self._storage.drop(number)
            self._takers[number] = _pass_over
        elif place.kind == offsets.KIND:
            self._broker.router.replay.offsets.restore(place)
        elif place.kind == stream.KIND and not place.name:
            registry.streams.restore(place)
        elif place.kind == stream.KIND:
            # None: the policy keeps no stream any more, or not in the store.  Its rows stay as they are.
            restored = registry.restore_log(place)
            self._takers[number] = _pass_over if restored is None else restored.recover_row
            if restored is not None:
                self._logged.append(restored)
        elif restore := self._restorers.get(place.kind):
            found: list[int] = []
            self._storage.restore_pool(place)
            self._pools.append((restore, found))
            self._takers[number] = partial(_note, found)
        else:
            queue = registry.restore(place)
            assert queue.storage is not None  # the registry gave it one
            self._queues[number] = queue
            self._takers[number] = queue.storage.adder()

    def add_rows(self, rows: Iterable[StoredRow]) -> int:
        """Give each place its rows; returns the last one.

        One pass over all places in the order of rows: so each queue gets its own in order, without sorting.
        """
        takers, used, last = self._takers, self._used, 0
        for row in rows:
            takers[row.place](row)
            used.add(row.place)
            last = row.row
        return last

    def finish(self, last: int, *, clean: bool) -> None:
        """All rows are there."""
        # A place without rows is of no use any more, unless new rows of its queue go there.
        for number, queue in self._queues.items():
            if number not in self._used and queue.storage is not None and not queue.storage.has_place(number):
                self._storage.drop(number)
        for each in self._logged:
            each.recovered(clean=clean)
            self._broker.registry.streams.emptied(each)
        for take, found in self._pools:
            for stored in self._pages(found):
                take(stored)
        for queue in dict.fromkeys(self._queues.values()):
            # After a kill the store cannot tell which messages were delivered.
            if queue.storage is not None and not clean and queue.storage.rows:
                queue.storage.suspect(last)
            # Where messages may have to go, or replace each other, contents are needed now.  Such queues are bounded by
            # their limits.
            if queue.storage is not None and not queue.storage.has_pages():
                queue.arrive(self._pages(queue.storage.take_all()))
            # All it had may have expired meanwhile.
            self._broker.forget_if_idle(queue)

    def _pages(self, rows: list[int]) -> Iterator[Stored]:
        for start in range(0, len(rows), self._most):
            yield from self._read(rows[start : start + self._most])


def _pass_over(row: StoredRow) -> None:
    """Leave a row alone: it goes with its place, or stays as it is."""


def _note(rows: list[int], row: StoredRow) -> None:
    rows.append(row.row)
