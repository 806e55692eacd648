"""What can be wrong with the octets of a peer.

Every error carries what the peer may read: `str(error)` becomes the `message` header of the ERROR frame, `detail` its
body.  Neither ever holds a stack trace or anything of the server's inside.
"""

from __future__ import annotations

from typing import ClassVar


class ProtocolError(Exception):
    """The peer broke the protocol; the connection ends with one ERROR frame.

    Attributes:
        cause: the word by which metrics count it; of this class itself: a fault of the server.

    Args:
        message: one short sentence, for the `message` header.
        detail: what was found and what would be right, for the body.
    """

    cause: ClassVar[str] = "internal"

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class MalformedFrame(ProtocolError):
    """The octets are no frame of the session's version (STOMP 1.2, Augmented BNF)."""

    cause = "malformed"


class LimitExceeded(ProtocolError):
    """The frame is larger than a limit (STOMP 1.2, Size Limits)."""

    cause = "too-large"
