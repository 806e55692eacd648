"""Unseen messages: a queue or topic has them, and shows them to no client before the store has what brought them.

    COMMIT sends a message       from its number on the place shows nothing, and registers an action
    other messages come there    they stand behind it, and wait with it
    the batch is written         the action: the place shows what came before the next batch

So there is one action for each place and batch, however many messages there are.  Numbers only grow, and a client has
seen the message that it gives back: one that comes back was there before all that are unseen.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from .context import Context

T = TypeVar("T")


class Unseen(Generic[T]):
    """The messages of one place that are unseen.

    Attributes:
        first: the number of the first; 0: there is none.
        held: what is unseen, and what came behind it, by number and in the order of arrival.

    Args:
        show: called when some may be seen.
    """

    __slots__ = ("_context", "_first", "_show", "first", "held")

    def __init__(self, context: Context, show: Callable[[], None]) -> None:
        self.first = 0
        self.held: deque[tuple[int, T]] = deque()
        self._context = context
        self._first: dict[int, int] = {}  # by batch; at most two are not written
        self._show = show

    def begin(self, number: int) -> None:
        """From that message on nothing is seen before the batch at hand is in the store."""
        storage = self._context.storage
        assert storage is not None  # without a store nothing is unseen
        batch = storage.number
        if batch not in self._first:
            self._first[batch] = number
            self.first = self.first or number
            self._context.when_seen(partial(self._end, batch))

    def hides(self, number: int) -> bool:
        """True if the message of that number is unseen."""
        return 0 < self.first <= number

    def seen(self) -> Iterator[T]:
        """Take from `held` what may be seen now."""
        held = self.held
        while held and not self.hides(held[0][0]):
            yield held.popleft()[1]

    def _end(self, batch: int) -> None:
        del self._first[batch]
        self.first = min(self._first.values(), default=0)
        self._show()
