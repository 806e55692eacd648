"""The way out of a connection: from the session's outbox to the pipe.

    outbox --flush--> one write that does not wait --(all taken)--> done
                            '--(the socket is full)--> rest --writer task--> pipe, until outbox and rest are empty

While a writer is at work the outbox only gathers, so that octets never overtake each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.broker.outbound import Outbound

from .link import BrokenLink, Buffers, Link, advance

if TYPE_CHECKING:
    from .hub import Hub


# What a writer takes at once: joined they are a copy, and the outbox may hold megabytes that others share.
_PARTS_PER_WRITE = 2048


class Outgoing:
    """What leaves a connection.

    Attributes:
        rest: octets that left the outbox and did not leave us.
        writing: a writer task is at work.
        last_write: trio's clock when octets were last written, or nearly so.
    """

    __slots__ = (
        "_control",
        "_counters",
        "_hub",
        "_in_flight",
        "_link",
        "_nursery",
        "_outbound",
        "_pack",
        "_relief",
        "_send_nowait",
        "_stopped",
        "last_write",
        "rest",
        "writing",
    )

    def __init__(self, hub: Hub, link: Link, nursery: trio.Nursery, outbound: Outbound) -> None:
        self._hub = hub
        self._link = link
        # Looked up once: a broadcast does nothing but this.
        self._pack = link.pack
        self._send_nowait = link.pipe.send_nowait
        self._counters = hub.broker.counters
        self._nursery = nursery  # of the connection: the writer lives in it
        self._outbound = outbound
        self._in_flight = 0  # how many of the outbox's octets `rest` stands for
        self._relief: trio.Event | None = None
        self._control = b""  # a control frame for the writer's next pause
        self.rest: Buffers = []
        self.writing = False
        self._stopped = False
        self.last_write = hub.now

    def flush(self) -> None:
        """Write the outbox, as far as the pipe takes it now; a writer does the rest."""
        if self.writing:
            return
        outbound = self._outbound
        in_flight = outbound.size
        parts = outbound.take()
        if not parts:
            return
        buffers = self._pack(parts, in_flight)
        try:
            sent = self._send_nowait(buffers)
        except BrokenLink:
            # The reader will see the end of the stream; until then frames that came before it still count.
            outbound.close()
            return
        self._counters.octets_out += sent
        self.last_write = self._hub.now
        if len(buffers) == 1 and sent == len(buffers[0]):
            outbound.written(in_flight)
            return
        self._in_flight = in_flight
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
            self._start_writer()

    def stop(self) -> None:
        """The conversation is over: no writer starts any more, and what is appended stays in the outbox."""
        self._stopped = self.writing = True

    def _start_writer(self) -> None:
        self.writing = True
        self._nursery.start_soon(self._write)

    def _advance(self, sent: int) -> None:
        """So many octets of `rest` are with the operating system."""
        self.rest = advance(self.rest, sent)
        # Octets of WebSocket headers are not the outbox's; what is left of the account is settled at the end.
        credit = min(sent, self._in_flight) if self.rest else self._in_flight
        self._in_flight -= credit
        outbound = self._outbound
        if not outbound.closed:
            outbound.written(credit)
            if outbound.size <= outbound.relief:
                self.release_waiters()

    async def _write(self) -> None:
        """Write the rest, and what gathered meanwhile, until nothing is left."""
        hub, pipe, outbound = self._hub, self._link.pipe, self._outbound
        try:
            while True:
                while self.rest:
                    sent = await pipe.send_some(self.rest)
                    hub.broker.counters.octets_out += sent
                    self.last_write = trio.current_time()
                    self._advance(sent)
                    if hub.broker.dirty:
                        await hub.flush()
                parts = outbound.take(_PARTS_PER_WRITE)
                self._in_flight = sum(map(len, parts))
                self.rest = [*self._take_control(), *(self._link.pack(parts, self._in_flight) if parts else [])]
                if not self.rest:
                    break
        except BrokenLink:
            outbound.close()
            self.rest = []
            self.release_waiters()
        if not self._stopped:
            self.writing = False

    def _take_control(self) -> Buffers:
        control, self._control = self._control, b""
        return [control] if control else []

    def last_words(self) -> Buffers:
        """All that is left to be written at the end: the rest, and what lies in the outbox."""
        parts = self._outbound.take()
        return [*self.rest, *self._link.pack(parts, self._outbound.size)] if parts else self.rest

    async def wait_relief(self) -> None:
        """Wait until the client has read most of its outbox, or is gone."""
        if self._relief is None:
            self._relief = trio.Event()
        await self._relief.wait()

    def release_waiters(self) -> None:
        """Those in `wait_relief` go on."""
        if self._relief is not None:
            self._relief.set()
            self._relief = None


async def write_all(link: Link, left: Buffers) -> None:
    """Write all of it, waiting where needed.

    Raises:
        BrokenLink: the peer is gone.
    """
    if left:
        left = advance(left, link.pipe.send_nowait(left))
    while left:
        left = advance(left, await link.pipe.send_some(left))
