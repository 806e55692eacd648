"""Waiting messages: those of a queue that are in memory and that no consumer has.

A message stands in the ready list of all, and in that of each selector that consumers of the queue have (see `ready`).
A message of a group stands in its group instead, and only the group's first one stands in the lists.
"""

from collections.abc import Callable, Container

from ..core.context import Context
from ..core.lazy_heap import LazyHeap
from ..model.message import Message
from .expiry import Expiry
from .overflow import QueueLimits
from .ready import ReadyList

# What a place in the list of a selector costs; below so many bytes of that the account leaves it out.
_PLACE, _LITTLE = 8, 64 * 1024
SLACK = 16
"""Places of a list that messages may take that have gone, beside twice as many as wait."""


class WaitingMessages:
    """The messages of one queue that wait in memory.

    Attributes:
        ready_lists: the first holds all of them, the others those that one selector may want.
        ready_bytes: bytes that the others cost, as last counted.
    """

    __slots__ = (
        *("_context", "_expire", "_expiry", "_on_empty"),
        *("by_age", "count", "latest", "limits", "nbytes", "ready_bytes", "ready_lists"),
    )

    def __init__(
        self, context: Context, limits: QueueLimits, expire: Callable[[Message], None], on_empty: Callable[[], None]
    ) -> None:
        self._context = context
        self.limits = limits
        self._expire = expire
        self._on_empty = on_empty
        self.count = 0
        self.nbytes = 0
        self.ready_lists = [ReadyList(most_reads=context.work_limits.selector_reads)]
        self.ready_bytes = 0
        self._expiry: Expiry | None = None
        self.by_age: LazyHeap | None = None  # oldest first, where the oldest may have to go
        self.latest: dict[str, Message] | None = None  # the newest message of each conflation key

    def add(self, message: Message, refusing: Container[ReadyList] = ()) -> None:
        """Add a message, and put it into the ready lists, but for those whose selector does not want it."""
        self.enter(message, refusing)
        self.count_in(message)

    def enter(self, message: Message, refusing: Container[ReadyList] = ()) -> None:
        """Put a message into the ready lists."""
        for ready_list in self.ready_lists:
            if ready_list not in refusing:
                ready_list.add(message)
        # Now and then is enough: a message costs a few bytes there.
        if len(self.ready_lists) > 1 and not self.count % 1024:
            self.weigh()

    def count_in(self, message: Message) -> None:
        """Add a message that stands in its group, or in the ready lists already."""
        message.waits = True  # by which the lists know that its entries count
        self.nbytes += message.size
        self.count += 1
        self._context.waiting += 1
        # Made with the first message that needs it, as the two below: most queues never need them.
        if message.expires:
            if self._expiry is None:
                self._expiry = Expiry(self._context.scheduler, self._expire, self._on_empty)
            self._expiry.watch(message)
        # The ready list does not tell: priorities, and messages that come back, make another order than that of age.
        if self.limits.drops_oldest:
            if self.by_age is None:
                self.by_age = LazyHeap()
            self.by_age.add(message.number, message)
        if self.limits.conflates(message) and (key := self.limits.key_of(message)) is not None:
            if self.latest is None:
                self.latest = {}
            self.latest[key] = message

    def remove(self, message: Message) -> None:
        """A message waits no longer."""
        # The lists find that out when it comes to their fronts: to look for it would cost with their length.
        message.waits = False
        self.nbytes -= message.size
        self.count -= 1
        self._context.waiting -= 1
        if self.latest:
            key = self.limits.key_of(message)
            # A newer one of its key may stand there.
            if key is not None and self.latest.get(key) is message:
                del self.latest[key]
        # Their entries outlive the message until they come to the front, so they are bounded by what waits.
        if self._expiry is not None:
            self._expiry.tidy(self.count)
        if self.by_age is not None:
            self.by_age.tidy(self.count)

    def newest_of_key(self, message: Message) -> Message | None:
        """The waiting message with the same conflation key; None: there is none."""
        key = self.limits.key_of(message)
        return self.latest.get(key) if key is not None and self.latest is not None else None

    def oldest(self) -> Message:
        """The oldest message, where the oldest may have to go; there is one."""
        assert self.by_age is not None  # every message that waits is there, too
        first = self.by_age.first()
        assert first is not None
        return first[1]

    def most_places(self) -> int:
        """Places that a list of them may have."""
        return 2 * self.count + SLACK

    def tidy(self) -> None:
        """Let no list keep many messages that have gone."""
        most = self.most_places()
        for ready_list in self.ready_lists:
            if len(ready_list) > most:
                ready_list.compact()
        if self.ready_bytes > _PLACE * most * len(self.ready_lists):
            self.weigh()

    def shed(self) -> None:
        """Forget messages at the front that have gone: else a later turn would have to look at very many."""
        for ready_list in self.ready_lists:
            ready_list.shed()
        if self._expiry is not None:
            self._expiry.shed()
        if self.by_age is not None:
            self.by_age.first()

    def weigh(self) -> None:
        """Count what the lists of selectors cost: many of them on a deep queue are as good as more messages."""
        nbytes = _PLACE * sum([len(each) for each in self.ready_lists[1:]])
        nbytes = nbytes if nbytes > _LITTLE else 0
        if nbytes > self.ready_bytes:
            self._context.memory.keep(nbytes - self.ready_bytes)
        else:
            self._context.memory.release(self.ready_bytes - nbytes)
        self.ready_bytes = nbytes

    def end(self) -> None:
        """The queue goes: no timer may refer to it."""
        if self._expiry is not None:
            self._expiry.stop()
