"""Files of one gateway's journal, as the writer sees them.

    DIR/<gateway>/lock               the lock, and in it the epoch of its last owner
    DIR/<gateway>/<epoch>-<n>.open   the segment that grows
    DIR/<gateway>/<epoch>-<n>.seg    a complete segment: readers take it, and may remove it

A record that could not be written whole is cut off, so that the same rows can be written again.  If that fails, too,
the file is set aside, as is the file of a dead process: as soon as possible its torn end is cut off, and it is
completed.  Damage inside of it stays; readers leave it out (`repair`).
"""

import contextlib
import enum
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gateway import files
from gateway.files import make_private, synchronize_folder

from . import record
from .repair import RecordBodies

OPEN = ".open"
COMPLETE = ".seg"
_LOCK = "lock"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_FILE = re.compile(r"(\d+)-(\d+)")
_INTERVAL = 1.0  # seconds between two synchronizations of `Sync.INTERVAL`

# Most buffers of one system call.
_MOST_BUFFERS = 1024


class JournalError(Exception):
    """The journal cannot be used; `str()` is one sentence with folder and reason."""


class Sync(enum.Enum):
    """When written rows are synchronized to the disk.

    NONE: the system decides; a crash of the process loses no written row, a power cut some seconds.
    INTERVAL: after each second in which something was written.
    FLUSH: with each write.
    """

    NONE = "none"
    INTERVAL = "interval"
    FLUSH = "flush"


class Mended(NamedTuple):
    """A segment that was set aside, and was not whole."""

    path: Path  # the completed file; it does not exist if no record was whole
    torn: int  # bytes that were cut off at its end
    damaged: int  # bytes inside that readers leave out


def order(path: Path) -> tuple[int, int]:
    """Epoch and number of a segment, by which segments are sorted.

    Raises ValueError: the path is not that of a segment.
    """
    match = _FILE.fullmatch(path.stem)
    if match is None:
        raise ValueError(f"{path} is not the name of a segment")
    return int(match[1]), int(match[2])


def found(folder: Path, suffix: str = COMPLETE) -> list[Path]:
    """The segments in the folder of a gateway, in the order of their rows; other files are left out."""
    return sorted([path for path in folder.glob(f"*{suffix}") if _FILE.fullmatch(path.stem)], key=order)


def lock(folder: Path, now: int) -> tuple[int, int]:
    """Make the folder of a gateway and lock it, until the descriptor is closed or the process ends.

    `now`: microseconds since 1970.  Returns the descriptor, and the epoch: now, or later if the clock went back since
    the last start.  Raises JournalError: another process has the lock, or the folder cannot be made.
    """
    if not _NAME.fullmatch(folder.name):
        raise JournalError(f"{folder.name[:80]!r} cannot name a folder: up to 64 letters, digits, dots, hyphens and _")
    try:
        make_private(folder)
        descriptor = files.lock(folder / _LOCK)
    except BlockingIOError as error:
        raise JournalError(
            f"another gateway writes the journal in {folder}: give each one a journal_id of its own"
        ) from error
    except OSError as error:
        raise JournalError(f"the journal cannot be in {folder}: {reason_of(error)}") from error
    last = os.pread(descriptor, 32, 0).strip()
    epoch = max(now, int(last) + 1 if last.isdigit() else 0)
    with contextlib.suppress(OSError):  # on a full disk the clock alone makes the epoch unique
        os.pwrite(descriptor, b"%020d\n" % epoch, 0)
    return descriptor, epoch


def check(folder: Path) -> None:
    """Try whether the folder of a gateway can be made and locked.  Raises JournalError."""
    descriptor, _ = lock(folder, 0)
    os.close(descriptor)


def reason_of(error: OSError) -> str:
    return error.strerror or str(error)


