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
    """Read each key at once, without echo, for the time of the block."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def wait_for_keys(seconds: float) -> str:
    """The pressed keys, as soon as there are any; "": none in so many seconds.  The end of the input reads as "q"."""
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], seconds)[0]:
        return ""
    return os.read(descriptor, 100).decode(errors="replace") or "q"
