"""How fast a session may send: frames and octets in a second, on average.

A bucket holds what may be sent at once, a second's worth; it fills as time goes by, and each chunk takes out what it
had.  A chunk is handled whole, so a bucket may go into debt; then the client is not read until that is paid.  So the
limit costs two subtractions a chunk, and a frame nothing.
"""

from __future__ import annotations

FRAMES, OCTETS = "max_frames_per_second", "max_octets_per_second"
"""What a client is held for is called as the setting."""

# Octets of one read, at most and at least: a large one would be a debt of many seconds where little may be sent.
_LARGEST_READ = 64 * 1024
_SMALLEST_READ = 4 * 1024
# Seconds of the shortest wait: a client at its limit is not woken for each frame.
_SHORTEST = 0.05


class _Bucket:
    """What may be sent at once."""

    __slots__ = ("_at", "_level", "rate")

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self._level = float(rate)
        self._at = now

    def take(self, count: int, now: float) -> float:
        """Take so much out; returns the seconds until the debt is paid, 0 where there is none."""
        level = min(self._level + (now - self._at) * self.rate, self.rate) - count
        self._level, self._at = level, now
        return max(0.0, -level / self.rate)


class Pace:
    """The limits of one session.

    Attributes:
        read: octets of one read.
        until: trio's clock when it may be read again.
        reason: the setting that it is held by.
    """

    __slots__ = ("_frames", "_frames_before", "_octets", "read", "reason", "until")

    def __init__(self, frames: int, octets: int, now: float) -> None:
        self._frames = _Bucket(frames, now) if frames else None
        self._octets = _Bucket(octets, now) if octets else None
        self._frames_before = 0
        self.read = min(_LARGEST_READ, max(_SMALLEST_READ, octets // 4)) if octets else _LARGEST_READ
        self.until = now
        self.reason = ""

    def is_over(self, frames: int, octets: int, now: float) -> bool:
        """Whether the client has to wait behind a chunk.

        Args:
            frames: that the session has handled since its start.
            octets: of the chunk.
            now: trio's clock.
        """
        by_frames = self._frames.take(frames - self._frames_before, now) if self._frames is not None else 0.0
        by_octets = self._octets.take(octets, now) if self._octets is not None else 0.0
        self._frames_before = frames
        if not by_frames and not by_octets:
            return False
        self.reason = FRAMES if by_frames > by_octets else OCTETS
        self.until = now + max(by_frames, by_octets, _SHORTEST)
        return True


def pace_of(frames: int, octets: int, now: float) -> Pace | None:
    """The limits that the settings of those names have (0: none); None where they have none."""
    return Pace(frames, octets, now) if frames or octets else None
