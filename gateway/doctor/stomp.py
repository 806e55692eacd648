"""The client's side of STOMP 1.2, one frame at a time, over TCP or a WebSocket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import trio

from gateway.codec import V12, ProtocolError, encoder
from gateway.codec.headers import parse_lines

from .dial import HungUp

_MOST = 64 << 20  # octets of a frame
_COMMANDS = (b"CONNECTED\n", b"MESSAGE\n", b"RECEIPT\n", b"ERROR\n")
_LONGEST_COMMAND = max(map(len, _COMMANDS))


class NotStomp(Exception):
    """The peer speaks something else; `octets` is its beginning."""

    def __init__(self, octets: bytes) -> None:
        super().__init__("not STOMP")
        self.octets = octets


class Channel(Protocol):
    """What carries the octets."""

    pinged: trio.Event
    ending: str

    async def send(self, octets: bytes) -> None: ...
    async def receive(self) -> bytes: ...
    async def aclose(self) -> None: ...


class TcpChannel:
    """Octets of STOMP as they are."""

    ending = ""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.pinged = trio.Event()  # never: there are no pings
        self._stream = stream

    async def send(self, octets: bytes) -> None:
        """Raises HungUp."""
        try:
            await self._stream.send_all(octets)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise HungUp from None

    async def receive(self) -> bytes:
        """Raises HungUp at the end."""
        try:
            chunk = await self._stream.receive_some(65_536)
        except trio.BrokenResourceError:
            chunk = b""
        if not chunk:
            raise HungUp
        return bytes(chunk)

    async def aclose(self) -> None:
        """Close without waiting."""
        await trio.aclose_forcefully(self._stream)


@dataclass(frozen=True, slots=True)
class Reply:
    """A frame of the server."""

    command: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Talk:
    """A conversation.

    Attributes:
        beats: heart-beats that came.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.beats = 0
        self._octets = bytearray()

    async def send(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Send a frame; `_` in names stands for `-`.  Raises HungUp."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        await self.channel.send(encoder.frame(command, named, body, version=V12, end=encoder.END_IN_A_MESSAGE))

    async def connect(self, headers: Mapping[str, str]) -> Reply:
        """Send CONNECT, unescaped (ENC-05), and take the answer; raises as `frame` does."""
        lines = "".join([f"{name}:{text}\n" for name, text in headers.items()])
        await self.channel.send(f"CONNECT\n{lines}\n\0".encode())
        return await self.frame()

    async def beat(self) -> None:
        """Send a heart-beat; raises HungUp."""
        await self.channel.send(b"\n")

    async def frame(self) -> Reply:
        """The next frame.

        Raises:
            HungUp: the connection ended before.
            NotStomp: what comes is no frame.
        """
        while True:
            self._skip_beats()
            reply = self._parse()
            if reply is not None:
                return reply
            try:
                self._octets += await self.channel.receive()
            except HungUp as end:
                raise HungUp(bytes(self._octets) + end.octets) from None

    def _skip_beats(self) -> None:
        octets = self._octets
        size = len(octets) - len(octets.lstrip(b"\r\n"))
        self.beats += octets.count(b"\n", 0, size)
        del octets[:size]

    def _parse(self) -> Reply | None:
        octets = self._octets
        start = bytes(octets[:_LONGEST_COMMAND])
        if len(octets) > _MOST or not any(start.startswith(each[: len(start)]) for each in _COMMANDS):
            raise NotStomp(bytes(octets[:256]))
        block, blank, _ = octets.partition(b"\n\n")
        if not blank:
            return None
        try:
            command, headers = parse_lines(block.decode(), V12)
            length = int(headers.get("content-length", -1))
        except (ProtocolError, ValueError):
            raise NotStomp(bytes(octets[:256])) from None
        begin = len(block) + 2
        end = octets.find(b"\0", begin) if length < 0 else begin + length
        if end < 0 or end >= len(octets):
            return None
        body = bytes(octets[begin:end])
        del octets[: end + 1]
        return Reply(command, headers, body)
