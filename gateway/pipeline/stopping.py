"""SIGTERM and Ctrl-C as an event, so that what runs finishes its batch.

The first of them sets the event, and says so.  After it both have their usual meaning again: who does not want to wait
sends another one.

Spark puts a handler of its own in front of Ctrl-C when a session starts, and so `catch` is called again after that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """A context: within it the signals set `event`.  Only the main thread can have one.

    Args:
        say: is told once, in one sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.event = threading.Event()
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {each: signal.getsignal(each) for each in _SIGNALS}
        self.catch()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def catch(self) -> None:
        """Have the signals, unless one has come already."""
        if not self.event.is_set():
            for each in _SIGNALS:
                signal.signal(each, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self.event.set()
        self._say("Ends when this batch is done; another Ctrl-C or SIGTERM ends it at once.")
