"""Rows of the admin API: messages that wait in queues, and the content of any message."""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import Mapping

from ..core.context import Context
from ..model.message import DEAD_LETTER, Message

SECRETS = frozenset(["passcode", "authorization", "token", "x-token", "access-token", "cookie", "set-cookie"])
"""Headers, in lower case, whose values are hidden from operators."""
HIDDEN = "(hidden)"


def id_of(number: int) -> str:
    """The id of the message of that number."""
    return f"{Message.run.decode()}-{number}"


def of_message(context: Context, name: str, message: Message, most: int) -> dict[str, object]:
    """A message of the destination `name`.  `most`: bytes of the body, and characters of the headers."""
    now, headers = context.scheduler.epoch(), message.head.headers
    # By the recorder's clock: without a recorder it is not known.
    age = context.records.age_of(message)
    return {
        "id": message.id.decode(),
        # As its sender wrote it, which for a user's queue or an alias is not the queue's name.
        "destination": headers.get("destination", name)[:most],
        "size": len(message.body),
        "priority": message.options.priority,
        # From the broker's clock, which begins anywhere, to that of the operator.
        "expires": now + message.expires - context.scheduler.clock() if message.expires else None,
        "sent": None if age is None else now - age,
        "deliveries": message.attempts,
        "redelivered": message.attempts > 0,
        "dead_letter": _of_dead_letter(message, most),
    } | of_content(headers, message.body, most)


def of_content(headers: Mapping[str, str], body: bytes, most: int) -> dict[str, object]:
    """Headers and body, and whether they are cut.  `most`: bytes of the body, and characters of the headers."""
    # Cut here and not in the page: a page of whole messages would not fit into memory.
    shown = _some(headers, most)
    return {
        "headers": {name: HIDDEN if name.lower() in SECRETS else value for name, value in shown.items()},
        "truncated": len(body) > most or len(shown) < len(headers),
    } | of_body(body[:most], len(body) > most)


def _some(headers: Mapping[str, str], most: int) -> dict[str, str]:
    """The headers that fit into so many characters."""
    shown = {}
    for name, value in headers.items():
        # Whole ones only, for half a value misleads; one that does not fit leaves the room to the next.
        if len(name) + len(value) <= most:
            shown[name] = value
            most -= len(name) + len(value)
    return shown


def _of_dead_letter(message: Message, most: int) -> dict[str, object] | None:
    # The mark, and not a header: it says that the broker wrote all of those below, so they are there and well-formed.
    if message.head.derived is not DEAD_LETTER:
        return None
    headers = message.head.headers
    return {
        "destination": headers["original-destination"][:most],
        "source": headers["dlq-source"][:most],
        "reason": headers["dlq-reason"],
        "failures": int(headers["dlq-attempts"]),
        "first_at": int(headers["dlq-first-at"]) / 1000,
    }


def of_body(shown: bytes, is_cut: bool) -> dict[str, object]:
    """The body as text, or as base64 where it is no UTF-8."""
    try:
        # Incremental: where the body is cut, half a character at its end is left out and is no error.
        text, encoding = codecs.getincrementaldecoder("utf-8")().decode(shown, final=not is_cut), "utf-8"
    except UnicodeDecodeError:
        text, encoding = b64encode(shown).decode(), "base64"
    return {"body": text, "body_encoding": encoding}
