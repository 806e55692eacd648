"""How long the gateway's own turns are: functions that a gateway under attack is started with (`handlers`).

Between two of its waits for the system trio gives each task that can go on a turn: all of them are a round.  Whoever
comes in the middle of a round waits for its end.  Both are measured by the CPU time of trio's thread, so that other
processes, and other threads of this one, do not count.

    SUBSCRIBE /app/turns    is answered by JSON about the time since the last answer: `turn` and `round`, the longest
                            ones in milliseconds, and `where` the longest turn began
"""

from __future__ import annotations

import json
import time

import trio

from gateway.handlers import Handlers, Request

handlers = Handlers()


class Turns(trio.abc.Instrument):
    """The longest turn and round so far, in seconds."""

    def __init__(self) -> None:
        self.turn = self.round = 0.0
        self.where = ""  # the task of that turn
        self._began = self._woke = time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        self._woke = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        self.round = max(self.round, time.thread_time() - self._woke)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = time.thread_time() - self._began
        if took > self.turn:
            self.turn, self.where = took, task.name


_turns = Turns()
trio.lowlevel.add_instrument(_turns)  # the functions are loaded where the gateway runs


@handlers.subscribe("/app/turns")
async def turns(request: Request) -> str:
    """What was measured; from now on it is measured anew."""
    said = json.dumps({"turn": _turns.turn * 1000, "round": _turns.round * 1000, "where": _turns.where})
    _turns.turn = _turns.round = 0.0
    return said
