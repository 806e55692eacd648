"""Segments to rows.

Read what ends with `.seg` (`segments.found`): such a file is complete and does not change.  One that ends with `.open`
can be read, too, up to where it has been written.

What a reader must be ready for: rows stop at the first record that is torn or damaged (`torn`), rows of events that are
newer than this program are left out (`unknown`), and a record of another version is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from .record import Decoder, RecordError, Row, bodies, size_of


class Segment:
    """One file.

    Attributes:
        path: of the file.
        size: octets it had when it was opened.
        torn: octets behind the last record that is whole; 0: none are left.  It is known when all has been read.
        unknown: rows that were left out so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.torn = 0
        self.unknown = 0

    def records(self) -> Iterator[list[Row]]:
        """The rows of each record: as many as were written at once, about 1 MiB at most, but for large bodies.

        Raises:
            OSError: the file cannot be read.
            RecordError: a record has another version, or its rows make no sense.
        """
        decoder = Decoder()
        with self.path.open("rb") as file:
            self.size = self.torn = os.fstat(file.fileno()).st_size
            for body in bodies(file, self.size):
                try:
                    rows = decoder.rows(body)
                except RecordError as error:
                    raise RecordError(f"{self.path}, octet {self.size - self.torn}: {error}") from error
                self.torn -= size_of(body)
                self.unknown = decoder.unknown
                yield rows

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.records())
