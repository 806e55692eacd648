"""Time steps: how a report divides its span, and the part of a span that has rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.archive import history

from .. import errors

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STEPS = (
    *(seconds * SECOND for seconds in (1, 5, 15)),
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY),
)
MOST_STEPS = 180  # as many points as a chart can show
# A shorter span is cut to the second, a longer one to the minute: up to here steps are shorter than a minute.
_SHORT = 45 * MINUTE


def step_of(span: timedelta) -> timedelta:
    """The shortest step that divides a span into at most `MOST_STEPS`."""
    return next((step for step in STEPS if span <= step * MOST_STEPS), STEPS[-1])


def floor(when: datetime, step: timedelta) -> datetime:
    """The start of the step that a moment is in; steps are counted from 1970 on."""
    return EPOCH + (when - EPOCH) // step * step


def steps(since: datetime, until: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """The steps of [since, until); the first and the last are cut to it."""
    start = floor(since, step)
    while start < until:
        yield max(start, since), min(start + step, until)
        start += step


def fitted(archive: Path, since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The part of a span that has rows, by the Parquet files' statistics; the whole span if there are none."""
    import pyarrow.parquet as pq

    first, last = until, since
    for path in history.files(archive, since, until):
        with errors.named(path, errors.of_archive(path)):
            metadata = pq.read_metadata(path)
        place = metadata.schema.names.index("ts")
        for number in range(metadata.num_row_groups):
            known = metadata.row_group(number).column(place).statistics
            if known is None or not known.has_min_max:
                return since, until
            first, last = min(first, known.min.astimezone(UTC)), max(last, known.max.astimezone(UTC))
    first, last = max(first, since), min(last, until)
    if first > last:
        return since, until
    to = SECOND if last - first < _SHORT else MINUTE
    return max(floor(first, to), since), min(floor(last, to) + to, until)
