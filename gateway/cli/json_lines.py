"""Messages as lines of JSON, which `subscribe` writes and `send` reads:

    {"destination": "/queue/a", "headers": {"colour": "red"}, "body": "hello"}
    {"destination": "/queue/a", "headers": {}, "body": "AP8=", "body_encoding": "base64"}

A body that is not UTF-8 is written in base64.  Headers of the delivery are written, and left out when the line is sent.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

_OF_DELIVERY = frozenset(
    "ack content-length delivery-count destination message-id receipt redelivered subscription transaction".split()
)
_KEYS = frozenset({"destination", "headers", "body", "body_encoding"})


class BadLine(Exception):
    """A line is wrong; the text is one sentence."""


@dataclass(frozen=True)
class Line:
    """A message to send; `destination` may be ""."""

    destination: str
    headers: Mapping[str, str]
    body: bytes


def write(headers: Mapping[str, str], body: bytes) -> str:
    """A MESSAGE as a line, without its end."""
    others = {name: value for name, value in headers.items() if name not in ("destination", "content-length")}
    told: dict[str, object] = {"destination": headers.get("destination", ""), "headers": others}
    try:
        told["body"] = body.decode()
    except UnicodeDecodeError:
        told |= {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    return json.dumps(told, ensure_ascii=False)


def read(line: bytes) -> Line:
    """A line as a message.  Raises BadLine: the line is wrong."""
    try:
        told = json.loads(line)
    except ValueError:
        raise BadLine("it is not JSON") from None
    if not isinstance(told, dict):
        raise BadLine('it is not an object; write {"body": "..."}')
    if unknown := sorted(told.keys() - _KEYS):
        raise BadLine(f"{unknown[0][:80]!r} is unknown: keys are {', '.join(sorted(_KEYS))}")
    headers, destination = told.get("headers", {}), told.get("destination", "")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise BadLine("headers must be an object of strings")
    if not isinstance(destination, str):
        raise BadLine("destination must be a string")
    kept = {name: value for name, value in headers.items() if name not in _OF_DELIVERY}
    return Line(destination, kept, _body(told.get("body", ""), told.get("body_encoding", "utf-8")))


def _body(text: object, encoding: object) -> bytes:
    if not isinstance(text, str):
        raise BadLine("body must be a string")
    if encoding == "utf-8":
        return text.encode(errors="surrogatepass")
    if encoding != "base64":
        raise BadLine("body_encoding must be utf-8 or base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadLine("body is not base64") from None
