"""Segments of a journal as the archiver sees them: groups that become one file, and the rows of each segment.

A file for each segment of ten seconds would be far too many for Spark, which needs 12 times as long for the same rows
in a thousand files.  So segments wait for others: until they are old enough, or large enough together.  A group ends
where a number is missing, because the gateway may still complete that segment, and where the hour of the files' times
ends: so it mostly becomes one file.

    a torn end                           its rows up to there
    damage                               its rows before and behind; the segment is kept
    no whole record, an unknown format   it is unusable
    it cannot be read                    perhaps later

`gateway.journal.repair` finds out what is torn and what is damaged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from gateway.journal.record import RecordError, size_of
from gateway.journal.repair import RecordBodies
from gateway.journal.segments import order, reason_of

from .columns import table_of
from .layout import Range


@dataclass(slots=True)
class SegmentGroup:
    """Consecutive segments of one epoch; `is_closed`: no other segment can join."""

    paths: list[Path]
    size: int
    hour: int
    is_closed: bool = False
    range: Range = field(init=False)

    def __post_init__(self) -> None:
        self.range = self._range()

    def joins(self, path: Path, size: int, hour: int, most: int) -> bool:
        """Take one more segment; False: it does not belong here."""
        if order(path) != (self.range.epoch, self.range.last + 1) or hour != self.hour or self.size + size > most:
            return False
        self.paths.append(path)
        self.size += size
        self.range = self._range()
        return True

    def _range(self) -> Range:
        epoch, first = order(self.paths[0])
        return Range(self.paths[0].parent.name, epoch, first, order(self.paths[-1])[1])


def groups(paths: Iterable[Path], most: int) -> list[SegmentGroup]:
    """The segments of one gateway, in order, as groups of at most so many bytes.  `OSError`: one cannot be read."""
    found: list[SegmentGroup] = []
    for path in paths:
        status = path.stat()
        hour = int(status.st_mtime // 3600)
        if not found or not found[-1].joins(path, status.st_size, hour, most):
            if found:
                found[-1].is_closed = True
            found.append(SegmentGroup([path], status.st_size, hour))
    if found and found[-1].size >= most:
        found[-1].is_closed = True
    return found


class SegmentError(Exception):
    """A segment cannot be archived; `str()` is the reason."""

    def __init__(self, path: Path, reason: str, *, is_unusable: bool) -> None:
        super().__init__(reason)
        self.path = path  # of the segment
        self.is_unusable = is_unusable  # another attempt will not help


class Tables:
    """The rows of a segment, a table for each record."""

    def __init__(self, path: Path) -> None:
        self.unknown = 0  # rows that were left out so far, because a newer gateway wrote them
        self._path = path
        self._bodies = RecordBodies(path, order(path)[0])

    @property
    def torn(self) -> int:
        """Bytes at the end that are the start of a record, or nothing; known when all has been read."""
        return self._bodies.torn

    @property
    def damaged(self) -> int:
        """Bytes of damaged records that were left out so far."""
        return self._bodies.damaged

    def __iter__(self) -> Iterator[pa.Table]:
        """The tables.  `SegmentError`: the segment cannot be read, or is unusable from here on."""
        try:
            for body in self._bodies:
                yield self._table(body)
        except OSError as error:
            raise SegmentError(self._path, reason_of(error), is_unusable=False) from error
        if self._bodies.is_empty and self.torn + self.damaged:
            raise SegmentError(self._path, "it has no whole record", is_unusable=True)

    def _table(self, body: bytes) -> pa.Table:
        try:
            table, unknown = table_of(body)
        except RecordError as error:
            place = self._bodies.place - size_of(body)
            raise SegmentError(self._path, f"byte {place}: {error}", is_unusable=True) from error
        self.unknown += unknown
        return table


def began(path: Path) -> float | None:
    """When the first row of a segment was written, seconds since 1970; None: it has no readable row."""
    try:
        for table in Tables(path):
            if len(table):
                return float(table["ts"].cast(pa.int64())[0].as_py()) / 1e6
    except SegmentError:
        pass
    return None
