"""What `/metrics` shows: every collector of `gateway.observe`, over one open gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from gateway.observe.destination_metrics import DestinationCollector
from gateway.observe.metrics import Metrics
from gateway.observe.overload_metrics import OverloadCollector
from gateway.observe.process_metrics import DiskCollector, HealthCollector, SpanCollector
from gateway.observe.timing_metrics import ACK, QUEUE, TURN, TimingCollector

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway


def metrics_of(gateway: Gateway, settings: Settings) -> Metrics:
    """All metrics of a gateway."""
    broker, certificates, functions = gateway.broker, gateway.certificates, gateway.functions
    others: list[Collector] = [
        OverloadCollector(broker, gateway.holds, gateway.admission, gateway.memory, gateway.fair_gates),
        HealthCollector(
            gateway.not_ready,
            gateway.complaints,
            None if certificates is None else lambda: certificates.ends,
            None if functions is None else lambda: functions.failures,
        ),
        DestinationCollector(broker, _dead_letter_queues(settings), settings.metrics_destinations),
        TimingCollector(
            (TURN, lambda: gateway.turns),
            (QUEUE, lambda: None if broker.records is None else broker.records.waited),
            (ACK, lambda: None if broker.records is None else broker.records.took),
        ),
    ]
    if gateway.tracing is not None:
        others.append(SpanCollector(gateway.tracing))
    return Metrics(
        broker,
        gateway.holds,
        gateway.committer,
        gateway.journal,
        others,
        DiskCollector(_folders(settings)),
    )


def _dead_letter_queues(settings: Settings) -> set[str]:
    """Those that policies name."""
    found = {policy.values.get("dead_letter") for policy in settings.policy}
    return {name for name in found if name}


def _folders(settings: Settings) -> dict[str, Path]:
    """Where the gateway writes."""
    folders = {"journal": settings.journal} if settings.journal is not None else {}
    if settings.store != "memory":
        folders["store"] = Path(settings.store.removeprefix("sqlite:")).absolute().parent
    return folders
