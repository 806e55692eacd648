"""Accepts connections: one in a round of the loop, and where rounds are long one more for each share of that time.

Trio's listener accepts one in each round.  With a thousand publishers that are never idle a round takes 300 ms, and 900
clients that come back after a restart were not in after half a minute.  So it goes with who comes in as with strangers
in front of their read (`gate`): a flood of them gets some 15 % of the time, however long rounds are.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from time import perf_counter

import trio

from ..wire.fairness import SHARE_OF_STRANGERS


class Acceptor(trio.abc.Listener[trio.SocketStream]):
    """A listener of trio's, which it closes.

    Args:
        clock: seconds.
    """

    def __init__(self, listener: trio.SocketListener, clock: Callable[[], float] = perf_counter) -> None:
        self._listener = listener
        self._clock = clock
        of_trio = listener.socket
        # A second object for the same socket: trio's has no accept that does not wait.
        self._socket = socket.fromfd(of_trio.fileno(), of_trio.family, of_trio.type)
        self._socket.setblocking(False)
        self._left = 0  # in this round

    async def accept(self) -> trio.SocketStream:
        """The next connection; see `trio.SocketListener.accept`, also for what it raises.

        No checkpoint, as long as this round has room for one more.
        """
        if self._left:
            self._left -= 1
        else:
            began = self._clock()
            await trio.lowlevel.checkpoint()
            self._left = int((self._clock() - began) / SHARE_OF_STRANGERS)
        try:
            accepted, _ = self._socket.accept()
        except OSError:  # nobody is there, or trio knows what to do about it
            self._left = 0
            return await self._listener.accept()
        return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))

    async def aclose(self) -> None:
        """Close both."""
        self._socket.close()
        await self._listener.aclose()
