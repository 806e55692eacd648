"""Schedules: the moments at which a message is sent again and again.

    AMQ_SCHEDULED_CRON      moments of a calendar, in a time zone
    AMQ_SCHEDULED_DELAY     milliseconds behind the SEND, or behind each moment of the calendar
    AMQ_SCHEDULED_PERIOD    milliseconds between repetitions
    AMQ_SCHEDULED_REPEAT    repetitions behind the first message; -1: for ever

As in ActiveMQ, with a calendar and repetitions each moment begins a row of them; without a delay and a calendar the
first message comes a period behind the SEND.

What was missed, because no gateway ran, comes once: the next message is the first one whose moment is not over.

The calendar is that of cronsim: five fields, as Debian's cron reads them.  A moment that a change to summer time leaves
out comes when the clock has jumped; one that a change to winter time brings twice comes at its first time only, but for
fields with `*` or a step, which go on by the hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FOR_EVER = -1


class Moment(NamedTuple):
    """The next message of a schedule."""

    start: float  # of its row of repetitions, seconds since the epoch
    sent: int  # messages of the row before it
    due: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a message is sent.  All times are in seconds."""

    cron: str = ""  # empty: one row of repetitions
    timezone: str = "UTC"  # of the calendar, an IANA name
    delay: float = 0.0
    period: float = 0.0
    repeat: int = 0

    @classmethod
    def from_store(cls, facts: Mapping[str, Any]) -> Schedule:
        return cls(**facts)

    def stored(self) -> dict[str, object]:
        return asdict(self)

    def first(self, now: float) -> Moment | None:
        """The first message of a SEND at that moment; None: the calendar never comes to it."""
        if self.cron:
            return self._begin(now)
        return Moment(now, 0, now + (self.delay or self.period))

    def after(self, last: Moment, now: float) -> Moment | None:
        """The message behind the last one whose moment is not over at `now`; None: there is none."""
        count = last.sent + 1
        if self.period:
            # A whole row may be over: the gateway did not run.
            count = max(count, last.sent + math.ceil((now - last.due) / self.period))
        if self.repeat == FOR_EVER or count <= self.repeat:
            return Moment(last.start, count, last.due + (count - last.sent) * self.period)
        return self._begin(max(now, last.start)) if self.cron else None

    def _begin(self, now: float) -> Moment | None:
        start = next_moment(self.cron, self.timezone, now)
        return None if start is None else Moment(start, 0, start + self.delay)

    def __str__(self) -> str:
        parts = [f"{self.cron} {self.timezone}"] if self.cron else []
        if self.repeat:
            times = "for ever" if self.repeat == FOR_EVER else f"{self.repeat} times more"
            parts.append(f"every {self.period:g} s, {times}")
        return ", ".join(parts)


def next_moment(cron: str, timezone: str, now: float) -> float | None:
    """The first moment of a calendar behind `now`, in seconds since the epoch; None: there is none in 50 years.

    Raises ValueError: the text is no calendar, or there is no such time zone; `str()` says which.
    """
    if len(cron.split()) != 5:
        raise ValueError(f"a calendar has five fields (minute hour day month weekday), not {len(cron.split())}")
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {timezone[:80]!r}: name one like Europe/Berlin") from None
    try:
        moment = next(CronSim(cron, datetime.fromtimestamp(now, UTC).astimezone(zone)), None)
    except CronSimError as error:
        raise ValueError(str(error).lower()) from None
    return None if moment is None else moment.timestamp()
