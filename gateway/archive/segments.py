"""A segment as the archiver reads it: tables, and what is wrong with it.

a torn end             its rows up to there
damage                 its rows before and behind; the segment is worth keeping
no record is whole     it makes no sense
a record that is whole and cannot be read
                       it makes no sense to this program, and perhaps to a newer one
it cannot be read      perhaps later

What is torn and what is damaged, `gateway.journal.repair` finds out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gateway.journal.record import RecordError, size_of
from gateway.journal.repair import RecordBodies
from gateway.journal.segments import order, reason_of

from .columns import table_of


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
        unknown: rows that were left out so far, because a newer gateway wrote them.
    """

    def __init__(self, path: Path) -> None:
        self.unknown = 0
        self._path = path
        self._bodies = RecordBodies(path, order(path)[0])

    @property
    def torn(self) -> int:
        """Octets at the end that are the start of a record, or nothing; it is known when all has been read."""
        return self._bodies.torn

    @property
    def damaged(self) -> int:
        """Octets that were left out so far, where a record was."""
        return self._bodies.damaged

    def __iter__(self) -> Iterator[pa.Table]:
        """The tables.

        Raises:
            SegmentError: it cannot be read, or makes no sense from here on.
        """
        try:
            for body in self._bodies:
                yield self._table(body)
        except OSError as error:
            raise SegmentError(self._path, reason_of(error), is_senseless=False) from error
        if self._bodies.is_empty and self.torn + self.damaged:
            raise SegmentError(self._path, "it has no record that is whole", is_senseless=True)

    def _table(self, body: bytes) -> pa.Table:
        try:
            table, unknown = table_of(body)
        except RecordError as error:
            place = self._bodies.place - size_of(body)
            raise SegmentError(self._path, f"octet {place}: {error}", is_senseless=True) from error
        self.unknown += unknown
        return table


def began(path: Path) -> float | None:
    """When the first row of a segment was written, seconds since 1970; None: it has none that can be read."""
    try:
        for table in Tables(path):
            if len(table):
                return float(table["ts"].cast(pa.int64())[0].as_py()) / 1e6
    except SegmentError:
        pass
    return None
