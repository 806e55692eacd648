"""Segments to rows.

Read what ends with `.seg` (`segments.found`): such a file is complete and does not change.  One that ends with `.open`
can be read, too, up to where it has been written.

What a reader must be ready for: records that are damaged are left out (`damaged`), and so is a torn end (`torn`), and
rows of events that are newer than this program (`unknown`); a record of another version is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from .record import RecordError, Row, RowDecoder, size_of
from .repair import RecordBodies
from .segments import order


class Segment:
    """One file, which has the name of a segment.

    Attributes:
        path: of the file.
        unknown: rows that were left out so far.

    Known when all has been read:
        size: bytes it had when it was opened.
        torn: bytes at the end that are the start of a record, or nothing.
        damaged: bytes that were left out, where a record was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.torn = 0
        self.damaged = 0
        self.unknown = 0

    def records(self) -> Iterator[list[Row]]:
        """The rows of each record: as many as were written at once, about 1 MiB at most, but for large bodies.

        Raises:
            OSError: the file cannot be read.
            RecordError: a record has another version, or its rows make no sense.
        """
        decoder = RowDecoder()
        bodies = RecordBodies(self.path, order(self.path)[0])
        for body in bodies:
            try:
                rows = decoder.rows(body)
            except RecordError as error:
                raise RecordError(f"{self.path}, octet {bodies.place - size_of(body)}: {error}") from error
            self.unknown = decoder.unknown
            yield rows
        self.size, self.torn, self.damaged = bodies.size, bodies.torn, bodies.damaged

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.records())
