"""The layout of the archive: where its files are, the meaning of their names, its locks and its errors.

    ARCHIVE/raw/date=2026-11-21/hour=14/<gateway>-<epoch>-<first>-<last>.parquet
    ARCHIVE/history/date=2026-11-21/hour=14/<generation>-<part>.parquet, _manifest.json
    ARCHIVE/_locks/

A raw file holds the rows of one hour, UTC, out of the segments `first` to `last` of one start of a gateway.  So its
name says which rows are in it, however often it is written.

Readers, Spark among them, skip names that begin with `_`: a file is written under such a name.  The id of a gateway may
begin with `_`, too; then a hyphen, with which no id begins, stands in front of it.

An hour is a number here: hours since 1970.

One process at a time works on a journal or an archive: it holds a lock.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from gateway import files
from gateway.files import HIDDEN
from gateway.journal.segments import reason_of

RAW = "raw"
HISTORY = "history"
LOCKS = "_locks"
ENDING = ".parquet"

_NAME = re.compile(r"-?(?P<gateway>[A-Za-z0-9_][A-Za-z0-9._-]*)-(?P<epoch>\d+)-(?P<first>\d+)-(?P<last>\d+)\.parquet")
_FOLDER = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)")
_START = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)

MICROSECONDS = 3_600_000_000  # microseconds of an hour


class Range(NamedTuple):
    """The segments `first` to `last` of one start of a gateway, none of them missing."""

    gateway: str
    epoch: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the raw files that hold its rows."""
        front = "-" if self.gateway.startswith(HIDDEN) else ""
        return f"{front}{self.gateway}-{self.epoch:016d}-{self.first:08d}-{self.last:08d}{ENDING}"


def range_of(name: str) -> Range | None:
    """The range in the name of a raw file; None: it is no such name, or the file is not complete."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    found = Range(match["gateway"], int(match["epoch"]), int(match["first"]), int(match["last"]))
    return found if found.name == name else None


def is_gateway(name: str) -> bool:
    """True if it may be the id of a gateway."""
    return range_of(Range(name, 0, 1, 1).name) is not None


def hour_at(moment: datetime) -> int:
    """The hour of a moment.  `ValueError`: the moment has no time zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} needs a time zone")
    return (moment - _START) // _HOUR


def start_of(hour: int) -> datetime:
    """The beginning of an hour."""
    return _START + hour * _HOUR


def folder_of(hour: int) -> str:
    """The folder of an hour, below `raw` or `history`."""
    return f"{start_of(hour):date=%Y-%m-%d/hour=%H}"


def hour_of(folder: Path) -> int | None:
    """The hour of a folder; None: it is no folder of an hour."""
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
    """The names of the complete Parquet files in a folder; none if the folder is missing."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted([name for name in names if name.endswith(ENDING) and name[0] not in "_."])


class ArchiveError(Exception):
    """Archive or journal cannot be used; `str()` is one sentence that names the file or folder."""


class BusyError(ArchiveError):
    """Another process is at work."""


class UnusableError(ArchiveError):
    """The journal of one gateway cannot be used; those of others can."""


def lock_in(archive: Path, name: str, busy: str) -> int:
    """Take a lock (`lock`) of an archive; a missing archive is made, for its owner alone."""
    try:
        files.make_private(archive)
    except OSError as error:
        raise ArchiveError(f"the archive {archive} cannot be made: {reason_of(error)}") from error
    return lock(archive / LOCKS / name, busy)


def lock(path: Path, busy: str) -> int:
    """Take a lock, until its descriptor is closed.  `BusyError`: another process has it."""
    try:
        files.make_folder(path.parent)
        descriptor = files.lock(path)
    except BlockingIOError as error:
        raise BusyError(f"{busy} (process {_owner(path) or 'unknown'})") from error
    except OSError as error:
        raise ArchiveError(f"{path} cannot be locked: {reason_of(error)}") from error
    with contextlib.suppress(OSError):  # on a full disk the process that makes room must get the lock
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def _owner(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")[:20].strip()
    except OSError:
        return ""
