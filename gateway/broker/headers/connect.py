"""The first frame: what a client asks for, checked.  Pure functions; who the client is, is asked elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.codec import VERSIONS, Frame, MalformedFrame, Version, negotiate

from ..errors import NotAllowed, VersionRefused

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
        heart_beat=parse_heart_beat(headers.get("heart-beat")) if version.heartbeats else (0, 0),
        login=login,
        passcode=headers.get("passcode"),
        authorization=headers.get("Authorization") or headers.get("authorization", ""),
        host=headers.get("host"),
        client_id=headers.get("client-id", ""),
    )


def parse_heart_beat(value: str | None) -> tuple[int, int]:
    """The client's (cx, cy); a missing header is 0,0 (HBT-02).

    Raises:
        MalformedFrame: not two non-negative integers with a comma between (HBT-10).
    """
    if value is None:
        return 0, 0
    cx, comma, cy = value.partition(",")
    if not comma or not _is_milliseconds(cx) or not _is_milliseconds(cy):
        raise MalformedFrame(
            "malformed heart-beat header", f"{value[:40]!r} is not two numbers of milliseconds, like 10000,10000"
        )
    return int(cx), int(cy)


def _is_milliseconds(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def beat_interval(ours: int, theirs: int) -> float:
    """Seconds between beats in one direction; 0 means none are due."""
    return max(ours, theirs) / 1000 if ours and theirs else 0.0


def send_early(seconds: float) -> float:
    """When to send our beat: so early before the end of the interval that a late timer does not matter."""
    return seconds - min(seconds * 0.25, 1.0)
