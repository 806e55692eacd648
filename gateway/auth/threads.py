"""Threads for what is made to be slow: they give way to all else that the machine has to do.

Two threads that verify passcodes leave the loop no core of two: each time that it wakes it would wait for its slice,
some milliseconds.  With a lower priority they are put aside at once (2 spinning threads on 2 cores: a waking thread
waits 2 ms beside equals at the 99th percentile, 0.1 ms beside these), and a machine with nothing else to do is theirs.

They are none of trio's, whose threads go from hand to hand: next it is the store's writer, and a thread without
privileges cannot raise its priority again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import trio

NICENESS = 10
"""Of such a thread, on top of the process's: a tenth of what an equal gets, where the cores do not suffice."""

T = TypeVar("T")


class SlowThreads:
    """So many of them; what is more waits in line.

    Args:
        count: of threads.
    """

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, "gateway-slow", _give_way)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in one of them.

        When the caller is cancelled, what stands in line leaves it, and what has begun goes on for nobody.

        Raises:
            Exception: what the function raises.
        """
        token = trio.lowlevel.current_trio_token()
        done = trio.Event()

        def tell(_: Future[T]) -> None:
            with suppress(trio.RunFinishedError):  # nobody waits any more
                token.run_sync_soon(done.set)

        future = self._pool.submit(function, *arguments)
        future.add_done_callback(tell)
        try:
            await done.wait()
        finally:
            future.cancel()  # of no effect on what is done
        return future.result()


def _give_way() -> None:
    """Lower the priority of this thread.  Elsewhere than on Linux it would be that of the process, or of another."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may not allow even this
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)
