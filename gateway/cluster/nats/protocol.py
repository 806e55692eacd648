"""The protocol of NATS, without I/O: bytes of the server become events, and requests become bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_LINE = 256 * 1024
"""Bytes of a line of the server.  INFO is the longest: it names the servers of the cluster."""

LONGEST_MESSAGE = 64 * 1024 * 1024
"""Bytes of headers and payload of a message: the most that a server can be set to take."""

_VERSION = b"NATS/1.0"


class NatsProtocolError(Exception):
    """The server sent what the protocol does not have; `str()` is one sentence about it."""


@dataclass(frozen=True, slots=True)
class Info:
    """The first line of a connection, and again when the servers change."""

    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a subscription.  `status`: of an answer without content, like 503: nothing listens; 0: none."""

    subject: str
    reply: str
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)  # the last of each name, which is as it was sent
    status: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """The server asks whether the client is there."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a PING."""


@dataclass(frozen=True, slots=True)
class ServerError:
    """The server refuses something, and mostly ends the connection."""

    reason: str


Event = Info | Message | Ping | Pong | ServerError


class Parser:
    """Makes events of the bytes of a server."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer that have no end of a line
        self._head: tuple[str, str, int, int] | None = None  # subject, reply, bytes of the headers, bytes of all

    def feed(self, data: bytes) -> list[Event]:
        """The events that are complete with these bytes.  Raises NatsProtocolError: the connection must end."""
        self._buffer += data
        events: list[Event] = []
        while (event := self._next()) is not None:
            if not isinstance(event, _Ok):
                events.append(event)
        return events

    def _next(self) -> Event | _Ok | None:
        if self._head is None:
            line = self._line()
            if line is None:
                return None
            event = self._control(line)
            if event is not None:
                return event
        return self._message()

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", self._searched, LONGEST_LINE)
        if end < 0:
            if len(self._buffer) >= LONGEST_LINE:
                raise NatsProtocolError(f"a line is longer than {LONGEST_LINE} bytes")
            self._searched = max(0, len(self._buffer) - 1)  # its last byte may be the CR of an end
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        self._searched = 0
        return line

    def _control(self, line: bytes) -> Event | _Ok | None:
        """The event of a line; None: a message follows."""
        verb, _, rest = line.partition(b" ")
        match verb.upper():
            case b"MSG":
                self._head = _head(rest, has_headers=False)
                return None
            case b"HMSG":
                self._head = _head(rest, has_headers=True)
                return None
            case b"PING":
                return Ping()
            case b"PONG":
                return Pong()
            case b"INFO":
                return Info(_json(rest))
            case b"-ERR":
                return ServerError(rest.decode("utf-8", "replace").strip().strip("'"))
            case b"+OK":
                return _Ok()
        raise NatsProtocolError(f"it sent {line[:40]!r}, which is no operation of its protocol")

    def _message(self) -> Message | None:
        assert self._head is not None  # its line came
        subject, reply, headers, size = self._head
        if len(self._buffer) < size + 2:
            return None
        body = bytes(self._buffer[:size])
        if self._buffer[size : size + 2] != b"\r\n":
            raise NatsProtocolError("a message does not end where it should")
        del self._buffer[: size + 2]
        self._head = None
        if not headers:
            return Message(subject, reply, body)
        return Message(subject, reply, body[headers:], *_headers(body[:headers]))


class _Ok:
    """An answer of a verbose server, which nothing waits for."""


def _head(rest: bytes, *, has_headers: bool) -> tuple[str, str, int, int]:
    """Subject, reply and sizes: `subject sid [reply] [headers] all`."""
    words = rest.split()
    numbers = 2 if has_headers else 1
    if len(words) - numbers not in (2, 3):
        raise NatsProtocolError(f"it sent a message with the head {rest[:80]!r}")
    try:
        sizes = [_number(word) for word in words[-numbers:]]
        subject = words[0].decode()
        reply = words[2].decode() if len(words) - numbers == 3 else ""
    except ValueError:
        raise NatsProtocolError(f"it sent a message with the head {rest[:80]!r}") from None
    headers = sizes[0] if has_headers else 0
    if not headers <= sizes[-1] <= LONGEST_MESSAGE:
        raise NatsProtocolError(f"it sent a message of {sizes[-1]} bytes, {headers} of them headers")
    return subject, reply, headers, sizes[-1]


def _number(word: bytes) -> int:
    """A number of bytes.  Raises ValueError: it is none, like the `+1` and `1_0` that `int` takes."""
    if not word.isdigit():
        raise ValueError(word)
    return int(word)


def _headers(block: bytes) -> tuple[dict[str, str], int, str]:
    """Headers, status and description of a block: `NATS/1.0[ status[ description]]`, and a line for each header."""
    first, *lines = block.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if version != _VERSION:
        raise NatsProtocolError(f"headers begin with {first[:40]!r}")
    status, _, description = rest.strip().partition(b" ")
    if status and not (status.isdigit() and len(status) == 3):
        raise NatsProtocolError(f"headers have the status {status[:40]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.decode("utf-8", "replace")] = value.strip().decode("utf-8", "replace")
    return headers, int(status or 0), description.decode("utf-8", "replace")


def _json(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise NatsProtocolError(f"it sent INFO {text[:40]!r}, which is no JSON object")
    return values


def connect(values: Mapping[str, object]) -> bytes:
    """CONNECT."""
    return b"CONNECT %s\r\n" % json.dumps(values).encode()


def subscribe(subject: str, sid: int) -> bytes:
    """SUB."""
    return f"SUB {subject} {sid}\r\n".encode()


def publish(subject: str, reply: str, payload: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """PUB, or HPUB if there are headers.  Their names and values have no line breaks."""
    if not headers:
        return b"".join((f"PUB {subject} {reply} {len(payload)}\r\n".encode(), payload, b"\r\n"))
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    block = f"NATS/1.0\r\n{lines}\r\n".encode()
    head = f"HPUB {subject} {reply} {len(block)} {len(block) + len(payload)}\r\n".encode()
    return b"".join((head, block, payload, b"\r\n"))


PING = b"PING\r\n"
PONG = b"PONG\r\n"
