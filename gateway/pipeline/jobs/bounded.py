"""Bounded snapshots: lists that fit into so many bytes of JSON, and how much was left out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

SIZE = 2 * 1024 * 1024
"""Bytes of a snapshot, as JSON.  Its lists get half of them, and everything else needs less than the other half."""

MOST_TEXT = 256  # characters of a text that a client chose


def fitting(items: Iterable[dict[str, Any]], count: int, size: int) -> tuple[list[dict[str, Any]], int]:
    """The first of `count` items, as many as fit into so many bytes of ASCII JSON, and how many more there are."""
    fit: list[dict[str, Any]] = []
    for item in items:
        size -= len(json.dumps(item)) + 2
        if size < 0:
            break
        fit.append(item)
    return fit, count - len(fit)


def recent(table: pyarrow.Table, column: str, now: datetime) -> pyarrow.Table:
    """The rows of the last day; a table without rows may have no columns, either."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not table.num_rows:
        return table
    start = pa.scalar(now - timedelta(days=1), pa.timestamp("us", "UTC"))
    return table.filter(pc.greater_equal(table[column], start))


def text(value: str | None) -> str | None:
    """A text, cut if it is too long."""
    return value if value is None or len(value) <= MOST_TEXT else value[: MOST_TEXT - 1] + "…"


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, with milliseconds unless it is a whole second."""
    moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
