"""Frames of the server to octets.

A MESSAGE is written in two parts, so that one message to many receivers is encoded once per form:

    MESSAGE                    \\
    subscription:0              | `message_prefix`: per subscription (and, with `ack`, per delivery)
    ack:0.7                    /
    destination:/topic/a       \\
    (headers of the SEND)       |
    message-id:...              | `message`: shared by all receivers of one form
    content-length:5            |
                                |
    hello NUL (LF)             /

Header order is free, and the first entry of a name counts: what the server says stands before, or replaces, what a
sender may have put there (MSG-06).

On a stream each frame ends in NUL and LF: RabbitMQ and ActiveMQ write that LF, the grammar has room for it, and there
are clients that wait for it (the stomp extension of PHP).  In a WebSocket message it is the NUL alone: stompjs takes an
LF behind it for a heart-beat.  So what is shared comes in six forms, of which a message has those that it is sent in.
"""

from __future__ import annotations

from .frame import Head
from .headers import format_lines
from .versions import VERSIONS, Version

# Headers of a SEND that end with it: they steer the sender's session, or the server sets them itself on MESSAGE.
_NOT_PASSED_ON = frozenset(
    "ack content-length delivery-count message-id receipt redelivered subscription transaction".split()
)

BROKER_HEADERS = frozenset(
    "browser dlq-attempts dlq-first-at dlq-reason dlq-source first-seq gap original-destination receipt-id retained "
    "seq".split()
)
"""Headers that only the broker writes; it takes them out of a SEND, by exactly these names."""
# What no sender may seem to have written; the broker itself looks after those of exactly these names.
_TRUSTED = _NOT_PASSED_ON | {"destination", "user-id", "JMSXUserID"} | BROKER_HEADERS
_TRUSTED_IN_10 = frozenset(name.lower() for name in _TRUSTED)
# All that Python or JavaScript takes for space.
_SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

END = b"\0\n"
END_IN_A_MESSAGE = b"\0"
FORMS = tuple((version, end) for end in (END, END_IN_A_MESSAGE) for version in VERSIONS)
"""Version and end of a frame: all that a MESSAGE depends on besides its content."""


class Binary(bytes):
    """Octets of a frame that is not valid UTF-8: over WebSocket it travels in a binary message (WST-06)."""

    __slots__ = ()


def frame(command: str, headers: dict[str, str], body: bytes = b"", *, version: Version, end: bytes = END) -> bytes:
    """One whole frame: RECEIPT and ERROR.  CONNECTED has a function of its own because it is never escaped."""
    text = f"{command}\n{format_lines(headers, version)}"
    if body:
        text += f"content-length:{len(body)}\n"
    return b"%b\n%b%b" % (text.encode(), body, end)


def connected(headers: dict[str, str], end: bytes = END) -> bytes:
    """A CONNECTED frame, unescaped (ENC-06).

    The values are the server's own; it is the caller's duty that none holds a line break.
    """
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    return f"CONNECTED\n{lines}\n".encode() + end


def receipt(receipt_id: str, version: Version, end: bytes = END) -> bytes:
    """A RECEIPT frame (RCP-01)."""
    if "\\" in receipt_id or ":" in receipt_id or "\n" in receipt_id or "\r" in receipt_id or version.lenient:
        return frame("RECEIPT", {"receipt-id": receipt_id}, version=version, end=end)
    return f"RECEIPT\nreceipt-id:{receipt_id}\n\n".encode() + end


def message_prefix(subscription: str | None, version: Version) -> bytes:
    """The start of each MESSAGE of a subscription; without the header where a 1.0 client gave no id (MSG-03)."""
    lines = "" if subscription is None else format_lines({"subscription": subscription}, version)
    return f"MESSAGE\n{lines}".encode()


def message(head: Head, message_id: bytes, body: bytes, version: Version, end: bytes = END) -> bytes:
    """What all receivers of one form share of a MESSAGE: headers of the SEND, message-id, body and end.

    Returns:
        The octets, as `Binary` where they are not UTF-8.
    """
    encoded = head.encoded
    lines = encoded[version.index] if encoded is not None else None
    if lines is None:
        lines = _passed_on(head, version)
    octets = b"%bmessage-id:%b\ncontent-length:%d\n\n%b%b" % (lines, message_id, len(body), body, end)
    if body.isascii():
        return octets
    try:
        body.decode()
    except UnicodeDecodeError:
        return Binary(octets)
    return octets


def _is_cut(name: str, version: Version) -> bool:
    """Whether a header of a SEND ends with it.

    Clients trim names, stompjs in every version, and those of 1.0 may read them in any case: to them `seq ` would be
    the broker's `seq`, and a `Content-Length` would cut the frame where its sender likes.
    """
    if name in _TRUSTED:
        return name in _NOT_PASSED_ON
    read = name.strip(_SPACES)
    return read.lower() in _TRUSTED_IN_10 if version.lenient else read != name and read in _TRUSTED


def _passed_on(head: Head, version: Version) -> bytes:
    """The header lines of a SEND that its MESSAGE repeats; kept in the head, because equal SENDs share it."""
    headers = {name: value for name, value in head.headers.items() if not _is_cut(name, version)}
    if version.lenient and "destination" in headers:
        headers = {"destination": headers["destination"], **headers}
    lines = format_lines(headers, version).encode()
    if head.encoded is None:
        head.encoded = [None] * len(VERSIONS)
    head.encoded[version.index] = lines
    return lines
