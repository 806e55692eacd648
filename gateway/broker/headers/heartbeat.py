"""The arithmetic of heart-beating (STOMP 1.2, Heart-beating).  No timers here: times are handed in.

With `heart-beat:cx,cy` from the client and `sx,sy` from the server, all in milliseconds:

    server sends     every MAX(sx, cy), if neither is 0
    client sends     every MAX(cx, sy), if neither is 0

We send a little before the interval is over, because some clients allow 100 ms only, and wait for more than one
interval of the client's, because timers and networks are late (HBT-07).
"""

from __future__ import annotations

from gateway.codec import MalformedFrame


def parse(value: str | None) -> tuple[int, int]:
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


def interval(ours: int, theirs: int) -> float:
    """Seconds between beats in one direction; 0 means none are due."""
    return max(ours, theirs) / 1000 if ours and theirs else 0.0


def send_early(seconds: float) -> float:
    """When to send our beat: so early before the end of the interval that a late timer does not matter."""
    return seconds - min(seconds * 0.25, 1.0)
