"""The spool: rows on the driver's disk, which are received, kept, acknowledged, and read by Spark as often as it likes.

A spool is a folder that one query owns:

    lock                        held by the process that uses it
    state.json                  which rows are done, and the keys of the last of them
    00..017-00..200.arrow       a segment: the number of its first row, how many there are; an Arrow stream

Rows are numbered from 0, and those numbers are the offsets of the query.  A segment is written under a name with an
underscore, synced, renamed, and the folder synced; only then may its messages be acknowledged.  So at every moment a
message is unacknowledged, or in a segment, or done.

**No duplicates.**  An ACK may be lost in a socket that dies, and its message then comes again.  So a kept message is
known by its key as long as its segment is there, and beyond that among the last `remembered` keys of the state: as many
as a server sends ahead of their ACKs.  Rows whose ACK the server has not yet confirmed are always remembered; their
segments go as soon as Spark has them, because a full spool may have to be emptied before the receipt is read.

**No loss.**  Segments that do not follow each other, or that cannot be read, are an error that names the file.  The
spool has an identity that is part of every offset: a checkpoint and another, or emptied, spool refuse each other.

**Private.**  Only the owner may read it, because it holds bodies of messages.

The weakness: if the server names a message differently when it redelivers it (RabbitMQ does), its key must come from a
header that the publisher sets: `dedupHeader`.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import json
import os
import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .errors import DataLost, OptionError
from .rows import Block, keys_of

_FORMAT = 1
LOCK_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that Spark reads: a part of a segment."""

    source: bytes | str  # the bytes of the segment, or the path of its file
    skip: int  # rows of it that are left out at the beginning
    take: int  # rows that count


@dataclass(frozen=True, slots=True)
class _Segment:
    first: int
    rows: int
    size: int
    path: Path
    keys: list[str]

    @property
    def end(self) -> int:
        return self.first + self.rows


def cut(sizes: list[tuple[int, int]], start: int, rows: int, size: int) -> int:
    """The end of a batch.

    Args:
        sizes: of blocks, from that of the first row on: the number behind their last row, and their bytes.
        start: the number of the first row.
        rows: at most.
        size: bytes at most, unless the first block has more.
    """
    end = start
    for block_end, block_size in sizes:
        if end > start and size < block_size:
            break
        size -= block_size
        end = min(block_end, start + rows)
        if end == start + rows:
            break
    return end


