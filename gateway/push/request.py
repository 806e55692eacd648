"""Request that a message becomes, and the meaning of its answer.

    body                the body, byte for byte
    content-type        kept
    webhook-...         id, time and signature (`signature.py`)
    traceparent, tracestate   kept
    stomp-NAME          each other header NAME of the message, also destination, message-id and redelivered

Header names that HTTP does not know as tokens are left out.  In values, control characters, bytes beyond ASCII and the
percent sign are percent-encoded, so that no value can begin a header of its own.

    2xx                     TAKEN       acknowledge
    4xx, but 408, 425, 429  REFUSED     a dead letter: another attempt would get the same answer
    429, 503 with Retry-After           LATER: the endpoint names the time
    anything else           FAILED      again, later; also 3xx, because redirects are not followed
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from urllib.parse import quote

from gateway.client.messages import Message

from .signature import sign, webhook_id

LONGEST_RETRY = 3600.0  # seconds of Retry-After that count
_MOST_REASON = 120
_PASSING = frozenset([408, 425, 429])
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = "".join([chr(code) for code in range(0x20, 0x7F) if chr(code) != "%"])
_KEPT = ("content-type", "traceparent", "tracestate")
# Of the delivery, or of the request itself.
_LEFT_OUT = frozenset(["ack", "subscription", "content-length", "receipt", "transaction", *_KEPT])
# Other servers give a redelivered message another `message-id`.
_IDS = ("dedup-id", "amqp-message-id", "message-id")


class Verdict(Enum):
    TAKEN = "taken"
    REFUSED = "refused"
    FAILED = "failed"
    LATER = "later"
    AWAY = "away"  # there was no connection, so the message cannot be the reason


@dataclass(frozen=True)
class Answer:
    """What came of a request.  `reason`: a sentence.  `retry_after`: seconds; 0: the endpoint names none."""

    verdict: Verdict
    reason: str = ""
    retry_after: float = 0.0


def id_of(message: Message, *, is_ours: bool) -> str:
    """The `webhook-id`: the same for each delivery of a message.  `is_ours`: the server is a gateway."""
    # At the gateway the message-id is stable, and another message may have the same `dedup-id` after `dedup_window`.
    names = _IDS[-1:] if is_ours else _IDS
    return webhook_id(next((message.headers[name] for name in names if name in message.headers), ""))


def headers_of(
    message: Message, secrets: tuple[bytes, ...], more: Mapping[str, str], now: int, *, is_ours: bool
) -> list[tuple[bytes, bytes]]:
    """The headers of the request, without `Host` and `Content-Length`.

    `more`: of the settings; they come last.  `now`: seconds since the epoch.
    """
    given = message.headers
    found = {"user-agent": "stomp-gateway"}
    found |= {name: _encoded(given[name]) for name in _KEPT if given.get(name)}
    found |= sign(secrets, id_of(message, is_ours=is_ours), now, message.body)
    found |= {
        f"stomp-{name}": _encoded(value)
        for name, value in given.items()
        if name not in _LEFT_OUT and _TOKEN.fullmatch(name)
    }
    own = {name.lower() for name in more}
    pairs = [*((name, value) for name, value in found.items() if name not in own), *more.items()]
    return [(name.encode(), value.encode()) for name, value in pairs]


def _encoded(value: str) -> str:
    text = quote(value, safe=_PLAIN)
    # HTTP has no blanks at both ends of a value.
    stripped = text.strip(" ")
    if stripped == text:
        return text
    before = len(text) - len(text.lstrip(" "))
    return "%20" * before + stripped + "%20" * (len(text) - len(stripped) - before)


def read_answer(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """The meaning of an answer.  `headers`: names in lower case.  `body`: its beginning."""
    if 200 <= status < 300:
        return Answer(Verdict.TAKEN)
    said = " ".join(body.decode(errors="replace").split())
    text = "".join([char if char.isprintable() else "?" for char in said])[:_MOST_REASON]
    is_text = headers.get("content-type", "").startswith(("text/plain", "application/json", "application/problem"))
    reason = f"the endpoint answered {status}" + (f": {text}" if is_text and text else "")
    if 300 <= status < 400:
        return Answer(Verdict.FAILED, f"{reason}, and redirects are not followed")
    if status in (429, 503) and (seconds := retry_after(headers.get("retry-after", ""))):
        return Answer(Verdict.LATER, reason, seconds)
    if 400 <= status < 500 and status not in _PASSING:
        return Answer(Verdict.REFUSED, reason)
    return Answer(Verdict.FAILED, reason)


def retry_after(text: str) -> float:
    """Seconds that the header Retry-After asks for; 0: none."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), LONGEST_RETRY)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, moment - time.time()), LONGEST_RETRY)
