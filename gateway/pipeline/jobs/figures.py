"""Figures of the table of `metrics`: counts, bytes and histograms of the whole, of each destination, of each time.

    queue   how long messages waited for their first delivery: rows of `delivered`
    ack     how long consumers took to acknowledge: rows of `acked`

The console's snapshot and the report use the same functions.  A histogram is bucket -> count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

EVENTS = ("accepted", "delivered", "redelivered", "acked", "nacked", "expired", "dead_lettered", "dropped")
"""The events that are counted."""

KINDS = {"queue": "delivered", "ack": "acked"}  # the event of each histogram
MINUTE = timedelta(minutes=1)

Histogram = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Figures:
    counts: Mapping[str, int]  # rows of each event; 0 if there was none
    body_bytes: Mapping[str, int]  # of the bodies of these rows
    queue: Histogram  # rows in each bucket; fewer than `counts` if a time is not known
    ack: Histogram


@dataclass(frozen=True, slots=True)
class Ranking:
    """Destinations, the busiest first."""

    top: list[tuple[str, Figures]]  # names and figures of the first
    others: int  # how many more there are
    rest: Figures  # the figures of these, all together


def figures(table: pyarrow.Table) -> Figures:
    """The figures of a table of `metrics`, which may have no columns, and rows that could be merged."""
    return _grouped(table, []).get((), add([]))


def by_destination(table: pyarrow.Table, most: int | None = None) -> Ranking:
    """The destinations with the most messages accepted, then delivered, then by name; `most` have their own figures."""
    import pyarrow.compute as pc

    if not table.num_rows:
        return Ranking([], 0, add([]))
    numbers: dict[str, dict[str, int]] = {}
    for (name, event), count, _ in _sums(table, ["destination", "event"]):
        numbers.setdefault(name, {})[event] = count
    names = sorted(numbers, key=lambda name: _rank(name, numbers[name]))
    top = names if most is None else names[:most]
    if len(top) == len(names):
        own, rest = table, table.slice(0, 0)
    else:
        chosen = pc.is_in(table["destination"], value_set=_strings(top))
        own, rest = table.filter(chosen), table.filter(pc.invert(chosen))
    found = _grouped(own, ["destination"])
    return Ranking([(name, found[(name,)]) for name in top], len(names) - len(top), figures(rest))


def by_time(table: pyarrow.Table, step: timedelta = MINUTE) -> list[tuple[datetime, Figures]]:
    """The pieces of time that have rows, in order: the start and the figures of each; `step` is in whole seconds."""
    found = _grouped(_slotted(table, step), ["slot"])
    return [(_moment(slot), found[(slot,)]) for (slot,) in sorted(found)]


def heat(table: pyarrow.Table, kind: str = "queue", step: timedelta = MINUTE) -> dict[datetime, dict[int, int]]:
    """The histogram of each piece of time, in order; `kind` is one of `KINDS`."""
    found = _histograms(_slotted(table, step), ["slot"], KINDS[kind])
    return {_moment(slot): found[(slot,)] for (slot,) in sorted(found)}


def add(several: Iterable[Figures]) -> Figures:
    counts, body_bytes = dict.fromkeys(EVENTS, 0), dict.fromkeys(EVENTS, 0)
    queue: dict[int, int] = {}
    ack: dict[int, int] = {}
    for each in several:
        for sums, more in ((counts, each.counts), (body_bytes, each.body_bytes)):
            for event, number in more.items():
                sums[event] += number
        for histogram, others in ((queue, each.queue), (ack, each.ack)):
            for bucket, number in others.items():
                histogram[bucket] = histogram.get(bucket, 0) + number
    return Figures(counts, body_bytes, queue, ack)


Key = tuple[Any, ...]


def _rank(name: str, counts: Mapping[str, int]) -> tuple[int, int, str]:
    return -counts.get("accepted", 0), -counts.get("delivered", 0), name


def _grouped(table: pyarrow.Table, by: list[str]) -> dict[Key, Figures]:
    """The figures of all rows with equal values in these columns."""
    counts: dict[Key, dict[str, int]] = {}
    sizes: dict[Key, dict[str, int]] = {}
    if not table.num_rows:
        return {}
    for (*values, event), count, size in _sums(table, [*by, "event"]):
        key = tuple(values)
        counts.setdefault(key, dict.fromkeys(EVENTS, 0))[event] = count
        sizes.setdefault(key, dict.fromkeys(EVENTS, 0))[event] = size
    queue, ack = [_histograms(table, by, event) for event in KINDS.values()]
    return {key: Figures(counts[key], sizes[key], queue.get(key, {}), ack.get(key, {})) for key in counts}


def _histograms(table: pyarrow.Table, by: list[str], event: str) -> dict[Key, dict[int, int]]:
    import pyarrow.compute as pc

    found: dict[Key, dict[int, int]] = {}
    if not table.num_rows:
        return found
    timed = table.filter(pc.and_(pc.equal(table["event"], event), pc.is_valid(table["bucket"])))
    for (*values, bucket), count, _ in _sums(timed, [*by, "bucket"]):
        found.setdefault(tuple(values), {})[bucket] = count
    return found


def _sums(table: pyarrow.Table, by: list[str]) -> Iterable[tuple[Key, int, int]]:
    """The values of columns, and the sums of counts and bytes of their rows."""
    sums = table.group_by(by).aggregate([("count", "sum"), ("octets", "sum")])
    keys = zip(*[sums[name].to_pylist() for name in by], strict=True)
    return zip(keys, sums["count_sum"].to_pylist(), sums["octets_sum"].to_pylist(), strict=True)


def _slotted(table: pyarrow.Table, step: timedelta) -> pyarrow.Table:
    """The table with a column `slot`: the second since 1970 at which the piece of time starts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not table.num_rows:
        return table
    number = pc.divide(pc.cast(pc.cast(table["minute"], pa.timestamp("us", "UTC")), pa.int64()), 1_000_000)
    seconds = step // timedelta(seconds=1)
    return table.append_column("slot", pc.multiply(pc.divide(number, seconds), seconds))


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _strings(names: list[str]) -> Any:
    import pyarrow as pa

    return pa.array(names, pa.string())
