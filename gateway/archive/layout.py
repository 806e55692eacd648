"""Where the files of the archive are, and what their names say.

    ARCHIVE/raw/date=2026-11-21/hour=14/<gateway>-<epoch>-<first>-<last>.parquet
    ARCHIVE/history/date=2026-11-21/hour=14/<generation>-<part>.parquet, _manifest.json
    ARCHIVE/_locks/

A raw file holds the rows of one hour, UTC, out of the segments `first` to `last` of one start of a gateway.  So its
name says which rows are in it, whoever writes it, and however often.

What begins with `_` is not there, for Spark and for everybody else: a file is written under such a name, and has its
own when it is complete and on the disk.  The id of a gateway may begin with `_`, too; a hyphen, with which none begins,
stands in front of it then.

An hour is a number here: hours since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from gateway.files import HIDDEN

RAW = "raw"
HISTORY = "history"
LOCKS = "_locks"
ENDING = ".parquet"

_NAME = re.compile(r"-?(?P<gateway>[A-Za-z0-9_][A-Za-z0-9._-]*)-(?P<epoch>\d+)-(?P<first>\d+)-(?P<last>\d+)\.parquet")
_FOLDER = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)")
_START = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)

MICROSECONDS = 3_600_000_000
"""Of an hour."""


class Range(NamedTuple):
    """Segments of one start of a gateway, `first` to `last`, none of them missing."""

    gateway: str
    epoch: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """Of the raw files that hold its rows."""
        front = "-" if self.gateway.startswith(HIDDEN) else ""
        return f"{front}{self.gateway}-{self.epoch:016d}-{self.first:08d}-{self.last:08d}{ENDING}"


def range_of(name: str) -> Range | None:
    """What the name of a raw file says; None: it is not the name of one, or the file is not complete."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    found = Range(match["gateway"], int(match["epoch"]), int(match["first"]), int(match["last"]))
    return found if found.name == name else None


def is_gateway(name: str) -> bool:
    """Whether a gateway may have that id."""
    return range_of(Range(name, 0, 1, 1).name) is not None


def hour_at(moment: datetime) -> int:
    """The hour that a moment is in.

    Raises:
        ValueError: the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} needs a time zone")
    return (moment - _START) // _HOUR


def start_of(hour: int) -> datetime:
    """When an hour begins."""
    return _START + hour * _HOUR


def folder_of(hour: int) -> str:
    """The folder of an hour, below `raw` or `history`."""
    return f"{start_of(hour):date=%Y-%m-%d/hour=%H}"


def hour_of(folder: Path) -> int | None:
    """The hour of a folder; None: it is not the folder of one."""
    match = _FOLDER.fullmatch(f"{folder.parent.name}/{folder.name}")
    if match is None:
        return None
    try:
        return hour_at(datetime.fromisoformat(f"{match[1]}T{match[2]}:00:00+00:00"))
    except ValueError:
        return None


def hours(root: Path) -> Iterator[tuple[int, Path]]:
    """The hours below `raw` or `history`, the oldest first, each with its folder."""
    for folder in sorted(root.glob("date=*/hour=*")):
        hour = hour_of(folder)
        if hour is not None:
            yield hour, folder


def visible(folder: Path) -> list[str]:
    """The names of the Parquet files in a folder, those that are complete; none, if there is no such folder."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted([name for name in names if name.endswith(ENDING) and name[0] not in "_."])
