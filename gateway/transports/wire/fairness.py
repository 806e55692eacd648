"""Fairness between connections: of those that take long, one is read in each round of the loop.

In a round trio gives a turn to every task that can go on.  Forty clients that send as fast as they can would all be
read between two reads of a client that sends a message now and then: 4 to 11 ms, where a turn of each takes 0.1 to 0.3.
So clients that send in bulk wait in a line in front of their reads, and clients that have not logged in wait in
another; all others find one client of each line in front of them.

Where a round takes long one would be too few: a thousand publishers that are never idle make rounds of 300 ms, and
clients that come back after a restart would log in one by one.  So one more passes for each `share` of time that the
round took: a line always gets some 15 % of the whole.  A gate is no lock: a client that has passed may wait, or end.
"""

from collections.abc import Callable, Iterator
from time import perf_counter

import trio

SHARE_OF_HANDSHAKES = 0.002
"""Seconds of a round for each client that has not logged in: its turn takes 0.1 to 0.3 ms."""
_SHARE_OF_BULK = 0.02  # seconds for each client that sends in bulk: its turn takes 3 ms at most


class FairGate:
    """Lets one task pass in a round, in the order in which they came; one more for each `share` of seconds that the
    round takes.  Without its keeper it is open."""

    __slots__ = ("_clock", "_is_shut", "_keeper", "_line", "_share")

    def __init__(self, share: float = _SHARE_OF_BULK, clock: Callable[[], float] = perf_counter) -> None:
        self._share = share
        self._clock = clock
        self._line = trio.lowlevel.ParkingLot()
        self._keeper = trio.lowlevel.ParkingLot()
        self._is_shut = False

    @property
    def waiting(self) -> int:
        """Tasks that wait for their turn."""
        return len(self._line)

    async def enter(self) -> None:
        """Wait for a turn; no checkpoint if no other task had one in this round."""
        if self._is_shut:
            await self._line.park()
        elif self._keeper:
            self._is_shut = True
            self._keeper.unpark()

    async def run(self) -> None:
        """Be its keeper, until cancelled."""
        began = self._clock()
        try:
            while True:
                if self._line:
                    now = self._clock()
                    self._line.unpark(count=1 + int((now - began) / self._share))
                    began = now
                    await trio.lowlevel.checkpoint()
                else:
                    self._is_shut = False
                    await self._keeper.park()
                    began = self._clock()
        finally:
            self._is_shut = False
            self._line.unpark_all()


class FairGates:
    """The gates of all connections."""

    def __init__(self) -> None:
        self.handshakes = FairGate(SHARE_OF_HANDSHAKES)  # of clients that have not logged in, or are being closed
        self.bulk = FairGate()  # of clients that send more than one read takes, or than is handled in one turn

    @property
    def waiting(self) -> dict[str, int]:
        """Tasks that wait for their turn, by gate, as the metrics name it."""
        return {"strangers": self.handshakes.waiting, "bulk": self.bulk.waiting}

    async def pause(self) -> None:
        """In the middle of a chunk: let all others have their turn."""
        await trio.lowlevel.checkpoint()
        await self.bulk.enter()

    async def run(self) -> None:
        """Keep them, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.handshakes.run)
            nursery.start_soon(self.bulk.run)


async def in_steps(steps: Iterator[None]) -> None:
    """Do all steps, also in a cancelled task; other tasks have their turn between two."""
    for _ in steps:
        await trio.lowlevel.cancel_shielded_checkpoint()
