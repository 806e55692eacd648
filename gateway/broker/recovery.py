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
    storage, router = broker.storage, broker.router
    assert storage is not None  # recovery reads it
    streams, most = broker.registry.streams, broker.context.work_limits.recovery_rows
    # Of streams that are not stored, all up to here was lost with the last process.
    streams.started = router.number
    restorers = {scheduled.KIND: router.delayed.restore, retained.KIND: router.retained.restore}
    queues: dict[int, Queue] = {}
    logged: list[stream.Stream] = []
    pools: list[tuple[Callable[[Stored], None], list[int]]] = []
    takers: dict[int, Callable[[StoredRow], None]] = {}
    for place in places:
        restore = restorers.get(place.kind)
        # Its queue was gone when the last process ended, but for messages that sessions still held.
        if place.kind == ENDED:
            storage.drop(place.number)
            takers[place.number] = _pass_over
        elif place.kind == offsets.KIND:
            router.replay.offsets.restore(place)
        elif place.kind == stream.KIND and not place.name:
            streams.restore(place)
        elif place.kind == stream.KIND:
            # None: the policy keeps no stream any more, or not in the store.  Its rows stay as they are.
            restored = broker.registry.restore_log(place)
            takers[place.number] = _pass_over if restored is None else restored.recover_row
            if restored is not None:
                logged.append(restored)
        elif restore is None:
            queue = broker.registry.restore(place)
            assert queue.storage is not None  # the registry gave it one
            queues[place.number] = queue
            takers[place.number] = queue.storage.adder()
        else:
            found: list[int] = []
            storage.restore_pool(place)
            pools.append((restore, found))
            takers[place.number] = partial(_note, found)
    used = set()
    last = 0
    # One pass over all places in the order of rows: so each queue gets its own in order, without sorting.
    for row in rows:
        takers[row.place](row)
        used.add(row.place)
        last = row.row
    # A place without rows is of no use any more, unless new rows of its queue go there.
    for number, queue in queues.items():
        if number not in used and queue.storage is not None and not queue.storage.has_place(number):
            storage.drop(number)
    for each in logged:
        each.recovered(clean=clean)
        streams.emptied(each)
    for take, found in pools:
        for stored in _pages(found, read, most):
            take(stored)
    for queue in dict.fromkeys(queues.values()):
        # After a kill the store cannot tell which messages were delivered.
        if queue.storage is not None and not clean and queue.storage.rows:
            queue.storage.suspect(last)
        # Where messages may have to go, or replace each other, contents are needed now.  Such queues are bounded by
        # their limits.
        if queue.storage is not None and not queue.storage.has_pages():
            queue.arrive(_pages(queue.storage.take_all(), read, most))
        # All it had may have expired meanwhile.
        broker.forget_if_idle(queue)


def _pass_over(row: StoredRow) -> None:
    """Leave a row alone: it goes with its place, or stays as it is."""


def _note(rows: list[int], row: StoredRow) -> None:
    rows.append(row.row)


def _pages(rows: list[int], read: Read, most: int) -> Iterator[Stored]:
    for start in range(0, len(rows), most):
        yield from read(rows[start : start + most])
