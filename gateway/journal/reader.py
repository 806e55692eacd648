"""Rows of a segment.

A file that ends with `.seg` (`segments.found`) is complete and does not change.  A file that ends with `.open` can be
read up to its last whole record.

Left out, and counted: damaged records (`damaged`), a torn end (`torn`), and rows of events that are newer than this
program (`unknown`).  A record of another version is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from .record import RecordError, Row, RowDecoder, size_of
from .repair import RecordBodies
from .segments import order


class Segment:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path  # named as a segment
        self.size = 0  # bytes of the file when it was opened; this and the next two are known after the last row
        self.torn = 0  # bytes of the torn end
        self.damaged = 0  # bytes left out, in place of records
        self.unknown = 0  # number of rows left out so far

    def records(self) -> Iterator[list[Row]]:
        """The rows of each record: about 1 MiB, unless a body is larger.

        Raises OSError: the file cannot be read; RecordError: a record has another version, or wrong rows.
        """
        decoder = RowDecoder()
        bodies = RecordBodies(self.path, order(self.path)[0])
        for body in bodies:
            try:
                rows = decoder.rows(body)
            except RecordError as error:
                raise RecordError(f"{self.path}, byte {bodies.place - size_of(body)}: {error}") from error
            self.unknown = decoder.unknown
            yield rows
        self.size, self.torn, self.damaged = bodies.size, bodies.torn, bodies.damaged

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.records())
