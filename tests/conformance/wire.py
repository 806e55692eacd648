"""A STOMP client that writes exactly what it is told and reads strictly what the gateway says.

The reading side knows the grammar of each version and notes every departure from it in `faults`; the fixture looks at
them when a test is over, so that each test is also one of FRM-11.  Up to CONNECTED an ERROR must read the same in all
versions.  Over WebSocket one message must hold one whole frame or one end of line (WST-12).
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .core import Core
from .links import Tcp, WebSocket

Link = Core | Tcp | WebSocket

# Longest wait for what must come; only a failing test waits that long.
WAIT = 3.0

Value = str | bytes | int
Headers = Mapping[Value, Value] | Iterable[tuple[Value, Value]]

SERVER_COMMANDS = {"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"}
ONCE = ("destination", "message-id", "subscription", "ack", "receipt-id", "content-length", "content-type", "version")
NEEDED = {"MESSAGE": {"destination", "message-id", "subscription"}, "RECEIPT": {"receipt-id"}}
ESCAPES = {
    "1.0": {},
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
UNESCAPES = {version: {pair: char for char, pair in table.items()} for version, table in ESCAPES.items()}


class Ended(AssertionError):
    """The stream ended while something was awaited."""


def escaped(text: str, version: str) -> str:
    return text.translate(str.maketrans(ESCAPES[version]))


def pairs(headers: Headers) -> list[tuple[Value, Value]]:
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)


def octets(
    command: str | bytes, headers: Headers = (), body: bytes = b"", version: str = "1.0", eol: bytes = b"\n"
) -> bytes:
    """One frame with its NUL.  Text is escaped for the version, bytes go out as they are."""

    def encoded(value: Value) -> bytes:
        return value if isinstance(value, bytes) else escaped(str(value), version).encode()

    lines = [command if isinstance(command, bytes) else command.encode()]
    lines += [encoded(name) + b":" + encoded(value) for name, value in pairs(headers)]
    return eol.join([*lines, b"", b""]) + body + b"\0"


@dataclass
class Frame:
    """A frame of the server: decoded headers, and the header lines as they came."""

    command: str
    headers: list[tuple[str, str]]
    lines: list[bytes]
    body: bytes
    at: float

    def get(self, name: str) -> str | None:
        """The first value of the header: the one that counts."""
        return next((value for key, value in self.headers if key == name), None)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        assert value is not None, f"{self.command} has no header {name!r}: {self.headers}"
        return value

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def raw(self, name: bytes) -> bytes:
        """The value as octets on the wire; the name is the one on the wire too."""
        found = [line.partition(b":")[2] for line in self.lines if line.partition(b":")[0] == name]
        assert found, f"{self.command} has no line {name!r}: {self.lines}"
        return found[0]


class Reader:
    """Octets of the server to frames; departures from the grammar to `faults`."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.faults: list[str] = []
        self.beats: list[tuple[float, bytes]] = []
        self.ends: list[bytes] = []
        self._buffer = b""
        self._last = ""

    @property
    def is_between_frames(self) -> bool:
        return not self._buffer

    def feed(self, chunk: bytes) -> list[Frame]:
        self._buffer += chunk
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        self._skip_line_ends()
        ends = rb"\n\r?\n" if self.version == "1.2" else rb"\n\n"
        head = re.search(ends, self._buffer)
        if head is None:
            return None
        lines = self._buffer[: head.start()].split(b"\n")
        if self.version == "1.2":
            lines = [line.removesuffix(b"\r") for line in lines]
        end = self._body_end(lines[1:], head.end())
        if end is None:
            return None
        # An LF that comes with the NUL ends the frame; one that comes later is a heart-beat.
        behind = end + (2 if self._buffer[end + 1 : end + 2] == b"\n" else 1)
        self.ends.append(self._buffer[end:behind])
        body, self._buffer = self._buffer[head.end() : end], self._buffer[behind:]
        return self._frame(lines[0].decode("latin-1"), lines[1:], body)

    def _skip_line_ends(self) -> None:
        found = re.match(rb"(?:\r?\n)*" if self.version == "1.2" else rb"\n*", self._buffer)
        if not found or not found[0]:
            return
        self._buffer = self._buffer[found.end() :]
        self.beats.append((time.monotonic(), found[0]))
        if self.version is None:
            self.faults.append("ends of line before CONNECTED")

    def _body_end(self, lines: list[bytes], start: int) -> int | None:
        """Where the NUL is, or None while it has not arrived."""
        length = next((line[15:] for line in lines if line.startswith(b"content-length:")), None)
        if length is None:
            end = self._buffer.find(b"\0", start)
            return end if end >= 0 else None
        if not re.fullmatch(rb"[0-9]+", length):
            self.faults.append(f"content-length {length!r}")
            length = b"0"
        end = start + int(length)
        if len(self._buffer) <= end:
            return None
        if self._buffer[end] != 0:
            self.faults.append(f"no NUL behind the {int(length)} octets of content-length")
        return end

    def _frame(self, command: str, lines: list[bytes], body: bytes) -> Frame:
        version = None if command == "CONNECTED" else self.version
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name:
                self.faults.append(f"{command}: no header line: {line!r}")
            headers.append((self._text(name, version, command), self._text(value, version, command)))
        frame = Frame(command, headers, lines, body, time.monotonic())
        if command == "CONNECTED":
            self.version = frame.get("version") or "1.0"
        self._judge(frame)
        self._last = command
        return frame

    def _judge(self, frame: Frame) -> None:
        command = frame.command
        if command not in SERVER_COMMANDS:
            self.faults.append(f"the server has no command {command!r}")
        if self._last == "ERROR" or (self._last and command == "CONNECTED"):
            self.faults.append(f"{command} behind {self._last}")
        if not self._last and command not in ("CONNECTED", "ERROR"):
            self.faults.append(f"{command} before CONNECTED")
        if command in ("CONNECTED", "RECEIPT") and frame.body:
            self.faults.append(f"{command} with a body: {frame.body[:80]!r}")
        needed = NEEDED.get(command, set()) - ({"subscription"} if self.version == "1.0" else set())
        missing = needed - {name for name, _ in frame.headers}
        if missing:
            self.faults.append(f"{command} without {missing}")
        self.faults.extend(f"{command} with {name} twice" for name in ONCE if len(frame.all(name)) > 1)

    def _text(self, raw: bytes, version: str | None, command: str) -> str:
        """Undo the escapes of the version, and note what it does not allow."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self.faults.append(f"{command}: not UTF-8: {raw!r}")
            return raw.decode("latin-1")
        wrong = {None: r"[\x00-\x1f\\:]", "1.0": r"[\x00-\x1f]", "1.1": r":", "1.2": r"[:\r]"}[version]
        if re.search(wrong, text):
            self.faults.append(f"{command}: octets that {version or 'no version agreed'} does not allow: {raw!r}")
        if version in (None, "1.0"):
            return text

        def unescape(pair: re.Match[str]) -> str:
            if pair[0] not in UNESCAPES[version]:
                self.faults.append(f"{command}: {pair[0]!r} is no escape of {version}: {raw!r}")
            return UNESCAPES[version].get(pair[0], pair[0])

        return re.sub(r"\\.?", unescape, text, flags=re.DOTALL)


class Peer:
    """One connection to the gateway, from the first octet to the last."""

    _numbers = itertools.count(1)

    def __init__(self, link: Link, version: str) -> None:
        self.link = link
        self.version = version
        self.reader = Reader()
        self.inbox: list[Frame] = []
        self.frames: list[Frame] = []
        self.at_end = False
        self.connected: Frame | None = None

    @property
    def faults(self) -> list[str]:
        return self.reader.faults + self.link.faults

    # -- sending

    def raw(self, data: bytes) -> None:
        self.link.send(data)

    def flood(self, data: bytes) -> None:
        """Send to a server that may have ended the connection by now."""
        with contextlib.suppress(OSError):
            self.link.send(data)

    def send(self, command: str, headers: Headers = (), body: bytes = b"", eol: bytes = b"\n") -> None:
        version = "1.0" if command in ("CONNECT", "STOMP") else self.version
        self.raw(octets(command, headers, body, version, eol))

    def request(self, command: str, headers: Headers = (), body: bytes = b"") -> Frame:
        """Send with a receipt header and wait for the RECEIPT."""
        number = f"r-{next(self._numbers)}"
        self.send(command, [*pairs(headers), ("receipt", number)], body)
        return self.receipt(number)

    def publish(self, destination: str, body: bytes = b"", headers: Headers = ()) -> None:
        self.send("SEND", [("destination", destination), ("content-length", len(body)), *pairs(headers)], body)

    def put(self, destination: str, *bodies: bytes, headers: Headers = ()) -> None:
        """Publish, and wait until the gateway has them all."""
        for body in bodies:
            self.publish(destination, body, headers)
        self.barrier()

    def barrier(self) -> None:
        """Everything sent so far was received, and what it sent back to this peer has arrived."""
        self.request("SEND", {"destination": "/topic/barrier"})

    def subscribe(self, destination: str, id: str = "0", ack: str | None = None) -> None:
        mode = {} if ack is None else {"ack": ack}
        self.request("SUBSCRIBE", {"id": id, "destination": destination, **mode})

    def settlement(self, message: Frame, transaction: str | None = None) -> dict[Value, Value]:
        """The headers by which ACK and NACK name a message in this version."""
        headers: dict[Value, Value] = {} if transaction is None else {"transaction": transaction}
        if self.version == "1.2":
            return headers | {"id": message["ack"]}
        if self.version == "1.1":
            headers["subscription"] = message["subscription"]
        return headers | {"message-id": message["message-id"]}

    def ack(self, message: Frame, transaction: str | None = None) -> None:
        self.request("ACK", self.settlement(message, transaction))

    def nack(self, message: Frame, transaction: str | None = None) -> None:
        self.request("NACK", self.settlement(message, transaction))

    # -- receiving

    def pump(self, seconds: float) -> bool:
        """Read once.  False when nothing came, or nothing more will."""
        if self.at_end:
            return False
        chunk = self.link.receive(seconds)
        if not chunk:
            self.at_end = chunk is not None
            return False
        frames = self.reader.feed(chunk)
        is_one = len(frames) < 2 and self.reader.is_between_frames and not (frames and chunk.endswith(b"\n"))
        if self.link.kind == "ws" and not is_one:
            self.reader.faults.append(f"a WebSocket message that is not one frame: {chunk[:200]!r}")
        self.inbox += frames
        self.frames += frames
        return True

    def listen(self, seconds: float) -> None:
        """Take in whatever comes during that time."""
        until = time.monotonic() + seconds
        while not self.at_end and (left := until - time.monotonic()) > 0:
            self.pump(left)

    def take(self, command: str, header: str = "", value: str = "") -> Frame:
        """The first frame of that command (and header) not taken yet."""
        until = time.monotonic() + WAIT
        wanted = f"{command} {header}:{value}" if header else command
        while True:
            for frame in self.inbox:
                if frame.command == command and (not header or frame.get(header) == value):
                    self.inbox.remove(frame)
                    return frame
                assert frame.command != "ERROR", f"{wanted} awaited, but: {frame}"
            if self.at_end:
                raise Ended(f"{wanted} awaited, but the stream ended")
            left = until - time.monotonic()
            assert left > 0, f"no {wanted} within {WAIT} s, only {self.inbox}"
            self.pump(left)

    def receipt(self, id: str) -> Frame:
        return self.take("RECEIPT", "receipt-id", id)

    def message(self) -> Frame:
        return self.take("MESSAGE")

    def messages(self, number: int) -> list[Frame]:
        return [self.message() for _ in range(number)]

    def seen(self, destination: str) -> list[bytes]:
        """The bodies that this subscriber of the destination got so far, and no more are under way.

        A message of our own, sent last, ends the list: what was routed before it came before it.
        """
        end = b"end-%d" % next(self._numbers)
        self.publish(destination, end)
        bodies = []
        while (body := self.message().body) != end:
            bodies.append(body)
        return bodies

    def ends(self) -> None:
        """Wait for the end of the stream."""
        until = time.monotonic() + WAIT
        while not self.at_end:
            left = until - time.monotonic()
            assert left > 0, f"the gateway did not close within {WAIT} s; {self.inbox}"
            self.pump(left)

    def refused(self) -> Frame | None:
        """The stream ends, behind an ERROR or without one; nothing else but messages under way comes before."""
        self.ends()
        others = [frame for frame in self.inbox if frame.command not in ("ERROR", "MESSAGE")]
        assert not others, f"refused, but: {others}"
        return next((frame for frame in self.inbox if frame.command == "ERROR"), None)

    def refusal(self) -> Frame:
        """An ERROR, then the end of the stream: the one way in which this gateway refuses a frame."""
        error = self.refused()
        assert error is not None, "the stream ended without an ERROR"
        assert error["message"], "an ERROR whose message is empty"
        return error
