"""Metrics of overload: refused, held and closed connections by limit, and the memory of the process.

The labels are names of limits and reasons, which are few; all of them are there from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .metrics import labelled

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.transports.flow.back_pressure import BlockedPublishers
    from gateway.transports.flow.connection_limits import ConnectionLimits
    from gateway.transports.flow.memory_guard import MemoryGuard
    from gateway.transports.wire.fairness import FairGates

Family = CounterMetricFamily | GaugeMetricFamily


class OverloadCollector(Collector):
    """Reads the counts of the transports."""

    def __init__(
        self,
        broker: Broker,
        blocked: BlockedPublishers,
        limits: ConnectionLimits,
        guard: MemoryGuard,
        fair_gates: FairGates,
    ) -> None:
        self._broker = broker
        self._blocked = blocked
        self._limits = limits
        self._guard = guard
        self._fair_gates = fair_gates

    def collect(self) -> Iterator[Metric]:
        for family, name, text, label, values in self._by_label():
            yield labelled(family, name, text, label, values)
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(name, text, value)
        text = "Sessions ended because memory was full and they cost most."
        yield CounterMetricFamily("gateway_memory_closed", text, self._guard.closed)

    def _by_label(self) -> Iterator[tuple[type[Family], str, str, str, Mapping[str, int]]]:
        """Kind, name, help, label, and the number by the label's value."""
        limits, blocked, slow = self._limits, self._blocked, self._broker.context.slow_consumers
        text = "Connections refused, or closed, by a limit."
        yield CounterMetricFamily, "gateway_connections_over_limit", text, "limit", limits.refusals
        text = "Sessions that are not read now."
        yield GaugeMetricFamily, "gateway_sessions_held", text, "reason", blocked.by_reason()
        text = "Connections that wait for their turn to be read: senders of much data, and new connections."
        yield GaugeMetricFamily, "gateway_turnstile_waiting", text, "line", self._fair_gates.waiting
        text = "Times a session was not read for a while."
        yield CounterMetricFamily, "gateway_holds", text, "reason", blocked.totals
        text = "Sessions ended because the client did not read, by the limit of its outbox."
        yield CounterMetricFamily, "gateway_slow_consumers_over_limit", text, "limit", slow.by_limit

    def _gauges(self) -> Iterator[tuple[str, str, float]]:
        """Name, help and value."""
        limits, guard, memory = self._limits, self._guard, self._broker.memory
        yield "gateway_connections_open", "Connections, with or without a login.", limits.connections
        yield "gateway_handshakes", "Connections that have not logged in yet.", limits.handshakes
        yield "gateway_incomplete_bytes", "Bytes of messages that are not complete yet.", memory.partial
        text = "1 while publishers are held back because memory is short; else 0."
        yield "gateway_memory_short", text, memory.pressed
        text = "1 while memory is full, and new clients are sent away; else 0."
        yield "gateway_memory_full", text, bool(guard.reason)
        yield "gateway_memory_mark_bytes", "Memory that the process may take; 0: the memory guard is off.", guard.mark
        text = "Memory of the process at the last look; 0: the memory guard is off."
        yield "gateway_memory_resident_bytes", text, guard.resident
