"""Scheduler: the actions that the broker has to carry out at a certain time, and those that it did not finish.

The broker has no clock and no timer.  It reads the time where it needs it (`clock`), and asks to be called back at the
nearest due time (`wake`); the transports call `tick` then.  Work that would take too long at once is a generator
(`run`), and `proceed` carries out one slice of it; other tasks have their turns in between.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from .work_limits import WORK_LIMITS, WorkLimits

Action = Callable[[], None]


class Timer:
    """Something to be done, or no longer."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action  # None: it was cancelled, and refers to nothing any more


# Cancelled entries that may lie about, beside as many as are in force.
_SLACK = 16


class Scheduler:
    """Things to do, by time.

    Args:
        clock: seconds, never going back.
        epoch: seconds since the epoch; may jump.
        wake: asks for a call of `tick` at a time of `clock`, not earlier.
        busy: asks for calls of `proceed` until it returns False.
    """

    __slots__ = (
        *("_actions_per_turn", "_busy", "_cancelled", "_heap", "_serial", "_sweeps_per_turn", "_swept"),
        *("_unfinished", "_wake", "_wakes_at"),
        *("clock", "epoch"),
    )

    def __init__(
        self,
        clock: Callable[[], float],
        epoch: Callable[[], float],
        wake: Callable[[float], None],
        busy: Callable[[], None],
        work_limits: WorkLimits = WORK_LIMITS,
    ) -> None:
        self.clock = clock
        self.epoch = epoch
        self._wake = wake
        self._busy = busy
        self._actions_per_turn = work_limits.actions_per_turn
        self._sweeps_per_turn = work_limits.sweeps_per_turn
        self._heap: list[tuple[float, int, Timer]] = []
        self._swept: list[tuple[float, int, Timer]] = []  # the next heap: timers in force go over, bit by bit
        self._cancelled = 0
        self._serial = 0
        self._wakes_at = math.inf
        self._unfinished: deque[Action] = deque()

    def __len__(self) -> int:
        """Entries, also cancelled ones that are not swept yet."""
        return len(self._heap) + len(self._swept)

    def at(self, due: float, action: Action) -> Timer:
        """Carry out `action` at `due` (of `clock`); of equal times in the order given."""
        # Also so that the heap never compares timers.
        self._serial += 1
        entry = Timer(action)
        heapq.heappush(self._heap, (due, self._serial, entry))
        if due < self._wakes_at:
            self._wakes_at = due
            self._wake(due)
        return entry

    def cancel(self, entry: Timer | None) -> None:
        """Do not carry out an entry, if it is not carried out yet."""
        if entry is None or entry.action is None:
            return
        # It stays in the heap, where to look for it would cost with their number, and refers to nothing.
        entry.action = None
        self._cancelled += 1
        if self._cancelled > len(self) // 2 + _SLACK and not self._swept:
            self._swept, self._heap = self._heap, []
            self.run(self._sweep())

    def _sweep(self) -> Iterator[None]:
        """Drop what was cancelled."""
        while self._swept:
            # From the end of the list: what is left is a heap still, so that timers can fall due between two turns.
            for _ in range(min(self._sweeps_per_turn, len(self._swept))):
                each = self._swept.pop()
                if each[2].action is None:
                    self._cancelled -= 1
                else:
                    heapq.heappush(self._heap, each)
            if self._swept:
                yield

    @property
    def next_due(self) -> float:
        """When the next thing is due, which may be cancelled; infinity: nothing is."""
        heap = self._next()
        return heap[0][0] if heap else math.inf

    def tick(self) -> None:
        """Carry out what is due."""
        # The wake that was asked for has come: an action may ask for the next one.
        self._wakes_at = math.inf
        now = self.clock()
        finished = True
        try:
            finished = self._carry_out(now)
        finally:  # a fault in one of them must not keep the others waiting for ever
            if not finished:
                self.later(self.tick)
            elif (heap := self._next()) and heap[0][0] < self._wakes_at:
                self._wakes_at = heap[0][0]
                self._wake(self._wakes_at)

    def _next(self) -> list[tuple[float, int, Timer]]:
        """The heap that has what is due first; empty: there is nothing."""
        heap, swept = self._heap, self._swept
        return swept if swept and not (heap and heap[0] < swept[0]) else heap

    def _carry_out(self, now: float) -> bool:
        """Carry out what is due; False: there is more of it."""
        for _ in range(self._actions_per_turn):
            heap = self._next()
            if not heap or heap[0][0] > now:
                return True
            entry = heapq.heappop(heap)[2]
            # Before it is called: a `cancel` from now on, perhaps by the action itself, finds nothing to cancel.
            action, entry.action = entry.action, None
            if action is None:
                self._cancelled -= 1
            else:
                action()
        return False

    def later(self, action: Action) -> None:
        """Carry out `action` in a turn of its own, soon."""
        # Once: the transports call `proceed` until nothing is left.
        if not self._unfinished:
            self._busy()
        self._unfinished.append(action)

    def run(self, slices: Iterator[None]) -> None:
        """Carry out a generator that yields where a turn may end: its first slice now, each other in a turn of its own.

        This is the way of all work that may be long.  Between two slices anything may have changed.

        A slice that raises is the last one, for a generator cannot go on: the log names the work, and all other work
        goes on.  What has to be done again and again begins anew with its next message or timer.
        """
        try:
            for _ in slices:
                self.later(partial(self.run, slices))
                return
        except Exception as error:
            error.add_note(f"the rest of {slices} is not carried out")
            raise

    def proceed(self) -> bool:
        """Carry out one of the unfinished things; False: there are no more."""
        if self._unfinished:
            self._unfinished.popleft()()
        return bool(self._unfinished)
