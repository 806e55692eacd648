"""What a client may do wrong beyond the grammar.

All of them are `ProtocolError`s: `Session.fail` is the one place that makes an ERROR frame of one, and the connection
ends behind it.
"""

from __future__ import annotations

from gateway.codec import V10, VERSIONS, Frame, ProtocolError, Version, encoder


class HeaderMissing(ProtocolError):
    """A frame lacks a header that its command requires."""

    def __init__(self, command: str, header: str) -> None:
        super().__init__(f"{command} needs the header {header}", f"the {command} frame has no {header!r} header")


class NotAllowed(ProtocolError):
    """The frame makes no sense in this session: unknown command, unknown id, an id in use, a limit reached."""


class LoginRefused(ProtocolError):
    """The credentials were refused; never says which half was wrong."""

    def __init__(self) -> None:
        super().__init__("login refused", "login and passcode do not belong to a user of this server")


class VersionRefused(ProtocolError):
    """No common version; the ERROR lists the server's (NEG-04)."""


class SlowConsumer(ProtocolError):
    """The client takes its messages too slowly, and its buffer is full."""


class SessionEnded(ProtocolError):
    """An operator, or the shutdown of the server, ends the session.

    Args:
        retry_after: milliseconds after which the client should come back; None where it should not.
    """

    def __init__(self, message: str, detail: str = "", retry_after: int | None = None) -> None:
        super().__init__(message, detail)
        self.retry_after = retry_after


def error_frame(error: ProtocolError, frame: Frame | None, version: Version = V10) -> bytes:
    """The ERROR frame of an error; before the session exists it is written as 1.0 has it, which all versions read."""
    headers = {"message": str(error)}
    if frame is not None and "receipt" in frame.headers:
        headers["receipt-id"] = frame.headers["receipt"]
    if isinstance(error, VersionRefused):
        headers["version"] = ",".join(each.name for each in VERSIONS)
    if isinstance(error, SessionEnded) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    body = error.detail.encode()
    if body:
        headers["content-type"] = "text/plain;charset=utf-8"
    return encoder.frame("ERROR", headers, body, version=version)
