"""Metrics of overload: refused, held and closed connections by limit, and the memory of the process.

The labels are names of limits and reasons, which are few; all of them are there from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        broker, admission, holds, memory = self._broker, self._admission, self._holds, self._memory
        for family, name, text, label, values in (
            (
                CounterMetricFamily,
                "gateway_connections_over_limit",
                "Connections refused, or closed, by a limit.",
                "limit",
                admission.refusals,
            ),
            (
                GaugeMetricFamily,
                "gateway_sessions_held",
                "Sessions that are not read now.",
                "reason",
                holds.by_reason(),
            ),
            (
                GaugeMetricFamily,
                "gateway_turnstile_waiting",
                "Connections that wait for their turn to be read: senders of much data, and new connections.",
                "line",
                self._fair_gates.waiting,
            ),
            (CounterMetricFamily, "gateway_holds", "Times a session was not read for a while.", "reason", holds.totals),
            (
                CounterMetricFamily,
                "gateway_slow_consumers_over_limit",
                "Sessions ended because the client did not read, by the limit of its outbox.",
                "limit",
                broker.context.slow_consumers.by_limit,
            ),
        ):
            yield labelled(family, name, text, label, values)
        for name, text, value in (
            ("gateway_connections_open", "Connections, with or without a login.", admission.connections),
            ("gateway_handshakes", "Connections that have not logged in yet.", admission.handshakes),
            ("gateway_incomplete_bytes", "Bytes of messages that are not complete yet.", broker.memory.partial),
            (
                "gateway_memory_short",
                "1 while publishers are held back because memory is short; else 0.",
                broker.memory.pressed,
            ),
            (
                "gateway_memory_full",
                "1 while memory is full, and new clients are sent away; else 0.",
                bool(memory.reason),
            ),
            (
                "gateway_memory_mark_bytes",
                "Memory that the process may take; 0: the memory guard is off.",
                memory.mark,
            ),
            (
                "gateway_memory_resident_bytes",
                "Memory of the process at the last look; 0: the memory guard is off.",
                memory.resident,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        yield CounterMetricFamily(
            "gateway_memory_closed", "Sessions ended because memory was full and they cost most.", memory.closed
        )
