"""Time ranges: the words of `--since` and `--until`.  All times are UTC, unless a time names its own zone.

now, today, yesterday       today and yesterday are their midnights
90s, 30m, 2h, 7d, 2w        so long before now
2026-11-21                  midnight
2026-11-21T14:30            also with seconds, with a blank for the T, with Z or +01:00 behind
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from .errors import UsageFailure

_AGO = re.compile(r"(\d{1,9})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_KNOWN = "now, today, yesterday, a time ago like 90m, 2h or 7d, or a moment like 2026-11-21 or 2026-11-21T14:30"


def moment(text: str, now: datetime) -> datetime:
    """The moment that a text names, in UTC; `now` has a zone.  `UsageFailure`: the text names no moment."""
    now = now.astimezone(UTC)
    words = {"now": now, "today": _midnight(now), "yesterday": _midnight(now) - timedelta(days=1)}
    word = text.strip().lower()
    if word in words:
        return words[word]
    try:
        if found := _AGO.fullmatch(word):
            return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
        told = datetime.fromisoformat(text.strip())
        return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageFailure(f"{text[:80]!r} is no moment; write {_KNOWN}") from None


def span(since: str, until: str, now: datetime) -> tuple[datetime, datetime]:
    """Two moments; the range includes the first.  `UsageFailure`: a text names none, or the range is empty."""
    begin, end = moment(since, now), moment(until, now)
    if begin >= end:
        raise UsageFailure(
            f"the range from {since!r}, {shown(begin)}, to {until!r}, {shown(end)}, is empty: --until must be later"
        )
    return begin, end


def is_fixed(text: str) -> bool:
    """True if a text names the same moment whenever it is read.  `UsageFailure`: the text names no moment."""
    early = datetime(2026, 1, 1, tzinfo=UTC)
    return moment(text, early) == moment(text, early + timedelta(days=1))


def shown(when: datetime) -> str:
    """A moment for people."""
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def _midnight(when: datetime) -> datetime:
    return when.replace(hour=0, minute=0, second=0, microsecond=0)
