"""The files of one gateway's journal, as whoever writes them sees them.

    DIR/<gateway>/lock               the lock, and in it the epoch of the process that had it last
    DIR/<gateway>/<epoch>-<n>.open   the segment that grows
    DIR/<gateway>/<epoch>-<n>.seg    one that is complete: rows of this process, none of them torn

A segment is begun by its first record, and complete after some bytes or seconds: it is renamed, and never touched
again here.  Whoever reads takes files that end with `.seg`, and removes them when it likes.

A record that could not be written whole is cut off again, so that the same rows can be written once more.  Where even
that fails the file is set aside, and so is the one that a dead process left: as soon as that is possible the torn end
is cut off, and the file completed.  What is damaged in it stays as it is: whoever reads leaves that out (`salvage`).

Nothing here knows of threads or of time: whoever calls says what time it is.  One thread calls.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gateway.files import make_private, synchronize_folder

from . import record
from .repair import RecordBodies

OPEN = ".open"
COMPLETE = ".seg"
_LOCK = "lock"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_FILE = re.compile(r"(\d+)-(\d+)")

# Buffers that one call of the system takes.
_MOST_BUFFERS = 1024


class JournalError(Exception):
    """There can be no journal; `str()` is one sentence that names the folder and the reason."""


class Sync(enum.Enum):
    """When what is written is on the disk, too.

    NONE: the system decides; a crash of the process loses nothing that was written, a power cut some seconds.
    INTERVAL: after each second in which something was written.
    FLUSH: with each write.
    """

    NONE = "none"
    INTERVAL = "interval"
    FLUSH = "flush"


class Mended(NamedTuple):
    """A segment that was set aside, and was not whole.

    Attributes:
        path: where it is now; there is no such file if nothing of it was whole.
        torn: bytes that were cut off at its end.
        damaged: bytes in it that no reader can use.
    """

    path: Path
    torn: int
    damaged: int


def order(path: Path) -> tuple[int, int]:
    """What segments are sorted by: epoch and number.

    Raises:
        ValueError: it is not the name of one.
    """
    match = _FILE.fullmatch(path.stem)
    if match is None:
        raise ValueError(f"{path} is not the name of a segment")
    return int(match[1]), int(match[2])


def found(folder: Path, suffix: str = COMPLETE) -> list[Path]:
    """The segments in the folder of a gateway, in the order of their rows.  What has another name is left out."""
    return sorted([path for path in folder.glob(f"*{suffix}") if _FILE.fullmatch(path.stem)], key=order)


def lock(folder: Path, now: int) -> tuple[int, int]:
    """Make the folder of a gateway and lock it, until the descriptor is closed or the process ends.

    Args:
        now: microseconds since 1970.

    Returns:
        the descriptor, and the epoch: now, or later, where the clock went back since the last start.

    Raises:
        JournalError: another process has it, or it cannot be made.
    """
    if not _NAME.fullmatch(folder.name):
        raise JournalError(f"{folder.name[:80]!r} cannot name a folder: up to 64 letters, digits, dots, hyphens and _")
    try:
        make_private(folder)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise JournalError(f"the journal cannot be in {folder}: {reason_of(error)}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise JournalError(
            f"another gateway writes the journal in {folder}: give each one a journal_id of its own"
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise JournalError(f"the journal cannot be in {folder}, which cannot be locked: {reason_of(error)}") from error
    last = os.pread(descriptor, 32, 0).strip()
    epoch = max(now, int(last) + 1 if last.isdigit() else 0)
    with contextlib.suppress(OSError):  # a full disk: then the clock alone must see to it
        os.pwrite(descriptor, b"%020d\n" % epoch, 0)
    return descriptor, epoch


def reason_of(error: OSError) -> str:
    """Why, in a few words."""
    return error.strerror or str(error)


class Segments:
    """What a gateway writes.

    Attributes:
        begun: segments so far.
        lost: rows that were written, and are gone with their file: somebody removed it before it was complete.

    Args:
        nbytes: of a segment, from which on it is complete.
        seconds: after which it is complete.
        offset: the facts' one, as it is now: it is asked for each segment, for clocks are set, and machines sleep.
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
        interval: float = 1.0,
        offset: Callable[[], int] | None = None,
        on_mended: Callable[[Mended], None] = lambda _: None,
    ) -> None:
        self.begun = 0
        self.lost = 0
        self._folder = folder
        self._facts = facts
        self._sync = sync
        self._bytes = nbytes
        self._seconds = seconds
        self._interval = interval
        self._offset = offset
        self._on_mended = on_mended
        self._path: Path | None = None
        self._file = -1
        self._size = 0
        self._rows = 0
        self._complete_at = 0.0
        self._sync_at: float | None = None  # None: all is on the disk, or need not be
        self._has_name = False  # on the disk
        self._next_seq = 1
        self._aside = found(folder, OPEN)
        self.mend()

    @property
    def due(self) -> float | None:
        """When `tend` has something to do; None: not before more is written."""
        if self._path is None:
            return None
        return self._complete_at if self._sync_at is None else min(self._complete_at, self._sync_at)

    def write(self, rows: int, pieces: Sequence[bytes], now: float) -> int:
        """Write some rows, all or none of them.

        Args:
            rows: how many there are in the pieces.

        Returns:
            bytes that were written.

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
            self._sync_at = now + (self._interval if self._sync is Sync.INTERVAL else 0)
        return size

    def tend(self, now: float) -> None:
        """What is due: write to the disk, complete the segment.

        Raises:
            OSError: something of it could not be done.  What could not be written to the disk is not tried again.
        """
        if self._path is None:
            return
        if self._size >= self._bytes or now >= self._complete_at:
            self.complete()
        elif self._sync_at is not None and now >= self._sync_at:
            self._synchronize()

    def complete(self) -> None:
        """The segment that grows is complete.

        Raises:
            OSError: it is set aside.
        """
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
        """Complete what was set aside, as far as that is possible now; True: nothing is left."""
        left = []
        for path in self._aside:
            try:
                mended = _mend(path)
            except FileNotFoundError:  # whoever removed it wanted that
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
            # Never back: the rows of an epoch are in the order of their times.
            self._facts = self._facts._replace(offset=max(self._facts.offset, self._offset()))
        make_private(self._folder)  # somebody may have removed it
        path = self._folder / f"{self._facts.epoch}-{self.begun + 1:06d}{OPEN}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.begun += 1
        self._path = path
        self._size = self._rows = 0
        self._complete_at = now + self._seconds
        self._sync_at = None
        self._has_name = False

    def _append(self, pieces: list[bytes]) -> int:
        """Write pieces, whole; returns how many bytes."""
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
        """Take back what was written of a record; where that fails, the file is set aside."""
        assert self._path is not None  # it was written to
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            os.close(self._file)
            self._aside.append(self._path)
            self._path = None

    def _synchronize(self) -> None:
        if self._sync_at is not None:
            self._sync_at = None  # a second attempt would succeed, and mean nothing
            os.fdatasync(self._file)
            if not self._has_name:
                synchronize_folder(self._folder)
                self._has_name = True

    def _finish(self, path: Path) -> None:
        """Give a segment its name; one without rows goes."""
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
    """Cut off the torn end of a file and complete it; one without rows goes."""
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
