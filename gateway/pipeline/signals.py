"""SIGTERM and Ctrl-C as an event, so that the running batch is finished.

Before anything has begun (`at_once`) a signal leaves the context, as if its block were over.  A second signal ends the
process like a kill; all files here survive that.  The status is 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


class _Left(BaseException):
    """The context is left; handlers of errors do not catch it."""


class StopOnSignal:
    """A context, in the main thread, in which signals set `event`; the first one is told by `say`."""

    def __init__(self, say: Callable[[str], None], until: str) -> None:
        self.event = threading.Event()
        self.until = until  # the work that is finished first, as the sentence goes on: `this batch is done`
        self._say = say
        self._at_once = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._stop) for each in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        return isinstance(error, _Left)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """A part of the block in which nothing has begun: a signal leaves the whole block, also one that came
        before."""
        self._at_once = True
        try:
            if self.event.is_set():
                raise _Left
            yield
        finally:
            self._at_once = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, _end)
        self.event.set()
        if self._at_once:
            self._say("Ends at once: nothing has begun.")
            raise _Left
        self._say(f"Ends when {self.until}; another Ctrl-C or SIGTERM ends it at once.")
