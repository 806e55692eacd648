"""Clients for the tests of the transports.

A `Peer` is a client's end: it speaks STOMP through a `TcpWire` or a `WebSocketWire` (RFC 6455 as client, made by hand,
because tests must be able to break its rules).  `dial` connects to a listener; a `Harness` needs none.

What a peer reads it parses strictly enough for a test: frames with content-length, heart-beats apart, with their times.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

import trio

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN = 0x80
MASK = b"\x37\xfa\x21\x3d"

PATIENCE = 20.0  # seconds of the test's clock

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"


def ws(opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bytes | None = MASK, rsv: int = 0) -> bytes:
    """One WebSocket frame as a client sends it, or as none should."""
    bit = 0 if mask is None else 0x80
    size = len(payload)
    if size < 126:
        length = bytes([bit | size])
    elif size < 65_536:
        length = struct.pack("!BH", bit | 126, size)
    else:
        length = struct.pack("!BQ", bit | 127, size)
    head = bytes([(FIN if fin else 0) | rsv << 4 | opcode]) + length
    if mask is None:
        return head + payload
    return head + mask + bytes([octet ^ mask[place % 4] for place, octet in enumerate(payload)])


@dataclass
class Received:
    """A frame of the server."""

    command: str
    headers: dict[str, str]
    body: bytes

    def __getitem__(self, name: str) -> str:
        return self.headers[name]


class TcpWire:
    """STOMP straight on a stream."""

    frame_end = b"\0\n"

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive(self) -> bytes:
        """The next bytes; none at the end of the stream, whatever ended it."""
        try:
            return bytes(await self.stream.receive_some(65_536))
        except trio.BrokenResourceError:
            return b""

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)


class WebSocketWire(TcpWire):
    """STOMP in WebSocket messages."""

    frame_end = b"\0"

    def __init__(self, stream: trio.abc.Stream, received: bytes = b"") -> None:
        super().__init__(stream)
        self.answers = True  # Pings are answered, as browsers do by themselves
        self.messages: list[bytes] = []
        self.pings: list[float] = []  # times of Pings
        self.pongs: list[bytes] = []  # payloads of Pongs
        self.closed: tuple[int, str] | None = None  # code and reason of the server's Close frame
        self._buffer = received

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(ws(BINARY, data))

    async def receive(self) -> bytes:
        """The payload of the next message; none at the end."""
        while True:
            frame = self._frame()
            if frame is None:
                data = await super().receive()
                if not data:
                    return b""
                self._buffer += data
                continue
            opcode, payload = frame
            if opcode in (TEXT, BINARY):
                self.messages.append(payload)
                return payload
            await self._control(opcode, payload)

    async def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.pings.append(trio.current_time())
            if self.answers:
                await self.stream.send_all(ws(PONG, payload))
        elif opcode == PONG:
            self.pongs.append(payload)
        else:
            assert opcode == CLOSE
            assert self.closed is None, "a second Close frame"
            self.closed = int.from_bytes(payload[:2], "big"), payload[2:].decode()

    def _frame(self) -> tuple[int, bytes] | None:
        """The next whole frame of the server: final, unmasked, no reserved bits, its length as short as can be."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        assert buffer[0] & 0xF0 == FIN
        size, start = buffer[1], 2
        assert size < 128, "a masked frame"
        if size > 125:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
            assert size > (125 if start == 4 else 65_535), "a length longer than needed"
        if len(buffer) < start + size:
            return None
        self._buffer = buffer[start + size :]
        return buffer[0] & 15, buffer[start : start + size]


