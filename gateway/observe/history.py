"""History: a sample of each minute of the last day, and its file, by which it outlives a restart.

    seconds of the sampler  --once a minute-->  one sample  -->  memory, and a line of the file

The file is JSON in lines, the names of the fields first, then the values of each minute.  It is written anew at the
start and once a day, and gets a line a minute in between, in a thread; without `fsync`, because a lost minute harms no
message.  A last line that a kill cut off is left out.  A file that cannot be understood is replaced.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import structlog
import trio

from gateway.observe.sampler import Second

log = structlog.get_logger("gateway.history")

MINUTE = 60
KEPT = 1_440  # samples: a day
RANGES = {"5m": (300, 1), "1h": (3_600, MINUTE), "24h": (86_400, 300)}
"""What can be asked for: seconds of the range, and between two points."""

# Bytes of a file of ours at most: twice as many lines as there are minutes, at some 150 bytes each.
_LONGEST_FILE = 4 << 20
# So many points in a row without a sample: the gateway was down.  Fewer seconds are jitter of the sampler.
_GAP = 3
_POINTS_A_TURN = 16  # 1 ms
_LONGEST_WRITE = 1.0  # seconds; then the disk hangs
_FIELDS = tuple([each.name for each in fields(Second)])
_LARGEST = frozenset(["sessions", "connections", "waiting", "octets", "memory", "lag_ms", "p99"])
_HEAD = {"minutes": 1, "fields": list(_FIELDS)}


def merged(samples: Sequence[Second], at: float) -> Second:
    """One sample of several: the means, but of what is there, of delays and of p99 the largest."""
    found: dict[str, float | None] = {}
    for name in _FIELDS:
        values = [value for each in samples if (value := getattr(each, name)) is not None]
        if not values:
            found[name] = None
        else:
            found[name] = max(values) if name in _LARGEST else round(math.fsum(values) / len(values), 3)
    return Second(**found | {"at": at})  # type: ignore[arg-type]


class History:
    """The samples.  `path`: the file; None: they end with the process."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.minutes: deque[Second] = deque(maxlen=KEPT)
        self._lines = 0  # in the file
        self._has_failed = False
        self._thread = trio.CapacityLimiter(1)

    def open(self) -> None:
        """Read the file, if there is one, and write it anew.  It blocks, some 10 ms."""
        if self.path is None:
            return
        try:
            for each in _read(self.path):
                self._append(each)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            self.minutes.clear()
            log.warning("the history begins anew", file=str(self.path), reason=str(error))
        self._write(list(self.minutes), anew=True)

    def _append(self, minute: Second) -> None:
        # The system's clock may be set back.
        while self.minutes and self.minutes[-1].at >= minute.at:
            self.minutes.pop()
        self.minutes.append(minute)

    async def add(self, minute: Second) -> None:
        """Keep the sample of the minute that has ended."""
        self._append(minute)
        if self.path is None:
            return
        if not self._thread.available_tokens:  # the disk hangs; once it works, the file is written anew
            self._lines = 2 * KEPT
            return
        anew = self._lines >= 2 * KEPT
        lines = list(self.minutes) if anew else [minute]
        with trio.move_on_after(_LONGEST_WRITE):
            await trio.to_thread.run_sync(
                lambda: self._write(lines, anew=anew), limiter=self._thread, abandon_on_cancel=True
            )

    def _write(self, minutes: list[Second], *, anew: bool) -> None:
        if self.path is None:
            return
        lines = [[getattr(each, name) for name in _FIELDS] for each in minutes]
        text = "".join([json.dumps(each) + "\n" for each in ([_HEAD, *lines] if anew else lines)])
        try:
            target = self.path.with_name(f"_{self.path.name}") if anew else self.path
            with open(target, "w" if anew else "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(text)
            if anew:
                target.replace(self.path)
                self._lines = 0
        except OSError as error:
            if not self._has_failed:
                log.warning("the history cannot be written", file=str(self.path), reason=str(error))
            self._has_failed = True
        else:
            self._has_failed = False
            self._lines += len(lines)

    async def table(self, name: str, seconds: Iterable[Second], now: float) -> dict[str, object]:
        """The points of a range, which fill it, and where they are missing; None: nothing is known of that time.

        `seconds`: the samples of the last minutes.  `now`: seconds since the epoch.
        """
        span, step = RANGES[name]
        end = math.floor(now)
        source: list[Second] = list(seconds)
        if step >= MINUTE:
            source = list(self.minutes)
            end = end // MINUTE * MINUTE
            if source and 0 <= end - source[-1].at <= MINUTE:  # the last minute is about to come
                end = int(source[-1].at)
        start = end - span
        bins: list[list[Second]] = [[] for _ in range(span // step)]
        for each in source:
            if start < each.at <= end:
                bins[math.ceil((each.at - start) / step) - 1].append(each)
        if step < MINUTE:
            self._fill(bins, start)
        at = [float(start + step * number) for number in range(1, len(bins) + 1)]
        points: list[Second | None] = []
        for number, found in enumerate(bins):
            if number % _POINTS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            points.append(found[0] if len(found) == 1 else merged(found, at[number]) if found else None)
        shown = [each for each in _FIELDS if each != "at"]
        return {
            "range": name,
            "step": step,
            "from": float(start),
            "to": float(end),
            "at": at,
            "series": {each: [None if point is None else getattr(point, each) for point in points] for each in shown},
            "gaps": _gaps([point is not None for point in points], at, step),
            "kept": self.path is not None,
        }

    def _fill(self, bins: list[list[Second]], start: int) -> None:
        """Fill points of one second: short gaps from the point before, and before a restart from the minutes."""
        minutes = {each.at: each for each in self.minutes}
        last = -_GAP
        for number, found in enumerate(bins):
            if found:
                if 0 < number - last < _GAP:
                    for missing in range(last + 1, number):
                        bins[missing] = bins[last]
                last = number
        for number, found in enumerate(bins):
            minute = minutes.get(float(math.ceil((start + number + 1) / MINUTE) * MINUTE))
            if not found and minute is not None:
                found.append(minute)


def _gaps(known: list[bool], at: list[float], step: int) -> list[dict[str, float]]:
    """The times between two points that are known where none is."""
    found = []
    numbers = [number for number, is_known in enumerate(known) if is_known]
    for before, after in itertools.pairwise(numbers):
        if after - before > 1:
            found.append({"from": at[before], "to": at[after] - step})
    return found


def _read(path: Path) -> list[Second]:
    """The samples of a file.  Raises OSError: it cannot be read; ValueError or TypeError: it is not one of ours."""
    with path.open("rb") as file:
        data = file.read(_LONGEST_FILE + 1)
    if len(data) > _LONGEST_FILE:
        raise ValueError(f"it is larger than {_LONGEST_FILE} bytes")
    head, *lines = data.split(b"\n")[:-1] or [b"{}"]  # behind the last line is nothing, or what a kill left
    if json.loads(head) != _HEAD:
        raise ValueError("it has other fields")
    found = []
    for line in lines:
        values = json.loads(line)
        at, *_ = values
        if at is None or not all(value is None or math.isfinite(value) for value in values):
            raise ValueError(f"a line is wrong: {line[:80]!r}")
        found.append(Second(*values))
    return found
