"""Whose turn it is for something slow: no address has more than a few places in the line.

A thousand guesses of one address wait behind each other, and anybody else behind a few of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

PLACES = 4
"""Of one address at a time."""


class Turns:
    """Lines by address.  One that nobody stands in is forgotten."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def of(self, address: str) -> AsyncIterator[None]:
        """Wait for a place, and have it while the block runs."""
        line = self._lines.setdefault(address, _Line())
        line.length += 1
        try:
            async with line.places:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[address]


class _Line:
    """Those of one address who wait, or have a place."""

    __slots__ = ("length", "places")

    def __init__(self) -> None:
        self.length = 0
        self.places = trio.Semaphore(PLACES)
