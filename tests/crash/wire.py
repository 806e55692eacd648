"""A small STOMP 1.2 client over TCP: frames out, frames in, nothing remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from gateway.codec import V12, Decoder, Limits

_CHUNK = 65_536


Gate = int | Callable[[], Awaitable[trio.SocketStream]]
"""Where a gateway takes connections: a port of loopback, or what connects to it, and raises OSError."""


class Gone(Exception):
    """The connection has ended, or there is nobody to connect to."""


class Frame(NamedTuple):
    command: str
    headers: dict[str, str]
    body: bytes


def frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A frame as octets; names and values need no escapes."""
    lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
    if command == "SEND":
        lines.append(f"content-length:{len(body)}")
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


class Link:
    """A connection.

    Attributes:
        port: its own.
        session: its name at the gateway.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.port: int = stream.socket.getsockname()[1]
        self.session = ""
        self._stream = stream
        self._decoder = Decoder(Limits())
        self._decoder.begin(V12, Limits())

    @classmethod
    async def open(cls, gate: Gate) -> Link:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", gate) if isinstance(gate, int) else await gate()
        except OSError:
            raise Gone from None
        link = cls(stream)
        try:
            await link.send(frame("CONNECT", {"accept-version": "1.2", "host": "localhost"}))
            answers: list[Frame] = []
            while not answers:
                answers = await link.receive()
            if answers[0].command != "CONNECTED":  # it is about to stop
                raise Gone
            link.session = answers[0].headers["session"]
        except BaseException:
            await link.close()
            raise
        return link

    async def send(self, octets: bytes) -> None:
        try:
            await self._stream.send_all(octets)
        except trio.BrokenResourceError:
            raise Gone from None

    async def receive(self) -> list[Frame]:
        """The frames of one chunk, perhaps none."""
        try:
            chunk = await self._stream.receive_some(_CHUNK)
        except trio.BrokenResourceError:
            raise Gone from None
        if not chunk:
            raise Gone
        self._decoder.feed(chunk)
        return [Frame(each.command, each.headers, each.body) for each in self._decoder.frames()]

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)
