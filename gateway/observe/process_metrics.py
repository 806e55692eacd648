"""Metrics of the process: readiness, certificate, disks and spans.

A network disk may take long to answer.  So the disks are asked in a thread before a scrape (`look`), for a second at
most; the metrics show the last answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from .spans import Spans

LONGEST_LOOK = 1.0  # seconds; a scrape has ten of them by default


class DiskCollector(Collector):
    """Free space of the disks that the gateway writes to.

    `folders`: kind of files -> their folder; the kinds become a label.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self._found: dict[str, os.statvfs_result] = {}
        self._thread = trio.CapacityLimiter(1)

    async def look(self) -> None:
        """Ask the disks, in one thread at most: a disk that hangs blocks that one alone."""
        if not self._folders or not self._thread.available_tokens:
            return
        with trio.move_on_after(LONGEST_LOOK):
            await trio.to_thread.run_sync(self.look_now, limiter=self._thread, abandon_on_cancel=True)

    def look_now(self) -> None:
        """Ask the disks, without a limit of time."""
        for name, folder in self._folders.items():
            with suppress(OSError):  # store or journal reports it
                self._found[name] = os.statvfs(folder)

    def collect(self) -> Iterator[Metric]:
        free = GaugeMetricFamily("gateway_disk_free_bytes", "Free space of the disk.", labels=["place"])
        size = GaugeMetricFamily("gateway_disk_size_bytes", "Size of the disk.", labels=["place"])
        for name, disk in list(self._found.items()):
            free.add_metric([name], disk.f_bavail * disk.f_frsize)
            size.add_metric([name], disk.f_blocks * disk.f_frsize)
        yield from (free, size)


class HealthCollector(Collector):
    """Health of the gateway.

    Args:
        not_ready: the reason why clients must not be sent here; None: they may.
        complaints: faults that do not keep clients away.
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
        yield GaugeMetricFamily(
            "gateway_ready", "1 while clients may be sent here; else 0, and /readyz says why.", not self._not_ready()
        )
        yield GaugeMetricFamily(
            "gateway_complaints", "Faults that do not keep clients away; /readyz names them.", len(self._complaints())
        )
        if self._certificate_ends is not None:
            yield GaugeMetricFamily(
                "gateway_certificate_expiry_timestamp_seconds",
                "End of the certificate of the TLS listeners.",
                self._certificate_ends(),
            )
        if self._functions_failed is not None:
            yield CounterMetricFamily(
                "gateway_handler_failures",
                "Requests that a function of the setting handlers failed at, refused, or took too long for.",
                self._functions_failed(),
            )


class SpanCollector(Collector):
    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def collect(self) -> Iterator[Metric]:
        spans = self._spans
        for name, text, value in (
            ("gateway_spans_sent", "Spans that the collector of traces took.", spans.sent),
            (
                "gateway_spans_dropped",
                "Spans dropped because too many waited, or because the collector did not take them.",
                spans.dropped,
            ),
            ("gateway_messages_untraced", "Messages that were not traced, because too many came.", spans.left_out),
        ):
            yield CounterMetricFamily(name, text, value)
        yield GaugeMetricFamily("gateway_spans_waiting", "Spans that wait to be sent.", spans.waiting)
        yield GaugeMetricFamily(
            "gateway_spans_failed", "1 while the collector of traces takes nothing; else 0.", bool(spans.failure)
        )
