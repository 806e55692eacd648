"""Monitoring of a relay: its state, counted by its threads, and pages that another one serves.

Each number has one thread that writes it, so no lock is needed; numbers read together need not agree to the message.
A thread that waits for a server still turns, twice a second.  The longest call to a server takes some ten seconds, so a
thread that has not turned for `STILL` is stuck for good.

The pages (`process/pages.py`) are /healthz (its threads turn), /readyz (both servers are connected) and /metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.config.values import Address
from gateway.process.pages import HttpError as HttpError
from gateway.process.pages import ProcessPages, serving_pages

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
    stuck = [(" to ".join(each.ends.values()), each.stuck()) for each in every]
    return "; ".join(
        [f"the relay from {ends} has stood still for {seconds:.0f} s" for ends, seconds in stuck if seconds]
    )


def not_ready(every: Iterable[RelayStatus]) -> str:
    """The servers that are away, with reasons; "": all are connected."""
    away = {str(link): link.fault for each in every for link in each.links if link.client is None}
    return "; ".join([f"{name} is away: {fault}" for name, fault in away.items()])


# Two tables may have the same servers, so the number of the table is a label, too.
_LABELS = ("table", "source", "target")
# Attribute of `Counts`, name, help.
_OF_ROUTES = (
    ("messages", "gateway_relay_messages", "Messages that the target has confirmed."),
    ("nbytes", "gateway_relay_bytes", "Bytes of those messages, with their headers."),
    ("refused", "gateway_relay_messages_refused", "Messages that the target refuses; they were given back."),
    ("loops", "gateway_relay_messages_looped", "Messages that went in a circle; they were given back."),
)


class RelayMetrics(Collector):
    """Metrics of all directions and of the process, read at each scrape."""

    def __init__(self, every: Sequence[RelayStatus]) -> None:
        self._every = [
            ([str(number), each.ends["source"], each.ends["target"]], each) for number, each in enumerate(every, 1)
        ]
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format of an Accept header."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def collect(self) -> Iterator[Metric]:
        for attribute, name, text in _OF_ROUTES:
            routes = CounterMetricFamily(name, text, labels=(*_LABELS, "route"))
            for labels, each in self._every:
                for route, counts in each.routes.items():
                    routes.add_metric([*labels, route], getattr(counts, attribute))
            yield routes
        yield from self._of_directions()
        yield from self._of_links()

    def _of_directions(self) -> Iterator[Metric]:
        held = GaugeMetricFamily(
            "gateway_relay_in_flight", "Messages that have come and are not confirmed.", labels=_LABELS
        )
        idle = GaugeMetricFamily(
            "gateway_relay_idle_seconds",
            "Seconds since a message was confirmed; without a first one, no series.",
            labels=_LABELS,
        )
        for labels, each in self._every:
            held.add_metric(labels, each.held)
            if (seconds := each.idle()) is not None:
                idle.add_metric(labels, seconds)
        yield held
        yield idle

    def _of_links(self) -> Iterator[Metric]:
        names = (*_LABELS, "end")
        there = GaugeMetricFamily("gateway_relay_connected", "1 while that server is connected; else 0.", labels=names)
        again = CounterMetricFamily("gateway_relay_reconnects", "Connections after the first one.", labels=names)
        for labels, each in self._every:
            for link in each.links:
                there.add_metric([*labels, link.role], float(link.client is not None))
                again.add_metric([*labels, link.role], max(0, link.opened - 1))
        yield there
        yield again


@contextmanager
def serving(address: Address | None, every: Sequence[RelayStatus]) -> Iterator[None]:
    """Serve the pages for the time of the block; None: do not.  Raises HttpError: the address cannot be used."""
    pages = ProcessPages("relay", lambda: not_alive(every), lambda: not_ready(every), RelayMetrics(every).render)
    with serving_pages(None if address is None else (address.host, address.port), pages):
        yield
