"""A server over TCP that says what a test wants, connection by connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ByteStream, SocketAttribute

from tests.gateway_process import HOST

CONNECTED = b"CONNECTED\nversion:1.2\nserver:test/1\nheart-beat:%s\n\n\0"

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One connection of a client; what it sends is read up to a word."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._read = b""

    async def until(self, word: bytes) -> bytes:
        """All that has come up to this word."""
        while word not in self._read:
            self._read += await self._stream.receive()
        found, _, self._read = self._read.partition(word)
        return found

    async def say(self, data: bytes) -> None:
        await self._stream.send(data)

    async def accept(self, beats: bytes = b"0,0") -> None:
        """Answer CONNECT."""
        await self.until(b"\0")
        await self.say(CONNECTED % beats)


@asynccontextmanager
async def scripted(*scripts: Script) -> AsyncIterator[str]:
    """The URL of a server whose connections follow these scripts, the last one for all later ones."""
    left = list(scripts)

    async def serve(stream: ByteStream) -> None:
        script = left.pop(0) if len(left) > 1 else left[0]
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await script(Peer(stream))

    async with await anyio.create_tcp_listener(local_host=HOST) as listener, anyio.create_task_group() as tasks:
        port = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(listener.serve, serve)
        yield f"stomp://{HOST}:{port}"
        tasks.cancel_scope.cancel()
