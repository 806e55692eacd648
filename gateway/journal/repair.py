"""Records of a segment, read around damage.

a torn end       the start of a record, or zeros: the power failed during the write
damage           bytes in place of a record; the records before and after them are whole

The length of a damaged record leads to the next one.  If the length is damaged, too, the next record is searched by the
epoch, which all records of a segment have at the same place.  A record counts if length and CRC are right, it is of
this epoch, and its rows come after those before.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .record import RecordError, bodies, making_sense, size_of, start_of

EFFORT = 8  # times that a search may read the rest of a segment: message bodies may look like records

_LENGTH = struct.Struct("<I")
_EPOCH = struct.Struct("<q")
_BEFORE_EPOCH = size_of(b"") + struct.calcsize("<BQ")


class RecordBodies:
    """The bodies of a segment's records, in their order; to be iterated over once.  `epoch`: of the records."""

    def __init__(self, path: Path, epoch: int) -> None:
        self.size = 0  # bytes of the file when it was opened
        self.place = 0  # bytes up to the end of the last body, or of the damage behind it
        self.torn = 0  # bytes of the torn end; known after the iteration
        self.damaged = 0  # bytes left out so far
        self._path = path
        self._epoch = epoch
        self._last: bytes | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no record was whole so far."""
        return self._last is None

    def __iter__(self) -> Iterator[bytes]:
        """The bodies.  Raises OSError: the file cannot be read."""
        with self._path.open("rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            while self.place < self.size:
                file.seek(self.place)
                for body in bodies(file, self.size - self.place):
                    self.place += size_of(body)
                    self._last = body
                    yield body
                self._go_on(file)

    def _go_on(self, file: BinaryIO) -> None:
        """Go to the next whole record, or to the end."""
        file.seek(self.place)
        rest = file.read(self.size - self.place)
        if not rest:
            self.place = self.size  # also if the file has become shorter
            return
        ends_at = _LENGTH.unpack_from(rest)[0] + size_of(b"") if len(rest) >= _LENGTH.size else len(rest) + 1
        is_torn = False
        if ends_at < len(rest) and self._follows(self._whole_at(file, ends_at)):
            next_at = ends_at
        else:
            next_at, is_torn = self._search(file, rest)
            is_torn &= not size_of(b"") < ends_at <= len(rest)
        if is_torn:
            self.torn = next_at
        else:
            self.damaged += next_at
        self.place += next_at

    def _search(self, file: BinaryIO, rest: bytes) -> tuple[int, bool]:
        """The place of the next record, or of the end; and whether the rest certainly has none."""
        epoch = _EPOCH.pack(self._epoch)
        effort = EFFORT * len(rest)
        none_is_whole = True
        found = rest.find(epoch, _BEFORE_EPOCH + 1)
        while found >= 0 and effort > 0:
            start = found - _BEFORE_EPOCH
            body = self._whole_at(file, start)
            if self._follows(body):
                return start, False
            none_is_whole &= body is None  # a record of a newer gateway must not be cut off
            length = int(_LENGTH.unpack_from(rest, start)[0])
            effort -= length if length < len(rest) else 0
            found = rest.find(epoch, found + 1)
        return len(rest), found < 0 and none_is_whole

    def _whole_at(self, file: BinaryIO, start: int) -> bytes | None:
        """The body of the record at `place` + `start`; None: no whole record begins there."""
        start += self.place
        file.seek(start)
        return next(bodies(file, self.size - start), None)

    def _follows(self, body: bytes | None) -> bool:
        """Whether the body can follow the last one."""
        if body is None:
            return False
        try:
            with making_sense(body):
                facts, first, _, _ = start_of(body)
                return facts.epoch == self._epoch and first > self._last_seq()
        except RecordError:
            return False

    def _last_seq(self) -> int:
        """The seq of the last row so far; 0: before the first.

        Raises RecordError: the last record is of another version.
        """
        if self._last is None:
            return 0
        with making_sense(self._last):
            _, first, count, _ = start_of(self._last)
        return first + count - 1
