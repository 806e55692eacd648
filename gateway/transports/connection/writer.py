"""Connection writer: from the session's outbox to the pipe.

    outbox --flush--> one write that does not wait --(all taken)--> done
                            '--(the socket is full)--> rest --writer task--> pipe, until outbox and rest are empty

While a writer is at work the outbox only gathers, so that bytes never overtake each other.
"""

from functools import partial

import trio

from gateway.broker.core.outbox import Outbox

from ..flow.connected import FrameObserver, Relief
from ..server import Server
from ..wire.link import BrokenLink, Buffers, Link, advance

# Parts that a writer takes at once: joined they are a copy, and the outbox may hold megabytes that receivers share.
_PARTS_PER_WRITE = 2048


class ConnectionWriter(Relief):
    """Writes the outbox of one session."""

    # One for each connection, of which ten thousand may be idle: without a dictionary it costs some 200 bytes less.
    __slots__ = (
        *("_control", "_counters", "_left", "_link", "_nursery", "_outbox", "_overhead", "_pack"),
        *("_send_nowait", "_server", "_stopped"),
        *("last_write", "rest", "writing"),
    )

    def __init__(self, server: Server, link: Link, nursery: trio.Nursery, outbox: Outbox) -> None:
        super().__init__()
        self._server = server
        self._link = link
        # Looked up once: a broadcast does nothing but this.
        self._pack = link.pack
        self._send_nowait = link.pipe.send_nowait
        self._counters = server.broker.counters
        self._nursery = nursery  # of the connection: the writer task lives in it
        self._outbox = outbox
        self._overhead = 0  # how many bytes of `rest` are not the outbox's
        self._control = b""  # a control frame for the writer's next pause
        self._left: list[list[bytes] | Buffers] = []  # bytes that a peer that has gone never got
        self.rest: Buffers = []  # bytes that have left the outbox and are not written
        self.writing = False  # a writer task is at work
        self._stopped = False
        self.last_write = server.turn_time  # trio's clock then, or nearly so

    def observe(self, observer: FrameObserver | None) -> None:
        self._pack = self._link.pack if observer is None else partial(self._pack_observed, observer)

    def _pack_observed(self, observer: FrameObserver, parts: list[bytes], size: int) -> Buffers:
        observer.see_sent(parts)
        return self._link.pack(parts, size)

    def flush(self) -> None:
        """Write the outbox, as far as the pipe takes it now; a writer does the rest."""
        if self.writing:
            return
        outbox = self._outbox
        in_flight = outbox.size
        parts = outbox.take()
        if not parts:
            return
        buffers = self._pack(parts, in_flight)
        try:
            sent = self._send_nowait(buffers)
        except BrokenLink:
            # The reader will see the end of the stream; until then frames that came before it still count.
            self._give_up(buffers)
            return
        self.last_write = self._server.turn_time
        if len(buffers) == 1 and sent == len(buffers[0]):
            self._counters.bytes_out += sent
            outbox.written(in_flight)
            return
        self._overhead = sum(map(len, buffers)) - in_flight
        self.rest = buffers
        self._advance(sent)
        if self.rest:
            self._start_writer()

    def send_control(self, data: bytes) -> None:
        """Write a WebSocket control frame between two messages; while a writer is at work, it does so.

        Of several only the latest is kept: of Pongs the others need not be sent (RFC 6455, section 5.5.3).
        """
        if self.writing:
            self._control = data
            return
        try:
            sent = self._link.pipe.send_nowait([data])
        except BrokenLink:
            return
        if sent < len(data):
            self.rest = advance([data], sent)
            self._overhead = len(data) - sent
            self._start_writer()

    def stop(self) -> None:
        """No writer task starts any more, and new frames stay in the outbox: the conversation is over."""
        self._stopped = self.writing = True

    def abandon(self) -> list[list[bytes] | Buffers]:
        """Give up what was not written; returns it, because to free it may take long."""
        left = [*self._left, self.rest, *self._outbox.hand_over()]
        self._left, self.rest = [], []
        return left

    def _give_up(self, buffers: Buffers) -> None:
        """The peer is gone: it gets neither these buffers nor the outbox."""
        self._left = [buffers, *self._outbox.hand_over()]
        self._outbox.close()

    def _start_writer(self) -> None:
        self.writing = True
        self._nursery.start_soon(self._write)

    def _advance(self, sent: int) -> None:
        """The operating system has taken so many bytes of `rest`."""
        self._counters.bytes_out += sent
        self.rest = advance(self.rest, sent)
        # Bytes of WebSocket headers are not the outbox's.  They count as if they all went first: so no message counts
        # as written that is not; at worst a message is marked as redelivered that the client never got.
        before = min(sent, self._overhead)
        self._overhead -= before
        outbox = self._outbox
        if not outbox.closed:
            outbox.written(sent - before)
            if outbox.size <= outbox.relief:
                self.release_waiters()

    async def _write(self) -> None:
        """Write the rest, and the frames that gathered meanwhile, until all is written."""
        server, pipe = self._server, self._link.pipe
        try:
            while True:
                while self.rest:
                    sent = await pipe.send_some(self.rest)
                    self.last_write = trio.current_time()
                    self._advance(sent)
                    if server.broker.dirty:
                        await server.flush()
                if not self._take():
                    break
        except BrokenLink:
            self._give_up(self.rest)
            self.rest = []
            self.release_waiters()
        if not self._stopped:
            self.writing = False

    async def write_out(self, *, outbox: bool) -> None:
        """Write the rest, and the `outbox`, when no writer task is at work any more; raises `BrokenLink`."""
        pipe = self._link.pipe
        while self.rest or (outbox and self._take()):
            sent = pipe.send_nowait(self.rest)
            self._advance(sent or await pipe.send_some(self.rest))

    def _take(self) -> bool:
        """Take the next parts of the outbox, and a control frame in front of them; False if there are none."""
        parts = self._outbox.take(_PARTS_PER_WRITE)
        in_flight = sum(map(len, parts))
        control, self._control = self._control, b""
        self.rest = [control] if control else []
        if parts:
            self.rest += self._pack(parts, in_flight)
        self._overhead = sum(map(len, self.rest)) - in_flight
        return bool(self.rest)


async def write_all(link: Link, left: Buffers) -> None:
    """Write all of it, waiting where needed; raises `BrokenLink`."""
    if left:
        left = advance(left, link.pipe.send_nowait(left))
    while left:
        left = advance(left, await link.pipe.send_some(left))
