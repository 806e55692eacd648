"""A segment as the archiver reads it: tables, and what is wrong with it.

a torn end             its rows up to there; the journal was on its way to the disk when the power went
damage                 its rows before and behind; the segment is worth keeping
no record is whole     it makes no sense
a record that is whole and cannot be read
                       it makes no sense to this program, and perhaps to a newer one
it cannot be read      perhaps later

Behind damage the next record is where the damaged one's length leads.  Where that is damaged itself it is searched for,
by the epoch that all records of the segment have at the same place.  It counts if its length and CRC are right, and it
is of this start of the gateway, with rows that are later than those before.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from gateway.journal.record import RecordError, bodies, making_sense, size_of, start_of
from gateway.journal.segments import order, reason_of

from .columns import table_of

EFFORT = 8
"""How often a search reads the rest of a segment at most: bodies may be full of what looks like records."""

_LENGTH = struct.Struct("<I")
_EPOCH = struct.Struct("<q")
_BEFORE_EPOCH = size_of(b"") + struct.calcsize("<BQ")


class SegmentError(Exception):
    """A segment cannot be archived; `str()` is the reason.

    Attributes:
        path: of the segment.
        is_senseless: trying again will not help.
    """

    def __init__(self, path: Path, reason: str, *, is_senseless: bool) -> None:
        super().__init__(reason)
        self.path = path
        self.is_senseless = is_senseless


class Tables:
    """The rows of a segment, a table for each record.

    Attributes:
        torn: octets at the end that are the start of a record, or nothing; it is known when all has been read.
        damaged: octets that were left out so far, where a record was.
        unknown: rows that were left out so far, because a newer gateway wrote them.
    """

    def __init__(self, path: Path) -> None:
        self.torn = 0
        self.damaged = 0
        self.unknown = 0
        self._path = path
        self._place = 0  # behind the last record that is whole
        self._last: bytes | None = None  # its body

    def __iter__(self) -> Iterator[pa.Table]:
        """The tables.

        Raises:
            SegmentError: it cannot be read, or makes no sense from here on.
        """
        for body in self._bodies():
            try:
                table, unknown = table_of(body)
            except RecordError as error:
                place = self._place - size_of(body)
                raise SegmentError(self._path, f"octet {place}: {error}", is_senseless=True) from error
            self.unknown += unknown
            yield table
        if self._last is None and self.torn + self.damaged:
            raise SegmentError(self._path, "it has no record that is whole", is_senseless=True)

    def _bodies(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                while self._place < size:
                    file.seek(self._place)
                    for body in bodies(file, size - self._place):
                        self._place += size_of(body)
                        self._last = body
                        yield body
                    self._go_on(file, size)
        except OSError as error:
            raise SegmentError(self._path, reason_of(error), is_senseless=False) from error

    def _go_on(self, file: BinaryIO, size: int) -> None:
        """Go to the next record that is whole, or to the end."""
        file.seek(self._place)
        rest = file.read(size - self._place)
        if not rest:
            self._place = size  # also where it has become shorter meanwhile
            return
        ends_at = _LENGTH.unpack_from(rest)[0] + size_of(b"") if len(rest) >= _LENGTH.size else len(rest) + 1
        is_torn = False
        if ends_at < len(rest) and self._is_ours(file, ends_at, size):
            next_at = ends_at
        else:
            next_at, is_torn = self._search(file, rest, size)
            is_torn &= not size_of(b"") < ends_at <= len(rest)
        if is_torn:
            self.torn = next_at
        else:
            self.damaged += next_at
        self._place += next_at

    def _search(self, file: BinaryIO, rest: bytes, size: int) -> tuple[int, bool]:
        """Where in the rest the next record begins, or the end; and whether there is none for sure."""
        epoch = _EPOCH.pack(order(self._path)[0])
        effort = EFFORT * len(rest)
        found = rest.find(epoch, _BEFORE_EPOCH + 1)
        while found >= 0 and effort > 0:
            start = found - _BEFORE_EPOCH
            if self._is_ours(file, start, size):
                return start, False
            length = int(_LENGTH.unpack_from(rest, start)[0])
            effort -= length if length < len(rest) else 0
            found = rest.find(epoch, found + 1)
        return len(rest), found < 0

    def _is_ours(self, file: BinaryIO, start: int, size: int) -> bool:
        """Whether a record is there, so many octets from here, that may follow those before."""
        start += self._place
        file.seek(start)
        body = next(bodies(file, size - start), None)
        if body is None:
            return False
        try:
            with making_sense(body):
                facts, first, _, _ = start_of(body)
                return facts.epoch == order(self._path)[0] and first > self._last_seq()
        except RecordError:
            return False

    def _last_seq(self) -> int:
        if self._last is None:
            return 0
        _, first, count, _ = start_of(self._last)
        return first + count - 1


def began(path: Path) -> float | None:
    """When the first row of a segment was written, seconds since 1970; None: it has none that can be read."""
    try:
        for table in Tables(path):
            if len(table):
                return float(table["ts"].cast(pa.int64())[0].as_py()) / 1e6
    except SegmentError:
        pass
    return None
