"""Unseen messages: a queue or topic has them, and shows them to no client before the store has what brought them.

    COMMIT sends a message       from its number on the place shows nothing, and registers an action
    other messages come there    they stand behind it, and wait with it
    the batch is written         the action: the place shows what came before the next batch, in slices

So there is one action for each place and batch, however many messages there are.  Numbers only grow, and a client has
seen the message that it gives back: one that comes back was there before all that are unseen.

Nothing overtakes: not even a message that is not durable, and not while the store fails.  For the order of a
destination is a promise, and a consumer of "cancelled" must have seen "ordered".  So the limits of a place count what
is held, and publishers wait at them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from ..model.message import Message
from .context import Context

T = TypeVar("T")


class Unseen(Generic[T]):
    """The messages of one place that are unseen.

    Attributes:
        held: what is unseen, what came behind it, and what is still to be shown: number, bytes and item, in the order
            of arrival.
        nbytes: of all that.

    Args:
        show: takes some of `seen`, and shows it; called again in later turns, as long as there is more.
    """

    __slots__ = ("_context", "_first", "_is_showing", "_show", "_unseen_from", "held", "nbytes")

    def __init__(self, context: Context, show: Callable[[], None]) -> None:
        self.held: deque[tuple[int, int, T]] = deque()
        self.nbytes = 0
        self._context = context
        self._first: dict[int, int] = {}  # the number of the first, by batch; at most two are not written
        self._unseen_from = 0  # the lowest of these; 0: there is none
        self._show = show
        self._is_showing = False  # a later turn shows more

    def begin(self, number: int) -> None:
        """From that message on nothing is seen before the batch at hand is in the store."""
        storage = self._context.storage
        assert storage is not None  # without a store nothing is unseen
        batch = storage.number
        if batch not in self._first:
            self._first[batch] = number
            self._unseen_from = self._unseen_from or number
            self._context.when_seen(partial(self._end, batch))

    @property
    def first(self) -> int:
        """The number of the first message that is not shown; 0: there is none."""
        unseen_from, held = self._unseen_from, self.held
        if not held:
            return unseen_from
        return min(held[0][0], unseen_from or held[0][0])

    def hides(self, number: int) -> bool:
        """True if the message of that number is not shown: it is unseen, or stands behind one that is not shown."""
        return 0 < self.first <= number

    def is_unseen(self, number: int) -> bool:
        """True if the store does not have what brought the message of that number, or an earlier one."""
        return 0 < self._unseen_from <= number

    def hold(self, message: Message, item: T) -> None:
        """Keep a message until it may be seen."""
        size = message.size
        self.held.append((message.number, size, item))
        self.nbytes += size

    def seen(self, most: int) -> Iterator[T]:
        """Take from `held` what may be seen now, at most so many."""
        while most > 0 and self._is_behind():
            most -= 1
            _, size, item = self.held.popleft()
            self.nbytes -= size
            yield item

    def _is_behind(self) -> bool:
        return bool(self.held) and not self.is_unseen(self.held[0][0])

    def _end(self, batch: int) -> None:
        del self._first[batch]
        self._unseen_from = min(self._first.values(), default=0)
        if not self._is_showing:
            self._go_on()

    def _go_on(self) -> None:
        try:
            self._show()
        finally:  # a fault in one of them must not keep the others waiting for ever
            self._is_showing = self._is_behind()
            if self._is_showing:
                self._context.scheduler.later(self._go_on)
