"""The journal of a gateway: the rows that the broker tells, the thread that writes them, and the folder that is locked.

broker  ->  Rows (bytes of a row)  ->  Intake (what waits)  |  Worker  ->  Segments (files)
                                 event loop                  |  thread
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
    """A recorder (see `gateway.broker.core.ports`) that writes segments.

    It takes rows from the start, and writes them from `start` on.

    Attributes:
        epoch: microseconds since 1970; no other start of this gateway has it.
        worker: what it has written.
        segments: where.

    Args:
        folder: of all gateways; this one has its own in it.
        gateway: its id.
        run: what its message-ids start with, without the hyphen.
        bodies: bytes of a body that are kept, by destination.
        sync: when what is written is on the disk, too.
        limit: bytes that may wait to be written.
        holds: publishers are to be held back before that; else rows are dropped, and counted.
        segment_bytes, segment_seconds: a segment is complete after so many.
        call_soon: the thread's way to call something in the loop.  It must not raise.
        on_relief: called when `is_behind` ends.
        on_state: called when `failure` is another.
        on_mended: called with each segment of a dead process that was not whole.
        clock: nanoseconds, monotonic.
        wall: nanoseconds since 1970; asked at the start, and for each segment.

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
            raise ValueError(f"the journal's queue may have {_LEAST_LIMIT} to {_MOST_LIMIT} octets, not {limit}")
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
            self,
            self.segments,
            on_relief=lambda: call_soon(on_relief),
            on_state=lambda: call_soon(on_state),
        )

    def start(self) -> None:
        """Start writing."""
        self.worker.start()

    def close(self, seconds: float = 5.0) -> int:
        """Write what waits, complete the segment and give the folder free.  What is told after that is dropped.

        Args:
            seconds: that this may take, where the disk hangs.

        Returns:
            rows that could not be written.
        """
        self.end()
        if self.worker.finish(seconds) and self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        return self.worker.unwritten
