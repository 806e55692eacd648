"""The thread that writes the journal.

    step:  nothing waits          ->  look after the segments, sleep until a row comes
           rows wait              ->  sleep until 50 ms have gone since the last write, or until 1 MiB waits
           it is time             ->  one record
           the disk takes nothing ->  say so, keep the record, and try again after a second

`step` does what there is to do, and says for how long to sleep; the thread does nothing else.  So tests call it
themselves, with a clock of their own.

What the disk does not take waits in the queue, and the queue is what is bounded (`intake`).  So a short failure loses
nothing, and a long one is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .buffer import RowBuffer, joined
from .segments import Segments, reason_of

EVERY = 0.05
"""Seconds between two records."""

RETRY = 1.0
"""Seconds after which a record that failed is written again."""

_NANO = 1e-9


class Worker:
    """Takes rows out of an intake, and writes them to segments.

    Attributes:
        rows: that were written.
        nbytes: that were written.

    Args:
        on_relief: called when publishers who were held back can go on.
        on_state: called when `intake.failure` is another.
    """

    def __init__(
        self, intake: RowBuffer, segments: Segments, *, on_relief: Callable[[], None], on_state: Callable[[], None]
    ) -> None:
        self.rows = 0
        self.nbytes = 0
        self._intake = intake
        self._segments = segments
        self._on_relief = on_relief
        self._on_state = on_state
        self._held: tuple[int, list[bytes]] | None = None  # a record that is to be written
        self._due = 0.0
        self._retry_at: float | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def unwritten(self) -> int:
        """Rows that wait."""
        return self._intake.waiting + (self._held[0] if self._held else 0)

    def start(self) -> None:
        """Start the thread."""
        # A disk that hangs must not keep the process from ending: `finish` says how long it may.
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> bool:
        """Write what waits and end the thread; True: it has ended, and the last segment is complete.

        Args:
            seconds: after which it is given up.
        """
        self._closing = True
        self._intake.wake.set()
        if self._thread is None:
            self._end()
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def step(self) -> float | None:
        """Do what there is to do.

        Returns:
            seconds to sleep, or less if it is rung; None: until it is.
        """
        intake = self._intake
        intake.wake.clear()
        now = intake.clock() * _NANO
        if self._retry_at is not None:
            if now < self._retry_at and not self._closing:
                return self._retry_at - now
            self._retry_at = None
        if self._held is None and intake.is_empty():
            self._rest(now)
            return self._until(self._segments.due, now)
        if self._held is None and now < self._due and intake.queued < intake.step and not self._closing:
            self._tend(now)
            return self._until(self._due, now)
        self._write(now)
        if intake.queued >= intake.step and self._retry_at is None:
            return 0.0
        return self._until(self._due, now)  # even if nothing waits: under load nobody then has to ring

    def _until(self, date: float | None, now: float) -> float | None:
        if self._closing:  # it may have rung before this step began, which took that for a row's
            return 0.0
        if self._retry_at is not None:
            return self._retry_at - now
        dates = [each for each in (date, self._segments.due) if each is not None]
        return max(0.0, min(dates) - now) if dates else None

    def _write(self, now: float) -> None:
        intake = self._intake
        if self._held is None:
            rows = intake.take()
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
        intake.settle(nbytes)
        self._works()
        self._tend(now)
        self._relieve()

    def _rest(self, now: float) -> None:
        """Nothing waits."""
        self._tend(now)
        if self._intake.failure and self._retry_at is None:
            if self._segments.mend():
                self._works()
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

    def _works(self) -> None:
        self._say("")

    def _say(self, failure: str) -> None:
        if failure != self._intake.failure:
            self._intake.failure = failure
            self._on_state()

    def _relieve(self) -> None:
        if self._intake.is_relieved():
            self._on_relief()

    # the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._intake.wake.wait(self.step())
            self._end()
        except Exception as error:
            # A fault of this program: it is shown, and nobody waits for this thread any more.
            self._say(f"the journal has stopped: {error!r}")
            self._relieve()
            raise

    def _end(self) -> None:
        """Write what is left, and complete the segment."""
        while self.unwritten:
            self.step()
            if self._retry_at is not None:
                return  # it takes nothing
        try:
            self._segments.complete()
        except OSError as error:
            self._fail(error, 0.0)
