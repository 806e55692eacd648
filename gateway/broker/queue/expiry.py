"""Expiry of waiting messages: one timer per queue, set to the message that expires first."""

import math
from collections.abc import Callable, Iterator

from ..core.lazy_heap import LazyHeap
from ..core.scheduler import Scheduler, Timer
from ..model.message import Message

# Messages that expire in one turn: about 2 ms.
_EXPIRIES_PER_TURN = 500


class Expiry:
    """The messages of a queue that will expire; `expire` is called with each, and `on_empty` behind the last."""

    __slots__ = ("_due", "_expire", "_heap", "_on_empty", "_scheduler", "_timer")

    def __init__(self, scheduler: Scheduler, expire: Callable[[Message], None], on_empty: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._expire = expire
        self._on_empty = on_empty
        self._heap = LazyHeap()
        self._timer: Timer | None = None
        self._due = math.inf

    def watch(self, message: Message) -> None:
        """A message waits that will expire."""
        self._heap.add(message.expires, message)
        self._wake_at(message.expires)

    def tidy(self, waiting: int) -> None:
        """Forget messages that wait no longer, once they are many."""
        self._heap.tidy(waiting)

    def shed(self) -> None:
        """Forget messages at the front that wait no longer."""
        self._heap.first()

    def stop(self) -> None:
        """The queue goes: nothing may refer to it until some far time.  A message that comes back is watched again."""
        self._scheduler.cancel(self._timer)
        self._due = math.inf

    def _wake_at(self, due: float) -> None:
        # A message that expires later needs no timer now: the sweep sets the next one.
        if due < self._due:
            self._scheduler.cancel(self._timer)
            self._due = due
            self._timer = self._scheduler.at(due, lambda: self._scheduler.run(self._sweep()))

    def _sweep(self) -> Iterator[None]:
        # The timer has fired: a message that comes between two slices sets one of its own.
        self._due = math.inf
        count = 0
        while (first := self._heap.first()) is not None and first[0] <= self._scheduler.clock():
            self._expire(first[1])
            count += 1
            if count % _EXPIRIES_PER_TURN == 0:
                yield
        # Once, behind the last: the queue may have nothing left that keeps it.
        if first is None:
            self._on_empty()
        else:
            self._wake_at(first[0])
