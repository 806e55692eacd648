"""Errors of the wire: `str(error)` becomes the `message` header of the ERROR frame, `detail` its body.

The peer reads both, so neither holds a stack trace or internals of the server.
"""

from typing import ClassVar


class ProtocolError(Exception):
    """The peer broke the protocol; the connection ends with one ERROR frame.

    `message`: one short sentence, for the `message` header.  `detail`: what is wrong and what to do, for the body.
    """

    # the label of the error in metrics; that of this class stands for a fault of the server
    cause: ClassVar[str] = "internal"

    # ERR-01: a frame that cannot be carried out is answered by one ERROR, and the connection closes (STOMP 1.2, ERROR).
    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class MalformedFrame(ProtocolError):
    """The octets break the grammar of the session's version (STOMP 1.2, Augmented BNF)."""

    cause = "malformed"


class LimitExceeded(ProtocolError):
    """The frame is larger than a limit (STOMP 1.2, Size Limits)."""

    cause = "too-large"
