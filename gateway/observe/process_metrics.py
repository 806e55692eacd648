"""Metrics of the gateway's own condition: whether it is ready, until when its certificate is good, what its disks have
left, and what becomes of its spans.

To ask a disk may take long, where it is a network's.  So it is asked in a thread (`look`), before a scrape and for a
second at most; the figures shown are of the last look that came back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import trio
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LONGEST_LOOK = 1.0
"""Seconds; a scrape has ten of them by default."""


class DiskCollector(Collector):
    """What is free where the gateway writes.

    Args:
        folders: what it writes -> where; the keys become a label.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._found: dict[str, os.statvfs_result] = {}
        self._thread = trio.CapacityLimiter(1)

    async def look(self) -> None:
        """Ask the disks; one that hangs has one thread of ours, and no more."""
        if not self._folders or not self._thread.available_tokens:
            return
        with trio.move_on_after(LONGEST_LOOK):
            await trio.to_thread.run_sync(self.look_now, limiter=self._thread, abandon_on_cancel=True)

    def look_now(self) -> None:
        """Ask them, however long that takes."""
        for name, folder in self._folders.items():
            with suppress(OSError):  # whoever writes there says so
                self._found[name] = os.statvfs(folder)

    def collect(self) -> Iterator[Metric]:
        """What is free, and what there is."""
        free = GaugeMetricFamily(
            "gateway_disk_free_bytes", "What the disk has left on which it is written.", labels=["place"]
        )
        size = GaugeMetricFamily("gateway_disk_size_bytes", "What that disk has in all.", labels=["place"])
        for name, disk in list(self._found.items()):
            free.add_metric([name], disk.f_bavail * disk.f_frsize)
            size.add_metric([name], disk.f_blocks * disk.f_frsize)
        yield from (free, size)


class HealthCollector(Collector):
    """Whether the gateway is well.

    Args:
        not_ready: why no client should come; None: it should.
        complaints: what does not work as it should.
        certificate_ends: seconds since the epoch; None: there is no certificate.
        functions_failed: of the operator's functions; None: there are none.
    """

    def __init__(
        self,
        not_ready: Callable[[], str | None],
        complaints: Callable[[], Mapping[str, str]],
        certificate_ends: Callable[[], float] | None = None,
        functions_failed: Callable[[], int] | None = None,
    ) -> None:
        self._not_ready = not_ready
        self._complaints = complaints
        self._certificate_ends = certificate_ends
        self._functions_failed = functions_failed

    def collect(self) -> Iterator[Metric]:
        """Every metric of it."""
        yield GaugeMetricFamily(
            "gateway_ready", "1 while clients may be sent here; else 0, and /readyz says why.", not self._not_ready()
        )
        yield GaugeMetricFamily(
            "gateway_complaints",
            "What does not work as it should though clients are served; /readyz names it.",
            len(self._complaints()),
        )
        if self._certificate_ends is not None:
            yield GaugeMetricFamily(
                "gateway_certificate_expiry_timestamp_seconds",
                "Until when the certificate of the TLS listeners is good.",
                self._certificate_ends(),
            )
        if self._functions_failed is not None:
            yield CounterMetricFamily(
                "gateway_handler_failures",
                "Requests that a function of the setting handlers failed at, or refused, or took too long for.",
                self._functions_failed(),
            )


class Sender(Protocol):
    """What `gateway.observe.spans` counts; that module is there only where its packages are."""

    sent: int
    dropped: int
    left_out: int
    failure: str

    @property
    def waiting(self) -> int:
        """Spans that wait."""
        ...


class SpanCollector(Collector):
    """Reads what became of spans."""

    def __init__(self, spans: Sender) -> None:
        self._spans = spans

    def collect(self) -> Iterator[Metric]:
        """Every metric of them."""
        spans = self._spans
        yield CounterMetricFamily("gateway_spans_sent", "Spans that the collector of traces took.", spans.sent)
        yield CounterMetricFamily(
            "gateway_spans_dropped",
            "Spans that went nowhere: too many waited, or the collector did not take them.",
            spans.dropped,
        )
        yield CounterMetricFamily(
            "gateway_messages_untraced", "Messages that were not traced, for there were too many.", spans.left_out
        )
        yield GaugeMetricFamily("gateway_spans_waiting", "Spans that wait to be sent.", spans.waiting)
        yield GaugeMetricFamily(
            "gateway_spans_failed", "1 while the collector of traces takes nothing; else 0.", bool(spans.failure)
        )