class Segments:
    """The segments that a gateway writes.  One thread calls, and hands in the time.

    Args:
        nbytes: size after which a segment is complete.
        seconds: time after which a segment is complete.
        offset: the current offset of the clock, asked for each segment: clocks are set, and machines sleep.
        on_mended: called with each segment that was set aside and was not whole.
    """

    def __init__(
        self,
        folder: Path,
        facts: record.RecordFacts,
        *,
        sync: Sync,
        nbytes: int,
        seconds: float,
        offset: Callable[[], int] | None = None,
        on_mended: Callable[[Mended], None] = lambda _: None,
    ) -> None:
        self.begun = 0  # number of segments so far
        self.lost = 0  # written rows whose file was removed before it was complete
        self._folder = folder
        self._facts = facts
        self._sync = sync
        self._bytes = nbytes
        self._seconds = seconds
        self._offset = offset
        self._on_mended = on_mended
        self._path: Path | None = None
        self._file = -1
        self._size = 0
        self._rows = 0
        self._complete_at = 0.0
        self._sync_at: float | None = None  # None: nothing to synchronize
        self._has_name = False  # its name is on the disk
        self._next_seq = 1
        self._aside = found(folder, OPEN)
        self.mend()

    @property
    def due(self) -> float | None:
        """When `tend` has work to do; None: not before the next write."""
        if self._path is None:
            return None
        return self._complete_at if self._sync_at is None else min(self._complete_at, self._sync_at)

    def write(self, rows: int, pieces: Sequence[bytes], now: float) -> int:
        """Write rows, all or none of them.

        Args:
            rows: their number.
            pieces: their bytes.

        Returns:
            number of bytes written.

        Raises:
            OSError: none was written.
        """
        if self._path is None:
            self._begin(now)
        nbytes = record.record(self._facts, self._next_seq, rows, pieces)
        try:
            size = self._append(nbytes)
        except OSError:
            self._cut()
            raise
        self._size += size
        self._rows += rows
        self._next_seq += rows
        if self._sync is not Sync.NONE and self._sync_at is None:
            self._sync_at = now + (_INTERVAL if self._sync is Sync.INTERVAL else 0)
        return size

    def tend(self, now: float) -> None:
        """Do the work that is due: synchronize, or complete the segment.

        Raises OSError: it failed.  A failed synchronization is not repeated.
        """
        if self._path is None:
            return
        if self._size >= self._bytes or now >= self._complete_at:
            self.complete()
        elif self._sync_at is not None and now >= self._sync_at:
            self._synchronize()

    def complete(self) -> None:
        """Complete the segment that grows.  Raises OSError: it failed; the segment is set aside."""
        path, self._path = self._path, None
        if path is None:
            return
        self._aside.append(path)
        try:
            self._synchronize()
        finally:
            os.close(self._file)
        self._finish(path)
        self._aside.remove(path)

    def mend(self) -> bool:
        """Complete the segments set aside, if possible; True: none is left."""
        left = []
        for path in self._aside:
            try:
                mended = _mend(path)
            except FileNotFoundError:  # it was removed on purpose
                continue
            except OSError:
                left.append(path)
                continue
            if mended.torn or mended.damaged:
                self._on_mended(mended)
        self._aside = left
        return not left

    def _begin(self, now: float) -> None:
        self.mend()
        if self._offset is not None:
            # Never lower: the rows of an epoch are in the order of their times.
            self._facts = self._facts._replace(offset=max(self._facts.offset, self._offset()))
        make_private(self._folder)  # it may have been removed
        path = self._folder / f"{self._facts.epoch}-{self.begun + 1:06d}{OPEN}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.begun += 1
        self._path = path
        self._size = self._rows = 0
        self._complete_at = now + self._seconds
        self._sync_at = None
        self._has_name = False

    def _append(self, pieces: list[bytes]) -> int:
        """Write all pieces; returns the number of bytes."""
        total = sum([len(piece) for piece in pieces])
        left = total
        while left:
            written = os.writev(self._file, pieces[:_MOST_BUFFERS])
            left -= written
            while pieces and written >= len(pieces[0]):
                written -= len(pieces.pop(0))
            if written:
                pieces[0] = pieces[0][written:]
        return total

    def _cut(self) -> None:
        """Cut off a partly written record; if that fails, set the file aside."""
        assert self._path is not None  # it was written to
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            os.close(self._file)
            self._aside.append(self._path)
            self._path = None

    def _synchronize(self) -> None:
        if self._sync_at is not None:
            self._sync_at = None  # after a failure a second attempt succeeds without effect
            os.fdatasync(self._file)
            if not self._has_name:
                synchronize_folder(self._folder)
                self._has_name = True

    def _finish(self, path: Path) -> None:
        """Give a segment its final name; delete it if it has no rows."""
        if not self._rows:
            path.unlink(missing_ok=True)
            return
        try:
            path.rename(path.with_suffix(COMPLETE))
        except FileNotFoundError:
            self.lost += self._rows
            raise
        if self._sync is not Sync.NONE:
            synchronize_folder(path.parent)


def _mend(path: Path) -> Mended:
    """Cut off the torn end of a file and complete it; delete it if it has no rows."""
    bodies = RecordBodies(path, order(path)[0])
    for _ in bodies:
        pass
    if bodies.torn:
        with path.open("r+b") as file:
            os.ftruncate(file.fileno(), bodies.size - bodies.torn)
    complete = path.with_suffix(COMPLETE)
    if bodies.size > bodies.torn:
        path.rename(complete)
    else:
        path.unlink()
    return Mended(complete, bodies.torn, bodies.damaged)
