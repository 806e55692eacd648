"""The start of a process: what the store holds becomes queues again.

Queues come back with their rows alone: bodies and headers are read when somebody wants them, so that a million messages
are there within a second or two.  Only where messages may have to go, or replace each other, are they read at once:
such queues are bounded by their limits.

After a kill nobody can know which messages were delivered; those that may have been are marked (see `shelf`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .batch import Place, Row, Stored
from .queue import Queue

if TYPE_CHECKING:
    from .broker import Broker

# Rows that are read at once.
_PAGE = 1_000

Read = Callable[[Sequence[int]], list[Stored]]


def recover(broker: Broker, places: Iterable[Place], rows: Iterable[Row], read: Read, *, clean: bool) -> None:
    """Fill a broker that is empty so far.

    Args:
        rows: of all places, in order.
        read: reads rows with their contents, at once.
        clean: the last process told all it knew before it ended.
    """
    queues: dict[int, Queue] = {place.number: broker.router.restore(place, clean=clean) for place in places}
    adders = {number: queue.shelf.adder() for number, queue in queues.items() if queue.shelf is not None}
    for row in rows:
        adders[row.place](row)
    for queue in dict.fromkeys(queues.values()):
        if queue.shelf is not None and not queue.shelf.has_pages():
            _read_all(queue, read)
        broker.forget_if_idle(queue)


def _read_all(queue: Queue, read: Read) -> None:
    """Take all into memory."""
    assert queue.shelf is not None  # its rows were found
    rows = queue.shelf.take_all()
    for start in range(0, len(rows), _PAGE):
        queue.shelf.place(read(rows[start : start + _PAGE]))
