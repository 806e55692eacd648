"""What a relay has done and how it is, as its threads count it and another one reads it.

Each number has one thread that writes it, and is read as it happens to be: no lock is needed for that, and numbers of
one moment need not fit together to the last message.

A thread that waits for a server still turns, twice a second; the longest that it does not is one call to a server, some
ten seconds.  So one that has not turned for `STILL` will not do so by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass

from .link import ServerLink
from .settings import RelayPlan, address

STILL = 60.0
"""Seconds without a turn after which a thread counts as stuck: a name server that does not answer takes half of it."""


@dataclass
class Counts:
    """Messages, and the bytes of those that were relayed."""

    messages: int = 0
    nbytes: int = 0
    refused: int = 0
    loops: int = 0

    def __sub__(self, before: Counts) -> Counts:
        return Counts(*[each - other for each, other in zip(astuple(self), astuple(before), strict=True)])


class RelayStatus:
    """One direction.

    Args:
        held: how many messages are under way.

    Attributes:
        plan: what is relayed.
        links: to both servers, the source first.
        routes: source of a route -> what went by it since the start.
    """

    def __init__(self, plan: RelayPlan, source: ServerLink, target: ServerLink, held: Callable[[], int]) -> None:
        self.plan = plan
        self.links = (source, target)
        self.routes = {route.source: Counts() for route in plan.routes}
        self._held = held
        self._told = Counts()
        self._last: float | None = None
        self._turned = time.monotonic()

    # The relay's own thread.

    def turns(self) -> None:
        """The thread is not stuck."""
        self._turned = time.monotonic()

    def passed(self, route: str, nbytes: int) -> None:
        """A message was confirmed by the target."""
        counts = self.routes[route]
        counts.messages += 1
        counts.nbytes += nbytes
        self._last = time.monotonic()

    def news(self) -> Counts:
        """What came to all routes since this was asked last."""
        total = Counts(*[sum(column) for column in zip(*map(astuple, self.routes.values()), strict=True)])
        fresh, self._told = total - self._told, total
        return fresh

    # Everybody.

    @property
    def held(self) -> int:
        """Messages that have come and are not confirmed."""
        return self._held()

    @property
    def ends(self) -> dict[str, str]:
        """The addresses of both servers."""
        return {"source": address(self.plan.source), "target": address(self.plan.target)}

    def idle(self) -> float | None:
        """Seconds since the last message was confirmed; None: there was none."""
        return None if self._last is None else time.monotonic() - self._last

    def stuck(self) -> float:
        """Seconds for which the thread has stood still, if that is too long; else 0."""
        still = time.monotonic() - self._turned
        return still if still > STILL else 0.0


def not_alive(every: Iterable[RelayStatus]) -> str:
    """Why the process should be started again; "": it need not."""
    stuck = {each: each.stuck() for each in every}
    words = [f"{_between(each)} has stood still for {seconds:.0f} s" for each, seconds in stuck.items() if seconds]
    return "; ".join(words)


def not_ready(every: Iterable[RelayStatus]) -> str:
    """Who is away, and why; "": all are there."""
    away = {str(link): link.fault for each in every for link in each.links if link.client is None}
    return "; ".join([f"{name} is away: {fault}" for name, fault in away.items()])


def _between(status: RelayStatus) -> str:
    return f"the relay from {status.ends['source']} to {status.ends['target']}"
