"""A small STOMP 1.2 client over TCP: frames out, frames in, nothing remembered."""

from __future__ import annotations

from typing import NamedTuple

import trio

from gateway.codec import V12, Decoder, Limits

_CHUNK = 65_536


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
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._decoder = Decoder(Limits())
        self._decoder.begin(V12, Limits())

    @classmethod
    async def open(cls, port: int) -> Link:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
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
