"""A segment as the archiver reads it: tables, and what is wrong with it.

a torn end             its rows up to there; the journal was on its way to the disk when the power went
no record is whole     it makes no sense
a record that is whole and cannot be read
                       it makes no sense to this program, and perhaps to a newer one
it cannot be read      perhaps later
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from gateway.journal.record import RecordError, bodies, size_of
from gateway.journal.segments import reason_of

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
        torn: octets behind the last record that is whole; it is known when all has been read.
        unknown: rows that were left out so far, because a newer gateway wrote them.
    """

    def __init__(self, path: Path) -> None:
        self.torn = 0
        self.unknown = 0
        self._path = path

    def __iter__(self) -> Iterator[pa.Table]:
        """The tables.

        Raises:
            SegmentError: it cannot be read, or makes no sense from here on.
        """
        whole = 0
        for body in self._bodies():
            try:
                table, unknown = table_of(body)
            except RecordError as error:
                raise SegmentError(self._path, f"octet {whole}: {error}", is_senseless=True) from error
            whole += size_of(body)
            self.torn -= size_of(body)
            self.unknown += unknown
            yield table
        if self.torn and not whole:
            raise SegmentError(self._path, "it has no record that is whole", is_senseless=True)

    def _bodies(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                self.torn = os.fstat(file.fileno()).st_size
                yield from bodies(file, self.torn)
        except OSError as error:
            raise SegmentError(self._path, reason_of(error), is_senseless=False) from error


def began(path: Path) -> float | None:
    """When the first row of a segment was written, seconds since 1970; None: it has none that can be read."""
    try:
        for table in Tables(path):
            if len(table):
                return float(table["ts"].cast(pa.int64())[0].as_py()) / 1e6
    except SegmentError:
        pass
    return None
