"""Two ways to carry octets to the gateway, with the same few methods: a TCP connection, and a WebSocket on one.

The WebSocket is made by hand because the tests must be able to break its rules, and must see those that the server
breaks: `faults` collects them.  `receive` gives b"" at the end of the stream, None when the time is over.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import select
import socket
import struct
import time
from urllib.parse import urlsplit

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

    def __init__(
        self,
        url: str,
        subprotocols: tuple[str, ...] = ALL_SUBPROTOCOLS,
        opcode: int = TEXT,
    ) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self.tcp = Tcp(where.hostname, where.port or 80)
        self.opcode = opcode
        self.faults: list[str] = []
        self.messages: list[tuple[int, bytes]] = []
        self.pongs: list[bytes] = []
        self.close_code: int | None = None
        self.response: dict[str, str] = {}
        self._buffer = b""
        self._opcode = 0
        self._fragments: list[bytes] = []
        self._closed = False
        self._upgrade(f"{where.hostname}:{where.port or 80}", where.path or "/", subprotocols)

    @property
    def subprotocol(self) -> str | None:
        return self.response.get("sec-websocket-protocol")

    @property
    def was_reset(self) -> bool:
        return self.tcp.was_reset

    def send(self, octets: bytes) -> None:
        """One message: of the kind chosen, but never text that is not UTF-8 (RFC 6455, 8.1)."""
        opcode = self.opcode if _is_utf8(octets) else BINARY
        self.frame(opcode, octets)

    def frame(self, opcode: int, payload: bytes, fin: bool = True, masked: bool = True, rsv: int = 0) -> None:
        """Send one WebSocket frame, built as told, broken rules included."""
        self.tcp.send(frame_octets(opcode, payload, fin, masked, rsv))

    def receive(self, seconds: float) -> bytes | None:
        until = time.monotonic() + seconds
        while not self._closed:
            message = self._next_message()
            if message is not None:
                return message
            chunk = None if self._closed else self.tcp.receive(until - time.monotonic())
            if chunk is None:
                break
            if not chunk:
                self._closed = True
            self._buffer += chunk
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
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            f"Origin: http://{host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        if subprotocols:
            lines.append("Sec-WebSocket-Protocol: " + ", ".join(subprotocols))
        self.tcp.send("\r\n".join([*lines, "", ""]).encode())
        head = self._response_head()
        status, *fields = head.decode("latin-1").split("\r\n")
        for field in fields:
            name, _, value = field.partition(":")
            self.response[name.strip().lower()] = value.strip()
        code = int(status.split()[1]) if status.startswith("HTTP/") else 0
        if code != 101:
            self.tcp.close()
            raise HandshakeRefused(code)
        guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1((key + guid).encode()).digest()).decode()
        if self.response.get("sec-websocket-accept") != accept:
            self.faults.append("Sec-WebSocket-Accept is wrong")

    def _response_head(self) -> bytes:
        until = time.monotonic() + HANDSHAKE_TIMEOUT
        while b"\r\n\r\n" not in self._buffer:
            chunk = self.tcp.receive(until - time.monotonic())
            if not chunk:
                self.tcp.close()
                raise HandshakeRefused(0)
            self._buffer += chunk
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def _next_message(self) -> bytes | None:
        while (frame := self._next_frame()) is not None:
            fin, opcode, payload = frame
            if opcode >= CLOSE:
                if not fin or len(payload) > 125:
                    self.faults.append(f"control frame {opcode} is fragmented or too long")
                self._control(opcode, payload)
                if self._closed:
                    return None
                continue
            if (opcode == CONTINUATION) != bool(self._opcode):
                self.faults.append("continuation and first frames are mixed up")
            self._opcode = opcode or self._opcode
            self._fragments.append(payload)
            if fin and (message := self._whole()):
                return message
        return None

    def _whole(self) -> bytes:
        message, opcode = b"".join(self._fragments), self._opcode
        self._fragments, self._opcode = [], 0
        if opcode == TEXT and not _is_utf8(message):
            self.faults.append(f"a text message is not UTF-8: {message[:80]!r}")
        if not message:
            self.faults.append("an empty message")
        self.messages.append((opcode, message))
        return message

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.frame(PONG, payload)
        elif opcode == PONG:
            self.pongs.append(payload)
        elif opcode == CLOSE:
            self.close_code = struct.unpack("!H", payload[:2])[0] if payload else 1005
            self._closed = True
            with contextlib.suppress(OSError):  # the server need not wait for an answer to its answer
                self.frame(CLOSE, payload[:2])
        else:
            self.faults.append(f"reserved opcode {opcode}")

    def _next_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        if buffer[0] & 0x70:
            self.faults.append("an RSV bit without an extension")
        if buffer[1] & 0x80:
            self.faults.append("a masked frame from the server")
        size, start = buffer[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
            if size < (126 if start == 4 else 65536):
                self.faults.append("a length in more octets than needed")
        if len(buffer) < start + size:
            return None
        self._buffer = buffer[start + size :]
        return bool(buffer[0] & 0x80), buffer[0] & 0x0F, buffer[start : start + size]


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


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
    return head + key + _masked(payload, key)


_XOR = [bytes(octet ^ key for octet in range(256)) for key in range(256)]


def _masked(payload: bytes, key: bytes) -> bytes:
    """Every fourth octet goes with the same octet of the key: four bulk translations instead of a loop."""
    out = bytearray(len(payload))
    for lane in range(4):
        out[lane::4] = payload[lane::4].translate(_XOR[key[lane]])
    return bytes(out)
