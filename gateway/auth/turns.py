"""Whose turn it is for a guess: no address has more than a few places in the line, and none when it failed too often.

A thousand guesses of one address wait behind each other, and anybody else behind a few of them.  Those that wait when
the address has failed too often leave unheard: who asks for a thousand at once is not told more than who asks in turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from gateway.auth.failures import Failures
from gateway.net.client_address import network_of

PLACES = 4
"""Of one address at a time."""


class Turns:
    """Lines by address.  One that nobody stands in is forgotten.

    Args:
        failures: those that count; None: nobody counts them.
        places: in the line, of one address.
    """

    def __init__(self, failures: Failures | None = None, places: int = PLACES) -> None:
        self._failures = failures
        self._places = places
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def of(self, address: str, login: str = "") -> AsyncIterator[None]:
        """Wait for a place, and have it while the block runs.

        Raises:
            TooManyFailures: the address or the login has failed too often, perhaps while it waited.
        """
        self.check(address, login)
        network = network_of(address)
        line = self._lines.get(network)
        if line is None:
            line = self._lines[network] = _Line(self._places)
        line.length += 1
        try:
            async with line.places:
                self.check(address, login)
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[network]

    def check(self, address: str, login: str = "") -> None:
        """Refuse an address, or a login there, that has failed too often.

        Raises:
            TooManyFailures: it has.
        """
        if self._failures is not None:
            self._failures.check(address, login)


class _Line:
    """Those of one address who wait, or have a place."""

    __slots__ = ("length", "places")

    def __init__(self, places: int) -> None:
        self.length = 0
        self.places = trio.Semaphore(places)
