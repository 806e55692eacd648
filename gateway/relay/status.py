"""State of a relay: counted by its threads, read by another one.

Each number has one thread that writes it, so no lock is needed; numbers read together need not agree to the message.

A thread that waits for a server still turns, twice a second.  The longest call to a server takes some ten seconds, so a
thread that has not turned for `STILL` is stuck for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass

from .link import ServerLink
from .settings import RelayPlan, address

STILL = 60.0  # seconds without a turn after which a thread counts as stuck: a silent name server takes half of them


@dataclass
class Counts:
    """Numbers of messages, and the bytes of the relayed ones."""

    messages: int = 0
    nbytes: int = 0
    refused: int = 0
    loops: int = 0

    def __sub__(self, before: Counts) -> Counts:
        return Counts(*[each - other for each, other in zip(astuple(self), astuple(before), strict=True)])


class RelayStatus:
    """One direction.

    `held`: returns the number of messages in flight.  `routes`: source of a route -> its counts since the start.
    """

    def __init__(self, plan: RelayPlan, source: ServerLink, target: ServerLink, held: Callable[[], int]) -> None:
        self.plan = plan
        self.links = (source, target)  # to both servers, the source first
        self.routes = {route.source: Counts() for route in plan.routes}
        self._held = held
        self._told = Counts()
        self._last: float | None = None
        self._turned = time.monotonic()

    # In the relay's own thread.

    def turns(self) -> None:
        self._turned = time.monotonic()

    def passed(self, route: str, nbytes: int) -> None:
        """The target confirmed a message."""
        counts = self.routes[route]
        counts.messages += 1
        counts.nbytes += nbytes
        self._last = time.monotonic()

    def news(self) -> Counts:
        """Counts of all routes since the last call."""
        total = Counts(*[sum(column) for column in zip(*map(astuple, self.routes.values()), strict=True)])
        fresh, self._told = total - self._told, total
        return fresh

    # In any thread.

    @property
    def held(self) -> int:
        return self._held()

    @property
    def ends(self) -> dict[str, str]:
        return {"source": address(self.plan.source), "target": address(self.plan.target)}

    def idle(self) -> float | None:
        """Seconds since the last message was confirmed; None: there was none."""
        return None if self._last is None else time.monotonic() - self._last

    def stuck(self) -> float:
        """Seconds since the last turn if the thread is stuck; else 0."""
        still = time.monotonic() - self._turned
        return still if still > STILL else 0.0


def not_alive(every: Iterable[RelayStatus]) -> str:
    """The reason to restart the process; "": none."""
    stuck = {each: each.stuck() for each in every}
    words = [f"{_between(each)} has stood still for {seconds:.0f} s" for each, seconds in stuck.items() if seconds]
    return "; ".join(words)


def not_ready(every: Iterable[RelayStatus]) -> str:
    """The servers that are away, with reasons; "": all are connected."""
    away = {str(link): link.fault for each in every for link in each.links if link.client is None}
    return "; ".join([f"{name} is away: {fault}" for name, fault in away.items()])


def _between(status: RelayStatus) -> str:
    return f"the relay from {status.ends['source']} to {status.ends['target']}"
