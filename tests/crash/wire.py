"""A small STOMP 1.2 client over TCP: frames out, frames in, nothing remembered.

It reads only what a gateway writes to it: no escapes but those of STOMP 1.2, `content-length` always there.
"""

from __future__ import annotations

from typing import NamedTuple

import trio

_CHUNK = 65_536
_ESCAPES = (("\\c", ":"), ("\\n", "\n"), ("\\r", "\r"), ("\\\\", "\\"))


class Gone(Exception):
    """The connection has ended, or there is nobody to connect to."""


class Frame(NamedTuple):
    """What the gateway sent."""

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
    """A connected client."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = bytearray()

    @classmethod
    async def open(cls, port: int) -> Link:
        """Connect and log in.

        Raises:
            Gone: nobody listens, or not for long.
        """
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
        """Write octets.

        Raises:
            Gone: the gateway has ended.
        """
        try:
            await self._stream.send_all(octets)
        except trio.BrokenResourceError:
            raise Gone from None

    async def receive(self) -> list[Frame]:
        """The frames of one chunk, perhaps none.

        Raises:
            Gone: the gateway has ended.
        """
        try:
            chunk = await self._stream.receive_some(_CHUNK)
        except trio.BrokenResourceError:
            raise Gone from None
        if not chunk:
            raise Gone
        self._rest += chunk
        frames, at = [], 0
        while (found := _next(self._rest, at)) is not None:
            each, at = found
            frames.append(each)
        del self._rest[:at]
        return frames

    async def close(self) -> None:
        """Close the socket, without a word."""
        await trio.aclose_forcefully(self._stream)


def _next(data: bytearray, at: int) -> tuple[Frame, int] | None:
    """The frame that begins there, and where the next one does; None: it is not complete."""
    while data[at : at + 1] == b"\n":  # between frames; heart-beats look the same
        at += 1
    end = data.find(b"\n\n", at)
    if end < 0:
        return None
    command, *lines = data[at:end].decode().split("\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers.setdefault(_plain(name), _plain(value))
    start = end + 2
    stop = start + int(headers["content-length"]) if "content-length" in headers else data.find(b"\0", start)
    if stop < start or len(data) <= stop:
        return None
    assert data[stop] == 0, f"a {command} frame does not end where its content-length says"
    return Frame(command, headers, bytes(data[start:stop])), stop + 1


def _plain(text: str) -> str:
    if "\\" in text:
        for escape, letter in _ESCAPES:
            text = text.replace(escape, letter)
    return text
