"""Pipes for tests: one on any trio stream, and one that a test opens and shuts."""

from __future__ import annotations

import math

import trio

from gateway.transports.wire.link import BrokenLink, Buffers


class StreamPipe:
    """Any trio stream."""

    __slots__ = ("_stream",)

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self, size: int) -> bytes:
        try:
            return bytes(await self._stream.receive_some(size))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def send_nowait(self, buffers: Buffers) -> int:
        """Nothing: a stream can only await."""
        return 0

    async def send_some(self, buffers: Buffers) -> int:
        try:
            await self._stream.send_all(buffers[0])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise BrokenLink(str(error)) from None
        return len(buffers[0])

    def peer_has_gone(self) -> bool:
        return False  # a stream does not tell without a read

    def has_bytes(self) -> bool:
        return False

    async def send_eof(self) -> None:
        """Half-close, if the stream can; else its end is the close."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            try:
                await self._stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


class ControlledPipe:
    """A pipe whose other end takes as many bytes as the test lets it: `Pipe` for the server, `end` for the client."""

    def __init__(self, room: float = math.inf) -> None:
        self.room = room  # bytes that it still takes
        self.written = bytearray()  # what it took and the client did not read yet
        # Writing fails; the server has said that nothing more comes; the server has closed it.
        self.broken = self.eof = self.closed = False
        self.end = ControlledPipeEnd(self)
        self._incoming = bytearray()
        self._ended = False
        self._moved = trio.lowlevel.ParkingLot()

    async def receive(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._incoming:
            if self._ended:
                return b""
            await self._moved.park()
        data = bytes(self._incoming[:size])
        del self._incoming[:size]
        return data

    def send_nowait(self, buffers: Buffers) -> int:
        if self.broken:
            raise BrokenLink("broken")
        data = b"".join(buffers)
        taken = int(min(self.room, len(data)))
        self.written += data[:taken]
        self.room -= taken
        self._moved.unpark_all()
        return taken

    async def send_some(self, buffers: Buffers) -> int:
        await trio.lowlevel.checkpoint()
        while not self.room and not self.broken:
            await self._moved.park()
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        return self._ended

    def has_bytes(self) -> bool:
        return bool(self._incoming) or self._ended

    async def send_eof(self) -> None:
        self.eof = True
        self._moved.unpark_all()

    async def aclose(self) -> None:
        self.eof = self.closed = True
        self._moved.unpark_all()

    # the client's hands

    def open(self, nbytes: float = math.inf) -> None:
        """Take so many bytes more."""
        self.room += nbytes
        self._moved.unpark_all()

    def push(self, data: bytes) -> None:
        """Bytes for the server."""
        self._incoming += data
        self._moved.unpark_all()

    def hang_up(self, *, broken: bool = True) -> None:
        """The client's end of the stream; a broken one takes nothing any more."""
        self._ended, self.broken = True, broken
        self._moved.unpark_all()

    async def pull(self) -> bytes:
        """What the server has written."""
        await trio.lowlevel.checkpoint()
        while not self.written:
            if self.eof:
                return b""
            await self._moved.park()
        data = bytes(self.written)
        self.written.clear()
        return data


class ControlledPipeEnd(trio.abc.Stream):
    """The client's end of a valve, as a stream."""

    def __init__(self, valve: ControlledPipe) -> None:
        self._valve = valve

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self._valve.push(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._valve.pull()

    async def aclose(self) -> None:
        self._valve.hang_up()
        await trio.lowlevel.checkpoint()
