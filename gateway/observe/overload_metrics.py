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
        """Every metric of overload."""
        for name, text, label, values in self._counters():
            yield labelled(CounterMetricFamily, name, text, label, values)
        yield labelled(
            GaugeMetricFamily,
            "gateway_sessions_held",
            "Sessions that are not read now.",
            "reason",
            self._blocked.by_reason(),
        )
        yield labelled(
            GaugeMetricFamily,
            "gateway_turnstile_waiting",
            "Connections that wait for their turn to be read: senders of much data, and new connections.",
            "line",
            self._fair_gates.waiting,
        )
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(name, text, value)
        text = "Sessions ended because memory was full and they cost most."
        yield CounterMetricFamily("gateway_memory_closed", text, self._guard.closed)

    def _counters(self) -> Iterator[tuple[str, str, str, Mapping[str, int]]]:
        """Name, help, label, and the number by its value."""
        text = "Connections refused, or closed, by a limit."
        yield "gateway_connections_over_limit", text, "limit", self._limits.refusals
        yield "gateway_holds", "Times a session was not read for a while.", "reason", self._blocked.totals
        text = "Sessions ended because the client did not read, by the limit of its outbox."
        yield "gateway_slow_consumers_over_limit", text, "limit", self._broker.context.slow_consumers.by_limit

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
