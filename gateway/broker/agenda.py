"""The agenda: what the broker has to do at a certain time, and what it did not finish in its turn.

The broker has no clock and no timer.  It reads the time where it needs it (`clock`), and asks to be called back at the
nearest due time (`wake`); the transports call `tick` then.  What would take too long at once is cut into pieces: the
rest is put into `unfinished`, and `proceed` carries out one piece.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable

Action = Callable[[], None]


class Entry:
    """Something to be done, or no longer.

    Attributes:
        action: None: it was cancelled, and refers to nothing any more.
    """

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action


# What is due in one turn; the rest of it follows in the next.
_ACTIONS_PER_TURN = 500
# Cancelled entries that may lie about, beside as many as are in force.
_SLACK = 16


class Agenda:
    """Things to do, by time.

    Args:
        clock: seconds, never going back.
        epoch: seconds since the epoch; may jump.
        wake: asks for a call of `tick` at a time of `clock`, not earlier.
        busy: asks for calls of `proceed` until it returns False.
    """

    __slots__ = ("_busy", "_cancelled", "_heap", "_serial", "_unfinished", "_wake", "_wakes_at", "clock", "epoch")

    def __init__(
        self,
        clock: Callable[[], float],
        epoch: Callable[[], float],
        wake: Callable[[float], None],
        busy: Callable[[], None],
    ) -> None:
        self.clock = clock
        self.epoch = epoch
        self._wake = wake
        self._busy = busy
        self._heap: list[tuple[float, int, Entry]] = []
        self._cancelled = 0
        self._serial = 0
        self._wakes_at = math.inf
        self._unfinished: deque[Action] = deque()

    def __len__(self) -> int:
        """Entries, also cancelled ones that are not swept yet."""
        return len(self._heap)

    def at(self, due: float, action: Action) -> Entry:
        """Carry out `action` at `due` (of `clock`); of equal times in the order given."""
        self._serial += 1
        entry = Entry(action)
        heapq.heappush(self._heap, (due, self._serial, entry))
        if due < self._wakes_at:
            self._wakes_at = due
            self._wake(due)
        return entry

    def cancel(self, entry: Entry | None) -> None:
        """Do not carry out an entry, if it is not carried out yet."""
        if entry is None or entry.action is None:
            return
        entry.action = None
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + _SLACK:
            self._heap = [each for each in self._heap if each[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def tick(self) -> None:
        """Carry out what is due."""
        self._wakes_at = math.inf
        now = self.clock()
        finished = True
        try:
            finished = self._carry_out(now)
        finally:  # a fault in one of them must not keep the others waiting for ever
            if not finished:
                self.later(self.tick)
            elif self._heap and self._heap[0][0] < self._wakes_at:
                self._wakes_at = self._heap[0][0]
                self._wake(self._wakes_at)

    def _carry_out(self, now: float) -> bool:
        """Carry out what is due; False: there is more of it."""
        for _ in range(_ACTIONS_PER_TURN):
            if not self._heap or self._heap[0][0] > now:
                return True
            entry = heapq.heappop(self._heap)[2]
            action, entry.action = entry.action, None
            if action is None:
                self._cancelled -= 1
            else:
                action()
        return False

    def later(self, action: Action) -> None:
        """Carry out `action` in a turn of its own, soon."""
        if not self._unfinished:
            self._busy()
        self._unfinished.append(action)

    def proceed(self) -> bool:
        """Carry out one of the unfinished things; False: there are no more."""
        if self._unfinished:
            self._unfinished.popleft()()
        return bool(self._unfinished)
