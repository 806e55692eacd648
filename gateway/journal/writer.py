"""Journal of a gateway: the rows of the broker's events, the thread that writes them, and the lock of the folder.

broker  ->  Rows (bytes of a row)  ->  RowBuffer  |  Worker  ->  Segments (files)
                                event loop        |  thread

    step:  no row waits           ->  tend the segments, sleep until a row comes
           rows wait              ->  sleep until 50 ms after the last write, or until 1 MiB waits
           it is time             ->  write one record
           the disk takes nothing ->  say so, keep the record, and try again after a second

`step` does the work and returns the time to sleep, so tests call it with their own clock.  Rows that the disk does not
take wait in the buffer, which is bounded: a short failure loses none, a long one is counted.
"""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .record import RecordFacts
from .rows import ALL, RowBuffer, Rows, joined
from .segments import Mended, Segments, Sync, lock, reason_of

_MIB = 1024 * 1024
_LEAST_LIMIT = 64 * 1024
_MOST_LIMIT = 1024 * _MIB  # a record must stay below 4 GiB

EVERY = 0.05  # seconds between two records
RETRY = 1.0  # seconds after which a record that failed is written again

_NANO = 1e-9


class Worker:
    """Writes the rows of a buffer to segments.

    `on_relief`: called when held publishers may go on.  `on_state`: called when `buffer.failure` changes.
    """

    def __init__(
        self, buffer: RowBuffer, segments: Segments, *, on_relief: Callable[[], None], on_state: Callable[[], None]
    ) -> None:
        self.rows = 0  # number of written rows
        self.nbytes = 0  # number of written bytes
        self._buffer = buffer
        self._segments = segments
        self._on_relief = on_relief
        self._on_state = on_state
        self._held: tuple[int, list[bytes]] | None = None  # the record that is to be written
        self._due = 0.0
        self._retry_at: float | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def unwritten(self) -> int:
        """Rows that wait."""
        return self._buffer.waiting + (self._held[0] if self._held else 0)

    def start(self) -> None:
        # A daemon, because a disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> bool:
        """Write all rows and end the thread; True: it has ended, and the last segment is complete.

        `seconds`: the longest wait.
        """
        self._closing = True
        self._buffer.wake.set()
        if self._thread is None:
            self._end()
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def step(self) -> float | None:
        """Do the work that is due.  Returns the seconds to sleep unless `wake` is set; None: until it is set."""
        buffer = self._buffer
        buffer.wake.clear()
        now = buffer.clock() * _NANO
        if self._retry_at is not None:
            if now < self._retry_at and not self._closing:
                return self._retry_at - now
            self._retry_at = None
        if self._held is None and buffer.is_empty():
            self._rest(now)
            return self._until(self._segments.due, now)
        if self._held is None and now < self._due and buffer.queued < buffer.step and not self._closing:
            self._tend(now)
            return self._until(self._due, now)
        self._write(now)
        if buffer.queued >= buffer.step and self._retry_at is None:
            return 0.0
        return self._until(
            self._due, now
        )  # even if no row waits: under load the loop then never has to wake the thread

    def _until(self, date: float | None, now: float) -> float | None:
        if self._closing:  # this step may have cleared the wake-up of `finish`
            return 0.0
        if self._retry_at is not None:
            return self._retry_at - now
        dates = [each for each in (date, self._segments.due) if each is not None]
        return max(0.0, min(dates) - now) if dates else None

    def _write(self, now: float) -> None:
        buffer = self._buffer
        if self._held is None:
            rows = buffer.take()
            self._held = len(rows), joined(rows)
        count, pieces = self._held
        nbytes = sum([len(piece) for piece in pieces])
        try:
            self.nbytes += self._segments.write(count, pieces, now)
        except OSError as error:
            self._fail(error, now)
            return
        self._held = None
        self._due = now + EVERY
        self.rows += count
        buffer.settle(nbytes)
        self._say("")
        self._tend(now)
        self._relieve()

    def _rest(self, now: float) -> None:
        """No row waits."""
        self._tend(now)
        if self._buffer.failure and self._retry_at is None:
            if self._segments.mend():
                self._say("")
            else:
                self._retry_at = now + RETRY
        self._relieve()

    def _tend(self, now: float) -> None:
        try:
            self._segments.tend(now)
        except OSError as error:
            self._fail(error, now)

    def _fail(self, error: OSError, now: float) -> None:
        self._retry_at = now + RETRY
        self._say(f"the journal cannot be written: {reason_of(error)}")
        self._relieve()

    def _say(self, failure: str) -> None:
        if failure != self._buffer.failure:
            self._buffer.failure = failure
            self._on_state()

    def _relieve(self) -> None:
        if self._buffer.is_relieved():
            self._on_relief()

    # the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._buffer.wake.wait(self.step())
            self._end()
        except Exception as error:
            # A fault of this program: it is shown, and the loop no longer waits for this thread.
            self._say(f"the journal has stopped: {error!r}")
            self._relieve()
            raise

    def _end(self) -> None:
        """Write the rest, and complete the segment."""
        while self.unwritten:
            self.step()
            if self._retry_at is not None:
                return  # the disk takes nothing
        try:
            self._segments.complete()
        except OSError as error:
            self._fail(error, 0.0)


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
