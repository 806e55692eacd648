"""Memory pipes: a connection whose other end is in this process.

    MemoryPipe    the server's end, a `Pipe`
    .far          the client's end: `feed`, `read`, `hang_up`

The server writes as if to a socket: it can write until `room` bytes are unread, and waits then.  So limits of outboxes
and back-pressure are those of any client.  The client's end is fed at once: what it feeds it has in memory already.
"""

from __future__ import annotations

from collections import deque

import trio

from .link import BrokenLink, Buffers

ROOM = 256 * 1024  # bytes that may lie unread, as in the buffers of a socket


class MemoryPipe:
    """The server's end; `Pipe` explains the methods."""

    __slots__ = ("_incoming", "_is_closed", "_moved", "far", "room")

    def __init__(self, room: int = ROOM) -> None:
        self.room = room
        self.far = FarEnd(self)
        self._incoming = bytearray()
        self._moved = trio.lowlevel.ParkingLot()
        self._is_closed = False

    async def receive(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._incoming and not self.far.has_gone and not self._is_closed:
            await self._moved.park()
        data = bytes(self._incoming[:size])
        del self._incoming[:size]
        return data

    def send_nowait(self, buffers: Buffers) -> int:
        if self.far.has_gone or self._is_closed:
            raise BrokenLink("the client has hung up")
        return self.far.take(buffers, self.room)

    async def send_some(self, buffers: Buffers) -> int:
        await trio.lowlevel.checkpoint()
        while self.far.unread >= self.room and not self.far.has_gone and not self._is_closed:
            await self._moved.park()
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        return self.far.has_gone

    def has_bytes(self) -> bool:
        return bool(self._incoming) or self.far.has_gone

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self.far.end()

    async def aclose(self) -> None:
        self._is_closed = True
        self.far.end()
        self.look()

    def fed(self, data: bytes) -> None:
        self._incoming += data
        self.look()

    def look(self) -> None:
        """Wake the server's tasks: bytes have come, or room."""
        self._moved.unpark_all()


class FarEnd:
    """The client's end.

    Attributes:
        has_ended: the server writes nothing more.
        unread: bytes that the server has written, and `read` has not returned.
        has_gone: it has hung up.
    """

    __slots__ = ("_came", "_parts", "_pipe", "has_ended", "has_gone", "unread")

    def __init__(self, pipe: MemoryPipe) -> None:
        self.unread = 0
        self.has_gone = False
        self._pipe = pipe
        self._parts: deque[bytes] = deque()
        self.has_ended = False
        self._came = trio.lowlevel.ParkingLot()

    def feed(self, data: bytes) -> None:
        """Send bytes to the server."""
        self._pipe.fed(data)

    async def read(self) -> bytes:
        """All that the server has written since the last read; empty: it writes nothing more."""
        await trio.lowlevel.checkpoint()
        while not self._parts and not self.has_ended:
            await self._came.park()
        data = b"".join(self._parts)
        self._parts.clear()
        self.unread = 0
        self._pipe.look()
        return data

    def hang_up(self) -> None:
        """Close: the server reads to the end of what was fed, and can write nothing."""
        self.has_gone = True
        self._pipe.look()

    # for the server's end

    def take(self, buffers: Buffers, room: int) -> int:
        """Take as many bytes as there is room for; returns how many."""
        taken = 0
        for buffer in buffers:
            part = bytes(buffer[: room - self.unread])
            if part:
                self._parts.append(part)
                self.unread += len(part)
                taken += len(part)
            if len(part) < len(buffer):
                break
        self._came.unpark_all()
        return taken

    def end(self) -> None:
        self.has_ended = True
        self._came.unpark_all()
