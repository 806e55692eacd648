"""STOMP from the client's side: frames of a client to bytes, frames of the server back, strictly.

Written from the specification and apart from gateway/codec, so that a fault in there does not hide itself here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.codec import V10, V12, Version

_SERVER_COMMANDS = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")


@dataclass(frozen=True)
class Received:
    """A frame of the server; of repeated headers the first."""

    command: str
    headers: dict[str, str]
    body: bytes

    @property
    def subscription(self) -> str:
        return self.headers["subscription"]

    @property
    def message_id(self) -> str:
        return self.headers["message-id"]

    @property
    def redelivered(self) -> bool:
        return self.headers.get("redelivered") == "true"


def build(command: str, headers: dict[str, str], body: bytes = b"", *, version: Version) -> bytes:
    """A frame as a client of that version writes it."""
    lines = [f"{_escape(name, version)}:{_escape(value, version)}\n" for name, value in headers.items()]
    return f"{command}\n{''.join(lines)}\n".encode() + body + b"\0"


def parse(data: bytes, version: Version, end: bytes = b"\0\n") -> list[Received]:
    """The frames in what the server wrote: whole, with content-length wherever there is a body, and that end."""
    found = []
    while data:
        block, blank, rest = data.partition(b"\n\n")
        assert blank, data
        command, *lines = block.decode().split("\n")
        assert command in _SERVER_COMMANDS, block
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            assert name, block
            assert colon, block
            assert ":" not in value or version is V10, block
            headers.setdefault(_unescape(name, version), _unescape(value, version))
        size = int(headers.get("content-length", "0"))
        behind = size + len(end)
        assert rest[size:behind] == end, data
        found.append(Received(command, headers, rest[:size]))
        data = rest[behind:]
    return found


def _escape(text: str, version: Version) -> str:
    if version is V10:
        return text
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")
    return text.replace("\r", "\\r") if version is V12 else text


def _unescape(text: str, version: Version) -> str:
    if version is V10:
        return text
    meanings = {"\\\\": "\\", "\\n": "\n", "\\c": ":"} | ({"\\r": "\r"} if version is V12 else {})
    return re.sub(r"\\.?", lambda found: meanings[found.group()], text)