class Peer:
    """A client."""

    def __init__(self, wire: TcpWire) -> None:
        self.wire = wire
        self.beats: list[float] = []  # times of the heart-beats received
        self._buffer = b""

    @property
    def websocket(self) -> WebSocketWire:
        assert isinstance(self.wire, WebSocketWire)
        return self.wire

    async def send(self, data: bytes) -> None:
        await self.wire.send(data)

    async def send_frame(self, command: str, body: bytes = b"", /, **headers: object) -> None:
        await self.send(frame(command, body, **headers))

    async def receive(self) -> Received | None:
        """The next frame; None at the end of the stream.  Not waited for beyond `PATIENCE`."""
        with trio.fail_after(PATIENCE):
            return await self._receive()

    async def _receive(self) -> Received | None:
        while True:
            while self._buffer.startswith(b"\n"):
                self._buffer = self._buffer[1:]
                self.beats.append(trio.current_time())
            found = self._take()
            if found is not None:
                return found
            data = await self.wire.receive()
            if not data:
                assert not self._buffer, f"half a frame at the end: {self._buffer[:200]!r}"
                return None
            self._buffer += data

    async def frame(self, command: str) -> Received:
        """The next frame, which must be one of that command."""
        received = await self.receive()
        assert received is not None, f"end of stream instead of {command}"
        assert received.command == command, received
        return received

    async def at_end(self) -> None:
        """The stream must end here."""
        received = await self.receive()
        assert received is None, received

    async def at_end_after_error(self) -> Received:
        """An ERROR, and the stream ends behind it."""
        error = await self.frame("ERROR")
        await self.at_end()
        return error

    async def listen(self, seconds: float) -> list[float]:
        """Read for so long, in which only heart-beats and control frames may come; returns the beats' times."""
        count = len(self.beats)
        with trio.move_on_after(seconds):
            received = await self._receive()
            raise AssertionError(f"{received} in the silence")
        return self.beats[count:]

    async def connect(self, version: str = "1.2", **headers: object) -> Received:
        await self.send_frame("CONNECT", accept_version=version, host="h", **headers)
        return await self.frame("CONNECTED")

    async def subscribe(self, destination: str, id: object = 1, ack: str = "auto", **headers: object) -> None:
        """Subscribe, and wait until that is done."""
        await self.send_frame("SUBSCRIBE", destination=destination, id=id, ack=ack, receipt=f"sub-{id}", **headers)
        await self.frame("RECEIPT")

    async def subscribe_and_read(self, destination: str, count: int, ack: str = "auto") -> list[Received]:
        """Subscribe where messages wait; as many as are asked for."""
        await self.send_frame("SUBSCRIBE", destination=destination, id=1, ack=ack)
        return [await self.frame("MESSAGE") for _ in range(count)]

    async def publish(self, destination: str, body: bytes = b"", **headers: object) -> None:
        await self.send_frame("SEND", body, destination=destination, content_length=len(body), **headers)

    async def settled(self) -> None:
        """All that was sent so far has been handled."""
        await self.send_frame("SEND", destination="/topic/nobody", receipt="settled")
        await self.frame("RECEIPT")

    async def aclose(self) -> None:
        await self.wire.aclose()

    def _take(self) -> Received | None:
        head, blank, rest = self._buffer.partition(b"\n\n")
        if not blank:
            return None
        command, *lines = head.decode().split("\n")
        pairs = [line.split(":", 1) for line in lines]
        headers = dict(reversed(pairs))  # the first of repeated entries counts
        length = headers.get("content-length")
        size = rest.find(b"\0") if length is None else int(length)
        end = self.wire.frame_end
        if size < 0 or len(rest) < size + len(end):
            return None
        assert rest[size : size + len(end)] == end
        self._buffer = rest[size + len(end) :]
        return Received(command, headers, rest[:size])


def frame(command: str, body: bytes = b"", /, **headers: object) -> bytes:
    """A client's frame; `_` in a name stands for `-`."""
    lines = "".join([f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items()])
    return f"{command}\n{lines}\n".encode() + body + b"\0"


UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
)


async def dial_stream(address: str) -> trio.SocketStream:
    """Connect to an address as the gateway shows it: host:port, [v6]:port or unix:/path."""
    if address.startswith("unix:"):
        return await trio.open_unix_socket(address[5:])
    host, _, port = address.rpartition(":")
    return await trio.open_tcp_stream(host.strip("[]"), int(port))


async def dial(kind: str, address: str) -> Peer:
    """A client of a listener; over WebSocket with the upgrade behind it."""
    stream = await dial_stream(address)
    if kind == "tcp":
        return Peer(TcpWire(stream))
    await stream.send_all(UPGRADE)
    return Peer(WebSocketWire(stream, await response_of(stream)))


async def response_of(stream: trio.abc.Stream) -> bytes:
    """Read the response to an upgrade, which must be 101; returns what stands behind it."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = await stream.receive_some()
        assert data, f"the connection ended in the upgrade: {head!r}"
        head += data
    response, _, behind = head.partition(b"\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 101 "), response
    return behind


async def read_all(stream: trio.abc.Stream) -> bytes:
    """Everything to the end of the stream, which must come."""
    data = b""
    with trio.fail_after(PATIENCE):
        while chunk := await stream.receive_some():
            data += chunk
    return data


def vanish(stream: trio.SocketStream) -> None:
    """Close with a reset, as a machine that lost its power seems to."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


def socket_streams() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Two ends of a connection in the operating system."""
    one, other = trio.socket.socketpair()
    return trio.SocketStream(one), trio.SocketStream(other)


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for what happens without telling us; fails after a bounded time."""
    deadline = trio.current_time() + seconds
    while not condition():
        assert trio.current_time() < deadline, "it did not happen in time"
        await trio.sleep(0.005)
