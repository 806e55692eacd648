"""Browsing: a subscription that reads the messages of a queue and consumes none.

A browser has a list of the messages that waited when it came, and goes through it as fast as its client reads.  Paged
messages are read for it, a page at a time.  At the end it sends a MESSAGE with the header `browser:end`, or, if the
client asks for it (`browser-end:false`), goes on with new messages.
"""

from collections import deque
from collections.abc import Callable, Iterable

from gateway.codec import Head

from ..core.context import Context
from ..errors import BROWSER, SlowConsumer
from ..model.changes import Stored
from ..model.message import Message
from .subscription import Subscription

_PAGE = 200  # rows of one read


class Browsers(dict[Subscription, "Browser"]):
    """The browsers of one queue, by their subscriptions."""

    def show(self, message: Message) -> None:
        """A message has come into the queue."""
        for browser in list(self.values()):  # a browser at its end leaves
            browser.follow(message)

    def go_on(self) -> None:
        """Messages may be seen that were unseen."""
        for browser in list(self.values()):
            browser.go_on()

    def tidy(self, most: int) -> None:
        """Let go of what waits no longer, where a list is longer than that."""
        for browser in self.values():
            browser.tidy(most)

    def leave(self, subscription: Subscription) -> None:
        """A subscription ends."""
        browser = self.pop(subscription, None)
        if browser is not None:
            # Else its outbox would offer room to it after it has gone.
            subscription.outbox.starved.pop(browser, None)


class Browser:
    """A browser of a queue.

    Args:
        waited, rows: the messages that wait now, in memory and in the store alone.
        hides: tells whether no client may see a message yet; `go_on` follows.
        on_end: called when it has seen all, and does not go on.
    """

    def __init__(
        self,
        context: Context,
        subscription: Subscription,
        waited: Iterable[Message],
        rows: Iterable[int],
        hides: Callable[[Message], bool],
        on_end: Callable[[Subscription], None],
    ) -> None:
        self._context = context
        self._subscription = subscription
        self._waited = deque(waited)
        self._rows = deque(rows)
        self._read: deque[Message] = deque()
        self._is_reading = False
        self._hides = hides
        self._new: deque[Message] = deque()
        self._behind = 0  # bytes of `_new`
        self._ended = False
        self._on_end = on_end

    def offer(self) -> None:
        """Go on: there is room in the outbox."""
        subscription = self._subscription
        # A turn of the scheduler, or a page of the store, may come after the end.
        if subscription.ended or self._ended:
            return
        looks = self._context.work_limits.browser_looks
        while self._waited:
            if not self._has_room():
                return
            message = self._waited.popleft()
            if message.waits:
                self._show(message)
            # Messages that were consumed, or that the selector refuses, take no room in the outbox: it would let a long
            # run of them go through in one turn.
            looks -= 1
            if not looks:
                self._context.scheduler.later(self.offer)
                return
        # Paged messages stand behind all that were in memory.
        while self._read:
            if not self._has_room():
                return
            self._show(self._read.popleft())
        if self._rows:
            self._read_on()
            return
        if subscription.options.browser_end:
            self._end()
            return
        while self._new:
            if self._hides(self._new[0]) or not self._has_room():
                return
            message = self._new.popleft()
            self._behind -= message.size
            self._show(message)

    def _read_on(self) -> None:
        """Have the next paged messages read, for this browser alone."""
        assert not self._is_reading  # the next page is asked for when this one has come
        self._is_reading = True
        storage = self._context.storage
        assert storage is not None  # the rows are there
        storage.read([self._rows.popleft() for _ in range(min(_PAGE, len(self._rows)))], self._arrived)

    def _arrived(self, found: list[Stored]) -> None:
        storage = self._context.storage
        assert storage is not None  # it has read
        self._is_reading = False
        # Copies of its own: the queue reads these rows again when a consumer needs them.
        self._read.extend([storage.facts.message(each) for each in found])
        self.offer()

    def tidy(self, most: int) -> None:
        """Let go of what waits no longer, where the list is longer than that."""
        # A slow browser must not keep messages in memory that were consumed meanwhile.
        if len(self._waited) > most:
            self._waited = deque([message for message in self._waited if message.waits])

    def follow(self, message: Message) -> None:
        """A message has come into the queue."""
        if self._subscription.options.browser_end:
            return
        outbox = self._subscription.outbox
        self._new.append(message)
        self._behind += message.size
        # The memory account does not know that a browser has these when a consumer has settled them.
        if self._behind > outbox.limit and not self._hides(self._new[0]):
            why = f"more than {outbox.limit} bytes (max_outbound) wait for a browser"
            self._context.slow_consumers.end(self._subscription.peer, SlowConsumer(why, BROWSER))
        elif len(self._new) == 1:
            self.go_on()

    def go_on(self) -> None:
        """Show new messages, if all that waited before them was shown."""
        if not (self._waited or self._rows or self._read or self._is_reading):
            self.offer()

    def _has_room(self) -> bool:
        # Not `Subscription.has_room`: a browser acknowledges nothing, so that no prefetch counts.
        outbox = self._subscription.outbox
        if outbox.closed:
            return False
        if outbox.size >= self._subscription.window:
            outbox.starved[self] = None
            return False
        return True

    def _show(self, message: Message) -> None:
        subscription, selector = self._subscription, self._subscription.options.selector
        # The timer of a queue finds only those paged messages in time that are near the front.
        if message.has_expired(self._context.scheduler.clock()):
            return
        if selector is None or selector(message.head.headers):
            self._context.counters.delivered += 1
            extra = subscription.extra_headers
            subscription.show(message, b"" if extra is None else extra.of(message))
            subscription.records.shown(subscription, message)

    def _end(self) -> None:
        self._ended = True
        headers = {"destination": self._subscription.destination, "browser": "end"}
        self._subscription.show(Message(self._context.next_number(), Head.of("MESSAGE", headers), b""))
        self._on_end(self._subscription)
