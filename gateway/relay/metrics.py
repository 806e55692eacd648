"""The metrics of a relay, for Prometheus: read off when somebody asks.

Every series has the addresses of both servers and the number of its table, for two may have the same servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .status import RelayStatus

_LABELS = ("table", "source", "target")
# Attribute of `Counts`, name, help.
_OF_ROUTES = (
    ("messages", "gateway_relay_messages", "Messages that the target has confirmed."),
    ("nbytes", "gateway_relay_bytes", "Octets of those messages, with their headers."),
    ("refused", "gateway_relay_messages_refused", "Messages that the target does not want; they were given back."),
    ("loops", "gateway_relay_messages_looped", "Messages that went in a circle; they were given back."),
)


class RelayMetrics:
    """Those of all directions, and of the process.

    Args:
        every: in the order of the tables.
    """

    def __init__(self, every: Sequence[RelayStatus]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Directions(every))
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the form that an Accept header asks for."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type


class _Directions(Collector):
    def __init__(self, every: Sequence[RelayStatus]) -> None:
        self._every = [
            ([str(number), each.ends["source"], each.ends["target"]], each) for number, each in enumerate(every, 1)
        ]

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
        held = GaugeMetricFamily("gateway_relay_in_flight", "Messages that came and are not confirmed.", labels=_LABELS)
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
        there = GaugeMetricFamily("gateway_relay_connected", "1: that server is there.", labels=names)
        again = CounterMetricFamily(
            "gateway_relay_reconnects", "Connections made behind one that was lost.", labels=names
        )
        for labels, each in self._every:
            for link in each.links:
                there.add_metric([*labels, link.role], float(link.client is not None))
                again.add_metric([*labels, link.role], max(0, link.opened - 1))
        yield there
        yield again
