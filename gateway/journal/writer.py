"""Journal of a gateway: the rows of the broker's events, the thread that writes them, and the lock of the folder.

broker  ->  Rows (bytes of a row)  ->  RowBuffer  |  Worker  ->  Segments (files)
                                event loop        |  thread
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .record import RecordFacts
from .rows import ALL, Rows
from .segments import Mended, Segments, Sync, lock
from .worker import Worker

_MIB = 1024 * 1024
_LEAST_LIMIT = 64 * 1024
_MOST_LIMIT = 1024 * _MIB  # a record must stay below 4 GiB


class Journal(Rows):
    """A recorder (see `gateway.broker.core.ports`) that writes segments, after `start`.

    Attributes:
        epoch: microseconds since 1970; unique among the starts of this gateway.
        worker: the writer thread.
        segments: the files.

    Args:
        folder: of all gateways; this one has a folder of its own in it.
        gateway: its id.
        run: the start of its message-ids, without the hyphen.
        bodies: bytes of a body that are kept, by destination.
        sync: when rows are synchronized to the disk.
        limit: most bytes that wait.
        holds: hold publishers back before the limit; otherwise rows are dropped and counted.
        segment_bytes, segment_seconds: size and time after which a segment is complete.
        call_soon: calls a function in the loop, from the thread; must not raise.
        on_relief: called when `is_behind` ends.
        on_state: called when `failure` changes.
        on_mended: called with each segment of a dead process that was not whole.
        clock: nanoseconds, monotonic.
        wall: nanoseconds since 1970.

    Raises:
        JournalError: the folder cannot be used, or another gateway uses it.
        ValueError: the limit is too small or too large.
    """

    def __init__(
        self,
        folder: Path,
        gateway: str,
        *,
        run: str,
        bodies: Callable[[str], int] = lambda _: ALL,
        sync: Sync = Sync.NONE,
        limit: int = 64 * _MIB,
        holds: bool = False,
        segment_bytes: int = 64 * _MIB,
        segment_seconds: float = 10.0,
        call_soon: Callable[[Callable[[], None]], None] = lambda action: action(),
        on_relief: Callable[[], None] = lambda: None,
        on_state: Callable[[], None] = lambda: None,
        on_mended: Callable[[Mended], None] = lambda _: None,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        if not _LEAST_LIMIT <= limit <= _MOST_LIMIT:
            raise ValueError(f"the journal's queue may have {_LEAST_LIMIT} to {_MOST_LIMIT} bytes, not {limit}")
        super().__init__(clock, limit, holds=holds, bodies=bodies)
        own = folder / gateway
        now = wall()
        self._lock, self.epoch = lock(own, now // 1000)
        facts = RecordFacts(gateway, run, self.epoch, now - clock())
        self.segments = Segments(
            own,
            facts,
            sync=sync,
            nbytes=segment_bytes,
            seconds=segment_seconds,
            offset=lambda: wall() - clock(),
            on_mended=lambda mended: call_soon(partial(on_mended, mended)),
        )
        self.worker = Worker(
            self, self.segments, on_relief=lambda: call_soon(on_relief), on_state=lambda: call_soon(on_state)
        )

    def start(self) -> None:
        self.worker.start()

    def close(self, seconds: float = 5.0) -> int:
        """Write the waiting rows, complete the segment and unlock the folder.  Later rows are dropped.

        `seconds`: longest wait for a disk that hangs.  Returns the number of rows that could not be written.
        """
        self.end()
        if self.worker.finish(seconds) and self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        return self.worker.unwritten
