"""Monitoring of a push: its state, counted by its tasks, and the metrics that pages in other threads show.

Each number has one thread that writes it, so no lock is needed; numbers read together need not agree to the message.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.client.asynchronous import AsyncClient
from gateway.config.values import Address
from gateway.process.pages import ProcessPages, serving_pages

from .endpoint import EndpointClient
from .request import Answer, Verdict
from .settings import PushPlan

STILL = 60.0  # seconds without a turn of the loop after which it counts as stuck
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class PushStatus:
    """One table.

    Attributes:
        client: the connection to the server; None: there is none yet, or no more.
        fault: why there is none.
        held: messages that have come and are not settled.
        counts: requests by their outcome.
        nbytes: of the bodies that were taken.
        histogram: seconds of the requests; the metrics set it.
    """

    def __init__(self, plan: PushPlan, endpoint: EndpointClient) -> None:
        self.plan = plan
        self.endpoint = endpoint
        self.client: AsyncClient | None = None
        self.fault = "it was not reached yet"
        self.held = 0
        self.counts = dict.fromkeys(Verdict, 0)
        self.nbytes = 0
        self.histogram: Histogram | None = None
        self._told = dict(self.counts)
        self._last: float | None = None

    def answered(self, answer: Answer, seconds: float, nbytes: int) -> None:
        """A request has ended."""
        self.counts[answer.verdict] += 1
        if answer.verdict is Verdict.TAKEN:
            self.nbytes += nbytes
            self._last = time.monotonic()
        if self.histogram is not None:
            self.histogram.observe(seconds)

    def news(self) -> dict[str, int]:
        """Counts since the last call."""
        fresh = {each.value: self.counts[each] - self._told[each] for each in Verdict}
        self._told = dict(self.counts)
        return fresh

    def idle(self) -> float | None:
        """Seconds since the last message was taken; None: there was none."""
        return None if self._last is None else time.monotonic() - self._last

    @property
    def is_connected(self) -> bool:
        return self.client is not None and self.client.is_connected

    @property
    def reason(self) -> str:
        """Why the server is not connected."""
        return self.fault if self.client is None else self.client.fault or "the connection is lost"

    def faults(self) -> list[str]:
        found = []
        if not self.is_connected:
            found.append(f"the server of {self.plan.source} is away: {self.reason}")
        if fault := self.endpoint.fault:
            found.append(f"{self.plan.endpoint.name} is down: {fault}")
        return found


class LoopWatch:
    """Whether the loop turns; `turns` is called every second or so."""

    def __init__(self) -> None:
        self._turned = time.monotonic()

    def turns(self) -> None:
        self._turned = time.monotonic()

    def not_alive(self) -> str:
        """The reason to restart the process; "": none."""
        still = time.monotonic() - self._turned
        return f"the loop has stood still for {still:.0f} s" if still > STILL else ""


def not_ready(every: Iterable[PushStatus]) -> str:
    """What is away, with reasons; "": nothing."""
    return "; ".join(dict.fromkeys([fault for each in every for fault in each.faults()]))


# Two tables may have the same source and URL, so the number of the table is a label, too.
_LABELS = ("table", "source", "url")


class PushMetrics(Collector):
    """Metrics of all tables and of the process, read at each scrape."""

    def __init__(self, every: Sequence[PushStatus]) -> None:
        self._every = [
            ([str(number), each.plan.source, each.plan.endpoint.name], each) for number, each in enumerate(every, 1)
        ]
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        seconds = Histogram(
            "gateway_push_request_seconds",
            "Seconds of requests, with the connection.",
            labelnames=_LABELS,
            registry=self._registry,
            buckets=_BUCKETS,
        )
        for labels, each in self._every:
            each.histogram = seconds.labels(*labels)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format of an Accept header."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "gateway_push_requests", "Requests by their outcome.", labels=(*_LABELS, "outcome")
        )
        nbytes = CounterMetricFamily("gateway_push_bytes", "Bytes of bodies that were taken.", labels=_LABELS)
        for labels, each in self._every:
            for verdict, count in each.counts.items():
                requests.add_metric([*labels, verdict.value], count)
            nbytes.add_metric(labels, each.nbytes)
        yield requests
        yield nbytes
        yield from self._gauges()

    def _gauges(self) -> Iterator[Metric]:
        held = GaugeMetricFamily("gateway_push_in_flight", "Messages that are not settled.", labels=_LABELS)
        there = GaugeMetricFamily("gateway_push_connected", "1 while the STOMP server is connected.", labels=_LABELS)
        works = GaugeMetricFamily("gateway_push_endpoint_up", "0 while the endpoint is down; else 1.", labels=_LABELS)
        idle = GaugeMetricFamily(
            "gateway_push_idle_seconds",
            "Seconds since a message was taken; without a first one, no series.",
            labels=_LABELS,
        )
        for labels, each in self._every:
            held.add_metric(labels, each.held)
            there.add_metric(labels, float(each.is_connected))
            works.add_metric(labels, float(not each.endpoint.fault))
            if (seconds := each.idle()) is not None:
                idle.add_metric(labels, seconds)
        yield from (held, there, works, idle)


@contextmanager
def serving(address: Address | None, every: Sequence[PushStatus], watch: LoopWatch) -> Iterator[None]:
    """Serve the pages for the time of the block; None: do not.  Raises HttpError: the address cannot be used."""
    pages = ProcessPages("push", watch.not_alive, lambda: not_ready(every), PushMetrics(every).render)
    with serving_pages(None if address is None else (address.host, address.port), pages):
        yield
