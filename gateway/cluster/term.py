"""Term: the time of a node as primary, from the lease that it won until any of its threads tells the end; and how long
each stage of the take-over before it took, from the last sign of the old primary until clients may connect.

lease      this node has the lease
log        it has applied the rest of the log, which then has the record of its epoch
recovery   the broker has all messages
open       the listeners take clients
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import trio

from .directory import Directory, Primary
from .follower import Follower
from .lease import Lease
from .store import ReplicatedStore

STAGES = ("lease", "log", "recovery", "open")


class TakeOver:
    """The stages that are over, in their order.

    `began`: when this node last saw the old primary, by the clock.  `messages`: of the log, applied in the second
    stage.
    """

    def __init__(self, began: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.began = began
        self.messages = 0
        self._clock = clock
        self._ends: dict[str, float] = {}

    def reached(self, stage: str, at: float | None = None) -> None:
        """A stage is over.  `at`: by the clock; None: now."""
        self._ends[stage] = self._clock() if at is None else at

    def stages(self) -> Iterator[tuple[str, float, float]]:
        """Each stage with its start and end, by the clock."""
        start = self.began
        for stage, end in self._ends.items():
            yield stage, start, end
            start = end

    @property
    def seconds(self) -> dict[str, float]:
        """How long each stage took."""
        return {stage: round(end - start, 3) for stage, start, end in self.stages()}

    @property
    def total(self) -> float:
        """Seconds for all of it."""
        return round(max(self._ends.values(), default=self.began) - self.began, 3)


class Term:
    """The time of a node as primary.

    `lease`: the caller starts to renew it.  `store`: there once the log is taken over.  `ended`: set when the term is
    over; `reason` says why, empty: it goes in order.  `on_lost`: called when another node is primary, or shall be: also
    after the end, for the gateway may still be at its last words.

    Args:
        directory: for the thread of the lease alone.
        revision, taken: see `Lease`.
    """

    store: ReplicatedStore

    def __init__(self, directory: Directory, value: Primary, revision: int, taken: float) -> None:
        self.ended = trio.Event()
        self.reason = ""
        self.on_lost: Callable[[], None] = lambda: None
        self._token = trio.lowlevel.current_trio_token()
        self.lease = Lease(directory, value, revision, taken, partial(self._lose_soon, "the lease was lost"))

    def take_over(self, follower: Follower, version: str, form: int) -> None:
        """Become the writer of the log; blocks.  All as `Follower.take_over`."""
        value = self.lease.value
        on_fenced = partial(self._lose_soon, "another node writes to the log")
        self.store = follower.take_over(value.node, value.address, version, on_fenced, form)

    def end(self) -> None:
        """End it in order."""
        self.ended.set()

    def lose(self, reason: str) -> None:
        """Nothing can be written any more; the first reason counts."""
        self.reason = self.reason or reason
        self.ended.set()
        self.on_lost()

    def _lose_soon(self, reason: str) -> None:
        """The same, from any thread."""
        self._token.run_sync_soon(self.lose, reason)
