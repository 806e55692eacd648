"""A pipe in memory between the two ends of a link; a test narrows, cuts and breaks it."""

from __future__ import annotations

import math

import trio

from gateway.transports.wire.link import BrokenLink, Buffers


class LinkPipe:
    """One end; `pipe_pair` makes both."""

    other: LinkPipe

    def __init__(self) -> None:
        self.room: float = math.inf  # bytes that it still takes
        self.piece = 1 << 62  # bytes of one read at most
        self.is_broken = self.is_closed = False
        self.incoming = bytearray()
        self._moved = trio.lowlevel.ParkingLot()

    async def receive(self, size: int) -> bytes:
        """The next bytes; none behind the end."""
        await trio.lowlevel.checkpoint()
        while not self.incoming:
            if self.is_broken or self.is_closed or self.other.is_closed:
                return b""
            await self._moved.park()
        size = min(size, self.piece)
        data = bytes(self.incoming[:size])
        del self.incoming[:size]
        return data

    def send_nowait(self, buffers: Buffers) -> int:
        """As much as there is room for."""
        if self.is_broken or self.is_closed or self.other.is_closed:
            raise BrokenLink("broken")
        data = b"".join(buffers)
        taken = int(min(self.room, len(data)))
        self.room -= taken
        self.other.incoming += data[:taken]
        self.other.move()
        return taken

    async def send_some(self, buffers: Buffers) -> int:
        """As much as there is room for, when there is any."""
        await trio.lowlevel.checkpoint()
        while not self.room and not (self.is_broken or self.is_closed or self.other.is_closed):
            await self._moved.park()
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        """True if the other end is closed."""
        return self.other.is_closed

    def has_bytes(self) -> bool:
        """True if something can be read."""
        return bool(self.incoming)

    async def send_eof(self) -> None:
        """Links end as a whole."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close this end."""
        self.is_closed = True
        self.move()
        self.other.move()

    # the test's hands

    def move(self) -> None:
        """Wake what waits here."""
        self._moved.unpark_all()

    def open(self, nbytes: float = math.inf) -> None:
        """Take so many bytes more."""
        self.room += nbytes
        self.move()

    def cut(self) -> None:
        """Break in both directions; what has come can still be read."""
        for end in (self, self.other):
            end.is_broken = True
            end.move()


def pipe_pair() -> tuple[LinkPipe, LinkPipe]:
    """Both ends of a pipe."""
    one, other = LinkPipe(), LinkPipe()
    one.other, other.other = other, one
    return one, other
