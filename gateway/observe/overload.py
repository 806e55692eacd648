"""Metrics of what is too much: who is refused, held back or closed, by the limit that did it, and what memory there is.

The labels are the names of limits and reasons, which are ours and few; all of them are there from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.transports.flow.back_pressure import BlockedPublishers
    from gateway.transports.flow.connection_limits import ConnectionLimits
    from gateway.transports.flow.memory_guard import MemoryGuard
    from gateway.transports.wire.fairness import FairGates


class OverloadCollector(Collector):
    """Reads what the transports count of it."""

    def __init__(
        self,
        broker: Broker,
        holds: BlockedPublishers,
        admission: ConnectionLimits,
        memory: MemoryGuard,
        fair_gates: FairGates,
    ) -> None:
        self._broker = broker
        self._holds = holds
        self._admission = admission
        self._memory = memory
        self._fair_gates = fair_gates

    def collect(self) -> Iterator[Metric]:
        """Every metric of overload."""
        broker, admission, memory = self._broker, self._admission, self._memory
        yield GaugeMetricFamily(
            "gateway_connections_open", "Connections that may stay, with or without a login.", admission.connections
        )
        yield GaugeMetricFamily("gateway_handshakes", "Connections that have not logged in yet.", admission.handshakes)
        yield _counter(
            "gateway_connections_over_limit", "Connections refused, or closed, by a limit.", "limit", admission.refusals
        )
        yield _gauge("gateway_sessions_held", "Sessions that are not read now.", "reason", self._holds.by_reason())
        yield _gauge(
            "gateway_turnstile_waiting",
            "Connections that wait for their turn to be read: who sends in bulk, and who is not known yet.",
            "line",
            self._fair_gates.waiting,
        )
        yield _counter("gateway_holds", "Times a session was not read for a while.", "reason", self._holds.totals)
        yield _counter(
            "gateway_slow_consumers_over_limit",
            "Sessions ended because the client did not read, by the limit of what waits for it.",
            "limit",
            broker.slow,
        )
        yield GaugeMetricFamily(
            "gateway_incomplete_bytes", "What has come of messages that are not complete.", broker.buffered
        )
        yield GaugeMetricFamily(
            "gateway_memory_short", "1 while publishers are held back because memory is short; else 0.", broker.pressed
        )
        yield GaugeMetricFamily(
            "gateway_memory_full", "1 while memory is full, and no new client should come; else 0.", bool(memory.reason)
        )
        yield CounterMetricFamily(
            "gateway_memory_closed", "Sessions ended because memory was full, and they cost most.", memory.closed
        )
        yield GaugeMetricFamily("gateway_memory_mark_bytes", "What the process may take; 0: nobody looks.", memory.mark)
        yield GaugeMetricFamily(
            "gateway_memory_resident_bytes", "What it took at the last look; 0: nobody looks.", memory.resident
        )


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _gauge(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