class Spool:
    """An open spool.  A receiver keeps blocks, Spark's thread reads and releases them.

    Args:
        folder: created if it is missing.
        remembered: keys that outlive their segments.
        most: bytes beyond which it is full.
        dedup_header: see `rows.key_of`.
        shared: pieces are paths, not bytes.

    Attributes:
        name: the identity.
        first: the first row that is not done.

    Raises:
        OptionError: another process uses it, or it cannot be written.
        DataLost: segments are missing or damaged.
    """

    def __init__(
        self, folder: Path, remembered: int, *, most: int = 1024**3, dedup_header: str = "", shared: bool = False
    ) -> None:
        self._folder = folder
        self._remembered = remembered
        self._most = most
        self._size = 0
        self._dedup_header = dedup_header
        self._shared = shared
        self._guard = threading.Lock()
        self._known: set[str] = set()
        self._done: deque[str] = deque()
        self._segments: list[_Segment] = []
        self._end = 0
        self._confirmed = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OptionError(f"option spoolDir names {folder}, which cannot be used: {error}") from None
        try:
            self._own()
            self._load()
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        os.close(self._lock)

    @property
    def end(self) -> int:
        return self._end

    # Opening.

    def _own(self) -> None:
        """Take the lock; the process of the last query may need a moment to end."""
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    owner = os.pread(self._lock, 20, 0).decode(errors="replace").strip()
                    sentence = f"option spoolDir names {self._folder}, which another query uses (process {owner})"
                    raise OptionError(sentence + ": each query needs a spool of its own") from None
                time.sleep(0.05)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _load(self) -> None:
        path = self._folder / "state.json"
        files = sorted(self._folder.glob("[0-9]*.arrow"))
        if path.exists():
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["format"] != _FORMAT:
                raise OptionError(f"option spoolDir names {self._folder}, whose format {state['format']} is unknown")
            self.name, self.first, self._done = str(state["name"]), int(state["first"]), deque(state["keys"])
        elif files:
            raise DataLost(f"spool {self._folder} has segments and no state.json")
        else:
            self.name, self.first = uuid.uuid4().hex, 0
            self._write_state()
        for torn in self._folder.glob("_*"):
            torn.unlink()
        self._known.update(self._done)
        self._end = self.first
        for file in files:
            self._load_segment(file)
        self._confirmed = self._end  # no server will confirm these any more; the remembered keys must do

    def _load_segment(self, file: Path) -> None:
        first, rows = [int(part) for part in file.stem.split("-")]
        if first + rows <= self.first:  # done, and the process died before it was deleted
            file.unlink()
            return
        if first > self._end or (self._segments and first != self._end):
            raise DataLost(f"spool {self._folder} lacks the rows {self._end} to {first - 1}")
        try:
            data = file.read_bytes()
            table = pa.ipc.open_stream(data).read_all()
        except (OSError, pa.ArrowException) as error:
            raise DataLost(f"spool segment {file} cannot be read: {error}") from None
        if table.num_rows != rows:
            raise DataLost(f"spool segment {file} has {table.num_rows} rows instead of {rows}")
        keys = [key for batch in table.to_batches() for key in keys_of(batch, self._dedup_header)]
        self._append(_Segment(first, rows, len(data), file, keys))

    def _append(self, segment: _Segment) -> None:
        self._segments.append(segment)
        self._known.update(segment.keys)
        self._size += segment.size
        self._end = segment.end

    # The receiver.

    def knows(self, key: str) -> bool:
        """True if a message with that key is kept, or was lately."""
        return key in self._known

    def full(self) -> bool:
        """True if the receiver must wait until Spark has taken rows."""
        return self._size >= self._most

    def keep(self, block: Block) -> None:
        """Write rows; on return they are on the disk.  `OSError`: they cannot be written; nothing was kept."""
        name = f"{self._end:020d}-{block.rows:010d}.arrow"
        path = self._folder / name
        self._write(path, block.data)
        with self._guard:
            self._append(_Segment(self._end, block.rows, len(block.data), path, block.keys))

    def confirmed(self, end: int) -> None:
        """The server has the ACKs of all rows before that one."""
        with self._guard:
            self._confirmed = max(self._confirmed, end)

    # Spark.

    def cut(self, start: int, rows: int, size: int) -> int:
        """The end of a batch that begins at a row: at most so many rows, and bytes unless one segment has more."""
        with self._guard:
            sizes = [(segment.end, segment.size) for segment in self._from(start)]
        return cut(sizes, start, rows, size)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The rows from start up to end.  `DataLost`: some are not there."""
        if not self.first <= start <= end <= self._end:
            raise DataLost(
                f"spool {self._folder} has the rows {self.first} to {self._end - 1}, and the checkpoint asks for "
                f"{start} to {end - 1}"
            )
        with self._guard:
            segments = self._from(start)
        found = []
        for segment in segments:
            if segment.first >= end:
                break
            skip = max(0, start - segment.first)
            take = min(end, segment.end) - segment.first - skip
            source = str(segment.path) if self._shared else segment.path.read_bytes()
            found.append(Piece(source, skip, take))
        return found

    def release(self, end: int) -> None:
        """All rows before that one are done."""
        with self._guard:
            gone = [each for each in self._segments if each.end <= end]
            self._segments = self._segments[len(gone) :]
            for segment in gone:
                self.first = segment.end
                self._done.extend(segment.keys)
                self._size -= segment.size
            surplus = len(self._done) - max(self._remembered, self.first - self._confirmed)
            self._known.difference_update([self._done.popleft() for _ in range(surplus)])
        if not gone:
            return
        self._write_state()
        for segment in gone:
            with contextlib.suppress(OSError):  # the next start deletes it
                segment.path.unlink()

    def _from(self, start: int) -> list[_Segment]:
        place = bisect.bisect_right(self._segments, start, key=lambda segment: segment.end)
        return self._segments[place:]

    # The disk.

    def _write_state(self) -> None:
        state = {"format": _FORMAT, "name": self.name, "first": self.first, "keys": list(self._done)}
        self._write(self._folder / "state.json", json.dumps(state).encode())

    def _write(self, path: Path, data: bytes) -> None:
        """Write a whole file: after a crash it is there completely or not at all."""
        hidden = path.with_name("_" + path.name)
        with open(hidden, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())
        hidden.rename(path)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
