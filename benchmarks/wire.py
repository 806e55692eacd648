"""Bytes of the load generator: frames encoded beforehand, and chunks of the server cut into frames.

The generator must be several times cheaper per message than the server, or it measures itself.  So `send_frame` and
`Transport.encode` are called before the clock starts, by the client's own core (`gateway.client.protocol`), and reading
works on whole chunks.  A chunk of a loaded connection is nearly always a *run*: frames of equal length, because ids
grow a digit only now and then.  `Inbound.tails` proves that a chunk is a run with a handful of strided slices, each a
C loop, and takes the tails (the blank line and the body) out of it, for 0.1 us a message.  Other chunks are walked
frame by frame.  Bodies hold no NUL, because this module wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass

from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode

from gateway.client.protocol import ClientProtocol
from gateway.codec import V12, encoder

END = b"\0"
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
# Fewer frames than this are walked sooner than proved to be a run.
RUN = 8
_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
)


class DeliveryError(Exception):
    """The server lost, repeated, reordered, altered or refused something; the text says what."""


def frame(command: str, body: bytes = b"", /, **headers: object) -> bytes:
    """One STOMP frame; `_` in a header's name stands for `-`."""
    lines = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return encoder.frame(command, lines, body, version=V12, end=END)


def send_frame(destination: str, body: bytes, **headers: object) -> bytes:
    """A SEND as the common clients write it, with its content-length."""
    return frame("SEND", body, destination=destination, **headers)


def bodies(count: int, size: int) -> list[bytes]:
    """`count` bodies of `size` bytes, each with its number in front."""
    return [b"%08d" % number + b"x" * (size - 8) for number in range(count)]


def masked(payload: bytes, opcode: int = TEXT) -> bytes:
    """One whole WebSocket frame of a client."""
    return WebSocketFrame(Opcode(opcode), payload).serialize(mask=True)


@dataclass(frozen=True)
class Transport:
    """How to reach the server: by TCP, or by WebSocket when there is a path.

    Attributes:
        authority: file of the authority that vouches for the server; empty: there is no TLS.
    """

    host: str
    port: int
    path: str = ""
    login: tuple[str, str] | None = None
    authority: str = ""

    @property
    def name(self) -> str:
        return "ws" if self.path else "tcp"

    def encode(self, frames: list[bytes]) -> bytes:
        """These frames as bytes on the wire, over WebSocket one message each."""
        return b"".join(map(masked, frames) if self.path else frames)

    def inbound(self) -> Inbound:
        return WebSocketInbound() if self.path else Inbound()

    def greeting(self) -> list[tuple[bytes, bytes]]:
        """What a client says until it is connected, each with the bytes that its answer ends with."""
        credentials = dict(zip(("login", "passcode"), self.login, strict=True)) if self.login else {}
        connect = self.encode([ClientProtocol().connect({"accept-version": "1.2", "host": "/", **credentials})])
        if not self.path:
            return [(connect, END)]
        upgrade = _UPGRADE.format(path=self.path, host=self.host, port=self.port).encode()
        return [(upgrade, b"\r\n\r\n"), (connect, END)]


class Inbound:
    """The bytes of one connection; here for TCP, where they are STOMP frames already.

    `replies` are bytes owed to the server (pongs), `farewell` says how it closed, when it said so.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self.replies = b""
        self.farewell = ""

    def frames(self, chunk: bytes) -> list[bytes]:
        """The frames that this chunk completes, without their NULs."""
        if END not in chunk:  # completes no frame; so a large body is joined once and not per chunk
            self._held.append(chunk)
            return []
        frames, rest = self._walk(b"".join((*self._held, chunk)))
        self._held = [rest] if rest else []
        return frames

    def tails(self, chunk: bytes, size: int) -> list[bytes]:
        """The frames that this chunk completes, each whole or at least its last `size` bytes."""
        if END in chunk:
            data = b"".join((*self._held, chunk))
            head, length = self._measure(data)
            run = len(data) // length if length else 0
            # What is left may be whole, too, where it is shorter: the same with a shorter id.
            if run >= RUN and END not in (rest := data[run * length :]) and _is_run(data, head, length, run):
                self._held = [rest] if rest else []
                return [data[at : at + size] for at in range(length - 1 - size, run * length, length)]
        return self.frames(chunk)

    def _measure(self, data: bytes) -> tuple[int, int]:
        """Bytes of framing before the first frame, and of both together; 0 when it is not complete."""
        return 0, data.find(END) + 1

    def _walk(self, data: bytes) -> tuple[list[bytes], bytes]:
        *frames, rest = data.split(END)
        return frames, rest


class WebSocketInbound(Inbound):
    """Takes the WebSocket framing off; what was inside is again a stream of STOMP frames."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = b""

    def _measure(self, data: bytes) -> tuple[int, int]:
        opcode, start, stop = _header(data, 0)
        whole = opcode in (TEXT, BINARY) and stop <= len(data) and not self._begun
        if whole and data.find(END, start, stop) == stop - 1:
            return start, stop
        return 0, 0

    def _walk(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Walk the WebSocket frames, and answer or note the control frames."""
        payloads = [self._begun]
        at = 0
        while True:
            opcode, start, stop = _header(data, at)
            if stop > len(data):
                break
            payload = data[start:stop]
            if opcode == CLOSE:
                self.farewell = f" with {int.from_bytes(payload[:2])} {payload[2:].decode()}".rstrip()
            elif opcode == PING:
                self.replies += masked(payload, PONG)
            elif opcode != PONG:
                payloads.append(payload)
            at = stop
        *frames, self._begun = b"".join(payloads).split(END)
        return frames, data[at:]


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Opcode, start and end of the payload of the frame at `at`; an end past `data` when it is incomplete.

    A header that is itself incomplete needs no test of its own: its payload would start past the end.
    """
    if len(data) < at + 2:
        return 0, at, len(data) + 1
    size = data[at + 1]
    start = at + 2
    if size == 126:
        size, start = int.from_bytes(data[at + 2 : at + 4]), at + 4
    elif size == 127:
        size, start = int.from_bytes(data[at + 2 : at + 10]), at + 10
    return data[at] & 0x0F, start, start + size


def _is_run(data: bytes, head: int, length: int, run: int) -> bool:
    """True when `data` begins with `run` frames of `length` bytes and nothing else.

    Every frame has the framing of the first (which over WebSocket holds its length) and ends with a NUL.  Two of the
    frames looked for cannot hide in the room of one, and what is found in the tails is compared byte by byte.
    """
    end = run * length
    return data[length - 1 : end : length] == END * run and all(
        data[at:end:length] == data[at : at + 1] * run for at in range(head)
    )
