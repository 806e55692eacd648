"""Single keys of a terminal, without Enter, and a wait that a key ends."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_keys() -> Iterator[None]:
    """The terminal hands over each key at once, and does not show it, for the time of the block."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def wait_for_keys(seconds: float) -> str:
    """The keys that were pressed, as soon as there are any; "": none in so many seconds.

    "q" stands for the end of the input, too.
    """
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], seconds)[0]:
        return ""
    return os.read(descriptor, 100).decode(errors="replace") or "q"
