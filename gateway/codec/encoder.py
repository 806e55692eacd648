"""Encoder: frames of the server to octets.

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

A form is a version and an end of frames; there are six, and a message is encoded in those that it is sent in.
"""

from .frame import Head
from .headers import format_lines
from .versions import VERSIONS, Version

NOT_PASSED_ON = frozenset(
    "ack content-length delivery-count message-id receipt redelivered subscription transaction".split()
)
"""Headers of a SEND that its MESSAGE does not have: they steer the sender's session, or the server sets its own."""

BROKER_HEADERS = frozenset(
    "browser dlq-attempts dlq-first-at dlq-reason dlq-source first-seq gap original-destination receipt-id retained "
    "seq".split()
)
"""Headers that only the broker writes; it removes them from a SEND, by exactly these names."""
# Names that a sender must not imitate; the broker itself removes those of exactly these names.
_TRUSTED = NOT_PASSED_ON | {"destination", "user-id", "JMSXUserID"} | BROKER_HEADERS
_TRUSTED_IN_10 = frozenset(name.lower() for name in _TRUSTED)
# All characters that Python or JavaScript trims.
_SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

# On a stream an LF follows the NUL: RabbitMQ and ActiveMQ write it, the grammar allows it, and there are clients that
# wait for it (the stomp extension of PHP).
END = b"\0\n"
# In a WebSocket message the NUL is the end: stompjs takes an LF behind it for a heart-beat.
END_IN_A_MESSAGE = b"\0"
FORMS = tuple((version, end) for end in (END, END_IN_A_MESSAGE) for version in VERSIONS)
"""Forms of a MESSAGE: version and end of frame."""


class Binary(bytes):
    """A frame that is not valid UTF-8: a WebSocket sends it as a binary message (WST-06)."""

    __slots__ = ()


def frame(command: str, headers: dict[str, str], body: bytes = b"", *, version: Version, end: bytes = END) -> bytes:
    """One whole frame, RECEIPT or ERROR."""
    text = f"{command}\n{format_lines(headers, version)}"
    if body:  # STOMP 1.2, content-length: frames with a body SHOULD have it (BOD-05), others need none
        text += f"content-length:{len(body)}\n"
    return b"%b\n%b%b" % (text.encode(), body, end)


def connected(headers: dict[str, str], end: bytes = END) -> bytes:
    """A CONNECTED frame; the caller makes sure that no value holds a line break."""
    # ENC-06: CONNECTED is never escaped, so that clients of 1.0 can read it.
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    return f"CONNECTED\n{lines}\n".encode() + end


def receipt(receipt_id: str, version: Version, end: bytes = END) -> bytes:
    """A RECEIPT frame (RCP-01)."""
    # Most ids need no escape; this is on the hot path of clients that ask for a receipt with each SEND.
    if "\\" in receipt_id or ":" in receipt_id or "\n" in receipt_id or "\r" in receipt_id or version.lenient:
        return frame("RECEIPT", {"receipt-id": receipt_id}, version=version, end=end)
    return f"RECEIPT\nreceipt-id:{receipt_id}\n\n".encode() + end


def message_prefix(subscription: str | None, version: Version) -> bytes:
    """Start of each MESSAGE of a subscription; without the header if a 1.0 client gave no id (MSG-03)."""
    # It comes first, so that it precedes a header of that name in the SEND: the first one counts (MSG-06, HDR-01).
    lines = "" if subscription is None else format_lines({"subscription": subscription}, version)
    return f"MESSAGE\n{lines}".encode()


def message(head: Head, message_id: bytes, body: bytes, version: Version, end: bytes = END) -> bytes:
    """Shared part of a MESSAGE of one form: headers of the SEND, message-id, body and end.

    Returns The octets, as `Binary` if they are not UTF-8.
    """
    encoded = head.encoded
    lines = encoded[version.index] if encoded is not None else None
    if lines is None:
        lines = _passed_on(head, version)
    # BOD-05, BOD-06: always with content-length, for the body may hold a NUL.
    octets = b"%bmessage-id:%b\ncontent-length:%d\n\n%b%b" % (lines, message_id, len(body), body, end)
    if body.isascii():
        return octets
    try:
        body.decode()
    except UnicodeDecodeError:
        return Binary(octets)
    return octets


def _is_cut(name: str, version: Version) -> bool:
    """True if the MESSAGE does not have this header of its SEND."""
    if name in _TRUSTED:
        return name in NOT_PASSED_ON
    # Clients trim names, stompjs in all versions, and those of 1.0 may ignore letter case.  They would take `seq ` for
    # the broker's `seq`, and a `Content-Length` of the sender would cut the frame.
    read = name.strip(_SPACES)
    return read.lower() in _TRUSTED_IN_10 if version.lenient else read != name and read in _TRUSTED


def _passed_on(head: Head, version: Version) -> bytes:
    """Header lines of a SEND that its MESSAGE repeats; kept in the head, because equal SENDs share it."""
    headers = {name: value for name, value in head.headers.items() if not _is_cut(name, version)}
    # In 1.0 a receiver may read `Destination` of the sender as `destination`: the real one comes first, and counts.
    if version.lenient and "destination" in headers:
        headers = {"destination": headers["destination"], **headers}
    lines = format_lines(headers, version).encode()
    if head.encoded is None:
        head.encoded = [None] * len(VERSIONS)
    head.encoded[version.index] = lines
    return lines
