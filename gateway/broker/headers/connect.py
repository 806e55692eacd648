"""The first frame: what a client asks for, checked.  Pure functions; who the client is, is asked elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.codec import VERSIONS, Frame, Version, negotiate

from ..errors import NotAllowed, VersionRefused
from . import heartbeat

_OPENING = ("CONNECT", "STOMP")


@dataclass(frozen=True, slots=True)
class Opening:
    """What a CONNECT or STOMP frame asks for.

    Attributes:
        version: the highest common one.
        heart_beat: (cx, cy) in milliseconds; 0,0 in 1.0.
        login: the user's name as claimed, or None.
        passcode: or None; never logged.
        host: the virtual host asked for; any is accepted (CON-04, CON-10).
        authorization: the header `Authorization`, as HTTP has it; empty: it has none; never logged.
        client_id: by what the client is known when it comes back; empty: none.
    """

    version: Version
    heart_beat: tuple[int, int]
    login: str | None
    passcode: str | None = field(repr=False)
    authorization: str = field(default="", repr=False)
    host: str | None = None
    client_id: str = ""


def read_opening(frame: Frame) -> Opening:
    """Check the first frame.

    Raises:
        NotAllowed: it is neither CONNECT nor STOMP (SES-01).
        VersionRefused: no common version (NEG-04).
        MalformedFrame: the heart-beat header is malformed (HBT-10).
    """
    if frame.command not in _OPENING:
        raise NotAllowed(
            "not connected", f"the first frame must be CONNECT or STOMP, and it was {frame.command[:40]!r}"
        )
    headers = frame.headers
    version = negotiate(headers.get("accept-version"))
    if version is None:
        raise VersionRefused("no common version", f"this server speaks {' '.join(each.name for each in VERSIONS)}")
    login = headers.get("login")
    if login is None and version.lenient:
        login = headers.get("username")  # LEN-11
    return Opening(
        version=version,
        heart_beat=heartbeat.parse(headers.get("heart-beat")) if version.heartbeats else (0, 0),
        login=login,
        passcode=headers.get("passcode"),
        authorization=headers.get("Authorization") or headers.get("authorization", ""),
        host=headers.get("host"),
        client_id=headers.get("client-id", ""),
    )
