"""Outbox: the frames that wait to be written to one client.

The broker appends, the transport takes.  A frame is two parts, a prefix of the receiver's own and a part it shares with
others; they stay neighbours, because over WebSocket each frame is a message of its own.

    append -> parts -> take() -> the transport's hands -> written(n)
              |<------------------- size ----------------->|

Three marks, in bytes of `size`:

    window   a queue stops dispatching to a consumer; its messages wait in the queue, where others can get them
    high     its filler is held back until half of that is left (`relief`), for a bounded time: a publisher, or the
             client itself that sends without reading its receipts
    limit    a client that did not read in that time is closed

The first frame that is appended after a flush puts the outbox into the list of those to flush, `dirty`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from ..model.message import Message
from .ports import Carrier, Peer


class Fillable(Protocol):
    """A queue, or a topic: publishers are held back while it is full."""

    name: str
    full: bool


class Source(Fillable, Protocol):
    """The queue that a message in the outbox came from."""

    def leave(self, message: Message) -> None:
        """Forget a stored message: it is settled for good."""


class WaitsForRoom(Protocol):
    """A consumer that got nothing because the outbox was full."""

    def offer(self) -> None:
        """There may be room again."""


class Feeder(WaitsForRoom, Protocol):
    """Gives a subscription messages that are not new: retained ones, or those of a stream."""

    def end(self) -> None:
        """Give nothing more."""


class Outbox:
    """The outbox of a session.

    `limit`: bytes that may wait.  `dirty`: the list of those to flush.  `on_high`: called when more than `high` wait.
    """

    __slots__ = (
        *("_next", "_rest", "carrier", "closed", "dirty", "excused", "frames", "gone", "high", "limit"),
        *("on_high", "parts", "peer", "relief", "rows", "size", "starved", "taken", "unsent", "window"),
    )

    def __init__(
        self, peer: Peer, carrier: Carrier, limit: int, dirty: deque[Outbox], on_high: Callable[[Outbox], None]
    ) -> None:
        self.peer = peer
        self.on_high = on_high
        self.carrier: Carrier | None = carrier  # the connection, which flushes; None when it is gone
        # prefix, shared, prefix, shared, ... of the frames that the transport did not take yet.
        self.parts: list[bytes] = []
        self._rest: list[bytes] = []  # what was in `parts` before, but for the first `_next`, which are taken
        self._next = 0
        self.frames = 0  # how many the transport took since the start
        self.size = 0  # bytes in `parts` and in the transport's hands
        self.gone = 0  # bytes written since the start; a part's position in the stream of bytes is counted from there
        self.taken = 0  # the position up to which the transport took parts
        self.window = limit // 8
        self.set_limit(limit)
        self.rows = 0  # how many of them the store holds until they are with the operating system
        # queue, message and the position of its end, for those that need no ACK (mode auto) and that are not with the
        # operating system; should the connection end first, they go back to their queue
        self.unsent: deque[tuple[Source, Message, int]] = deque()
        # consumers of queues that got nothing because the window was full
        self.starved: OrderedDict[WaitsForRoom, None] = OrderedDict()
        self.excused = False  # the client was too slow for too long: it no longer holds back publishers
        self.closed = False  # the connection is gone; what is appended is thrown away
        self.dirty = dirty

    def set_limit(self, nbytes: int) -> None:
        """Of so many bytes on it is closed, if its client does not read in time; the lower marks go with it."""
        self.limit = nbytes
        self.high = nbytes * 3 // 4
        self.relief = self.high // 2

    def append(self, prefix: bytes, shared: bytes = b"") -> None:
        """Add one frame.  The topic's fan-out has this inlined."""
        if self.closed:
            return
        if not self.parts:
            self.dirty.append(self)
        # Two entries and no copy.
        self.parts.append(prefix)
        self.parts.append(shared)
        self.size += len(prefix) + len(shared)
        if self.size > self.high:
            self.on_high(self)

    def take(self, most: int | None = None) -> list[bytes]:
        """Hand parts, all of them or the first `most`, to the transport, which reports by `written` what left it."""
        if most is None:
            parts, self.parts = self.parts, []
            if self._rest:
                parts, self._rest = self._rest[self._next :] + parts, []
            self.taken = self.gone + self.size
            self.frames += len(parts) // 2
            return parts
        if not self._rest:
            # Set aside, so that each part is moved once, however many there are.
            self._rest, self._next, self.parts = self.parts, 0, []
        parts = self._rest[self._next : self._next + most]
        self._next += most
        if self._next >= len(self._rest):
            self._rest = []
        self.taken += sum(map(len, parts))
        self.frames += len(parts) // 2
        return parts

    def written(self, nbytes: int) -> None:
        """So many bytes, of what was taken, are with the operating system."""
        self.size -= nbytes
        self.gone += nbytes
        unsent = self.unsent
        if unsent:
            # The usual case: all is written, and no row has to leave the store.
            if not self.size and not self.rows:
                unsent.clear()
            else:
                while unsent and unsent[0][2] <= self.gone:
                    queue, message, _ = unsent.popleft()
                    if message.row:
                        self.rows -= 1
                        queue.leave(message)
        if self.starved:
            self.feed_starved()
        if self.excused and self.size <= self.relief:
            self.excused = False

    def feed_starved(self) -> None:
        """Let the queues go on that had to leave this client out, as long as there is room."""
        starved = self.starved
        # Once each: one with a smaller window than ours may come back at once.
        for _ in range(len(starved)):
            if self.size >= self.window or not starved:  # an offer to one may have been the end of another
                break
            starved.popitem(last=False)[0].offer()

    def not_written(self) -> list[tuple[Source, Message]]:
        """Queue messages in mode auto that the operating system never got, or not whole."""
        returned = []
        for queue, message, end in self.unsent:
            # What the transport had taken may reach the client, and will be marked as redelivered; these were never on
            # their way.
            if end > self.taken:
                message.attempts -= 1
            returned.append((queue, message))
        self.unsent.clear()
        self.rows = 0
        return returned

    def hand_over(self) -> list[list[bytes]]:
        """The parts that the transport did not take, and some that it did, before `close`: the caller frees them."""
        handed, self._rest, self.parts = [self._rest, self.parts], [], []
        return handed

    def close(self) -> None:
        """Throw away what was not written, and all that still comes."""
        self.closed = True
        self.carrier = None  # it refers to us: only the collector would find both
        self.parts, self._rest = [], []
        self.size = 0
        self.starved.clear()
