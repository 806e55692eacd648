"""Two ways to carry octets to the gateway, with the same few methods: a TCP connection, and a WebSocket on one.

What the WebSocket sends is made by hand, because the tests must be able to break its rules; what it receives wsproto
reads, and `faults` collects what the server breaks.  `receive` gives b"" at the end, None when the time is over.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection, events
from wsproto.utilities import RemoteProtocolError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
ALL_SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")

# A server that neither reads nor closes must not hang the run.
SEND_TIMEOUT = 10.0
HANDSHAKE_TIMEOUT = 5.0


class Tcp:
    kind = "tcp"

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=SEND_TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.faults: list[str] = []
        self.was_reset = False

    def send(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def receive(self, seconds: float) -> bytes | None:
        readable, _, _ = select.select([self.socket], [], [], max(0.0, seconds))
        if not readable:
            return None
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            self.was_reset = True
            return b""

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        # SO_LINGER with time 0 turns close() into RST.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class HandshakeRefused(Exception):
    """The server did not answer 101; `status` is what it answered (0: nothing)."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the WebSocket handshake was answered with {status}")
        self.status = status


class WebSocket:
    """A WebSocket as client: one `send` is one message, one `receive` yields one message."""

    kind = "ws"

    def __init__(self, url: str, subprotocols: tuple[str, ...] = ALL_SUBPROTOCOLS, opcode: int = TEXT) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self.tcp = Tcp(where.hostname, where.port or 80)
        self.opcode = opcode
        self.faults: list[str] = []
        self.messages: list[tuple[int, bytes]] = []
        self.pongs: list[bytes] = []
        self.close_code: int | None = None
        self.subprotocol: str | None = None
        self._reader = WSConnection(ConnectionType.CLIENT)
        self._events: list[events.Event] = []
        self._parts: list[bytes] = []
        self._closed = False
        self._upgrade(f"{where.hostname}:{where.port or 80}", where.path or "/", subprotocols)

    @property
    def was_reset(self) -> bool:
        return self.tcp.was_reset

    def send(self, octets: bytes) -> None:
        """One message: of the kind chosen, but never text that is not UTF-8 (RFC 6455, 8.1)."""
        try:
            octets.decode()
        except UnicodeDecodeError:
            self.frame(BINARY, octets)
        else:
            self.frame(self.opcode, octets)

    def frame(self, opcode: int, payload: bytes, fin: bool = True, masked: bool = True, rsv: int = 0) -> None:
        """Send one WebSocket frame, built as told, broken rules included."""
        self.tcp.send(frame_octets(opcode, payload, fin, masked, rsv))

    def receive(self, seconds: float) -> bytes | None:
        until = time.monotonic() + seconds
        while not self._closed:
            message = self._next_message()
            if message is not None:
                return message
            if self._closed or not self._read(until):
                break
        return b"" if self._closed else None

    def tcp_ends(self, seconds: float) -> bool:
        """Whether the server also ends the TCP connection (RFC 6455, 7.1.1: it goes first)."""
        until = time.monotonic() + seconds
        while (chunk := self.tcp.receive(until - time.monotonic())) is not None:
            if not chunk:
                return True
        return False

    def half_close(self) -> None:
        self.tcp.half_close()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the server may have been faster
            self.frame(CLOSE, struct.pack("!H", 1000))
        self.tcp.close()

    def reset(self) -> None:
        self.tcp.reset()

    def _upgrade(self, host: str, path: str, subprotocols: tuple[str, ...]) -> None:
        origin = [(b"Origin", f"http://{host}".encode())]
        request = events.Request(host, path, subprotocols=list(subprotocols), extra_headers=origin)
        self.tcp.send(self._reader.send(request))
        until = time.monotonic() + HANDSHAKE_TIMEOUT
        while not self._events and self._read(until):
            pass
        answer = self._events.pop(0) if self._events else None
        if not isinstance(answer, events.AcceptConnection):
            self.tcp.close()
            raise HandshakeRefused(answer.status_code if isinstance(answer, events.RejectConnection) else 0)
        self.subprotocol = answer.subprotocol

    def _read(self, until: float) -> bool:
        """Read once; False when the time is over, or the stream."""
        chunk = self.tcp.receive(until - time.monotonic())
        if not chunk:
            self._closed = chunk is not None
            return False
        try:
            self._reader.receive_data(chunk)
            self._events += self._reader.events()
        except RemoteProtocolError as error:
            self.faults.append(f"RFC 6455: {error}")
            self._closed = True
        return True

    def _next_message(self) -> bytes | None:
        while self._events and not self._closed:
            match self._events.pop(0):
                case events.Message() as part:
                    is_text = isinstance(part, events.TextMessage)
                    self._parts.append(part.data.encode() if is_text else bytes(part.data))
                    if part.message_finished:
                        message, self._parts = b"".join(self._parts), []
                        self.messages.append((TEXT if is_text else BINARY, message))
                        if message:
                            return message
                        self.faults.append("an empty message")
                case events.Ping(payload=payload):
                    self.frame(PONG, bytes(payload))
                case events.Pong(payload=payload):
                    self.pongs.append(bytes(payload))
                case events.CloseConnection(code=code):
                    self.close_code, self._closed = int(code), True
                    with contextlib.suppress(OSError):  # the server need not wait for an answer to its answer
                        self.frame(CLOSE, b"" if code == 1005 else struct.pack("!H", code))
        return None


def frame_octets(opcode: int, payload: bytes, fin: bool = True, masked: bool = True, rsv: int = 0) -> bytes:
    """One WebSocket frame of a client (RFC 6455, 5.2)."""
    size, bit = len(payload), 0x80 if masked else 0
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += struct.pack("!BH", bit | 126, size)
    else:
        head += struct.pack("!BQ", bit | 127, size)
    if not masked:
        return head + payload
    key = os.urandom(4)
    mask = (key * (size // 4 + 1))[:size]
    return head + key + (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
