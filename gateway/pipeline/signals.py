"""SIGTERM and Ctrl-C as an event, so that what runs finishes its batch.

The first of them sets the event, and says what is waited for.  Where nothing is at stake (`at_once`) it also leaves the
context, as if its block were over.  Who does not want to wait sends another one: that ends the process as a kill does,
whatever any thread is at, and all that is written here outlives it.  Its status is 130 after Ctrl-C, 143 after SIGTERM.
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
    """The context is left; no handler of errors has to do with it."""


class StopOnSignal:
    """A context: within it the signals set `event`.  Only the main thread can have one.

    Args:
        say: is told once, in one sentence.

    Attributes:
        until: what is waited for, as the sentence goes on: `this batch is done`.
    """

    def __init__(self, say: Callable[[str], None], until: str) -> None:
        self.event = threading.Event()
        self.until = until
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
        """A part of the block in which nothing is at stake: a signal leaves all of it, also one that came before."""
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
            self._say("Ends at once, for nothing has been begun.")
            raise _Left
        self._say(f"Ends when {self.until}; another Ctrl-C or SIGTERM ends it at once.")
