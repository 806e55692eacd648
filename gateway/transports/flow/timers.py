"""Timer wheel: one task for all timers of all connections (heart-beats, silence, WebSocket pings).

A timer per connection would cost a task each and a cancel scope per read (6 us).  Instead each timer says when it is
due next, and stands in the slot of that moment; one task walks over the slots, `TICK` apart.  The timer of a connection
that was busy meanwhile just asks for a later slot, so traffic costs the wheel nothing.
"""

import heapq
import math
from collections.abc import Callable
from typing import Protocol

import structlog
import trio

log = structlog.get_logger("gateway.wheel")

TICK = 0.02  # seconds; heart-beats are sent early by more than that


class WheelTimer(Protocol):
    """Stands on the wheel."""

    def tick(self, now: float) -> float:
        """Act on what is due; returns when it is due next, or infinity to leave the wheel."""


class TimerWheel:
    """Slots of a fixed width in time.  `on_turn`: called before the timers that are due."""

    def __init__(self) -> None:
        self.on_turn: Callable[[], None] = lambda: None
        self._slots: dict[int, list[WheelTimer]] = {}
        self._order: list[int] = []  # a heap of the slots' numbers
        self._filled = trio.Event()

    def add(self, timer: WheelTimer, when: float) -> None:
        """Call `timer.tick` at `when` (seconds of trio's clock), or up to one `TICK` later."""
        if when == math.inf:
            return
        number = math.ceil(when / TICK)
        if number * TICK < when:  # by a rounding error, and too early is never
            number += 1
        slot = self._slots.get(number)
        if slot is None:
            self._slots[number] = [timer]
            heapq.heappush(self._order, number)
            if self._order[0] == number:
                self._filled.set()
        else:
            slot.append(timer)

    async def run(self) -> None:
        """Turn until cancelled."""
        while True:
            if not self._order:
                self._filled = trio.Event()
                await self._filled.wait()
            with trio.move_on_at(self._order[0] * TICK):
                # A slot that is nearer than the nearest so far ends the sleep.
                self._filled = trio.Event()
                await self._filled.wait()
            # If the loop stood still, bytes of clients may wait unread: their readers go first.
            await trio.lowlevel.checkpoint()
            self.on_turn()
            now = trio.current_time()
            while self._order and self._order[0] * TICK <= now:
                for timer in self._slots.pop(heapq.heappop(self._order)):
                    self._tick(timer, now)

    def _tick(self, timer: WheelTimer, now: float) -> None:
        try:
            self.add(timer, max(timer.tick(now), now + TICK))
        except Exception:  # one fault must not stop the clock of all others
            log.exception("a timer failed")
