"""CONNECT: the checked first frame of a client, and the arithmetic of heart-beats.

Pure functions: authentication is elsewhere, and times are handed in.  With `heart-beat:cx,cy` from the client and
`sx,sy` from the server, all in milliseconds (STOMP 1.2, Heart-beating):

    server sends     every MAX(sx, cy), if neither is 0
    client sends     every MAX(cx, sy), if neither is 0
"""

from dataclasses import dataclass, field

from gateway.codec import VERSIONS, Frame, MalformedFrame, Version, negotiate

from ..errors import NotAllowed, VersionRefused

_OPENING = ("CONNECT", "STOMP")


@dataclass(frozen=True, slots=True)
class Opening:
    """Contents of a CONNECT or STOMP frame."""

    version: Version  # the highest common one
    heart_beat: tuple[int, int]  # (cx, cy) in milliseconds; 0,0 in 1.0
    login: str | None  # the claimed user name, or None
    passcode: str | None = field(repr=False)  # or None; never logged
    # the header `Authorization`, as in HTTP; empty: none; never logged
    authorization: str = field(default="", repr=False)
    host: str | None = None  # the requested virtual host; any is accepted (CON-04, CON-10)
    client_id: str = ""  # identifies the client when it connects again; empty: none


def read_opening(frame: Frame) -> Opening:
    """Read and check the first frame.

    Raises NotAllowed: the command is neither CONNECT nor STOMP (SES-01); VersionRefused: no common version (NEG-04);
    MalformedFrame: the heart-beat header is malformed (HBT-10).
    """
    if frame.command not in _OPENING:
        raise NotAllowed("not connected", f"the first frame must be CONNECT or STOMP; it is {frame.command[:40]!r}")
    headers = frame.headers
    version = negotiate(headers.get("accept-version"))
    if version is None:
        raise VersionRefused("no common version", f"this server speaks {' '.join(each.name for each in VERSIONS)}")
    login = headers.get("login")
    if login is None and version.lenient:
        login = headers.get("username")  # LEN-11: old clients of 1.0 send that
    return Opening(
        version=version,
        # 1.0 has no heart-beats, so whatever the header holds is no mistake there.
        heart_beat=parse_heart_beat(headers.get("heart-beat")) if version.heartbeats else (0, 0),
        login=login,
        passcode=headers.get("passcode"),
        authorization=headers.get("Authorization") or headers.get("authorization", ""),
        host=headers.get("host"),
        client_id=headers.get("client-id", ""),
    )


def parse_heart_beat(value: str | None) -> tuple[int, int]:
    """(cx, cy) of the client; without the header 0,0 (HBT-02).  Raises MalformedFrame: it is malformed (HBT-10)."""
    if value is None:
        return 0, 0
    cx, comma, cy = value.partition(",")
    if not comma or not _is_milliseconds(cx) or not _is_milliseconds(cy):
        raise MalformedFrame(
            "malformed heart-beat header",
            f"{value[:40]!r} is not two numbers of milliseconds; write them like 10000,10000",
        )
    return int(cx), int(cy)


def _is_milliseconds(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def beat_interval(ours: int, theirs: int) -> float:
    """Seconds between heart-beats in one direction; 0: none."""
    return max(ours, theirs) / 1000 if ours and theirs else 0.0


def send_early(seconds: float) -> float:
    """Seconds after which to send our heart-beat: before the interval ends, for some clients tolerate 100 ms only."""
    # HBT-07: timers and networks are late, so the margin grows with the interval, up to a second.
    return seconds - min(seconds * 0.25, 1.0)
