"""Page of the metrics.

    python -m docs.generate.metrics > docs/metrics.md

All of it comes from the metrics of an idle broker.  A test compares the committed page, and another test
the names of a running gateway.
"""

from __future__ import annotations

import collections
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from prometheus_client.metrics_core import Metric

from gateway.admin.cluster import ROLES, STAGES
from gateway.broker.broker import Broker
from gateway.broker.core.histogram import Histogram
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.storage import Storage
from gateway.journal import Journal
from gateway.observe.destination_metrics import MOST_SHOWN, DestinationMetrics
from gateway.observe.metrics import (
    ACK,
    QUEUE,
    TURN,
    Disks,
    of_broker,
    of_cluster,
    of_edges,
    of_health,
    of_journal,
    of_overload,
    of_spans,
    of_store,
    of_timings,
)
from gateway.transports.flow.back_pressure import REASONS
from gateway.transports.flow.connection_limits import Capacity, ConnectionLimits
from gateway.transports.wire.fairness import FairGates

if TYPE_CHECKING:
    from gateway.observe.spans import Spans
    from gateway.stores.writer import Committer
    from gateway.transports.flow.back_pressure import BlockedPublishers
    from gateway.transports.flow.memory_guard import MemoryGuard

HEAD = """\
# Metrics

Written by `make docs` from `gateway/observe/`. `/metrics` has them as Prometheus or OpenMetrics text, for requests with
`Authorization: Bearer` and the `metrics_token` or `admin_token`; while neither is set, for this machine.

[prometheus.yml](../deploy/prometheus/prometheus.yml) scrapes a gateway, [rules.yml](../deploy/prometheus/rules.yml) has
the [alerts](alerts.md), and [stomp-gateway.json](../deploy/grafana/stomp-gateway.json) is a dashboard for Grafana.

A scrape takes 1 or 2 ms of the event loop, and up to 10 ms more with very many queues. Clients choose no values of
labels, and all are there from the start. `_total` is a counter, the others are gauges, except where the text says so; a
gauge that is 1 while something is so is 0 otherwise.

"""

_SECTIONS = (
    ("Clients and messages", ""),
    ("Overload", ""),
    ("Condition", ""),
    ("Disks", "With a store or a journal. Disks are asked before each scrape, for a second at most."),
    (
        "Destinations",
        (
            "Up to 10,000 destinations the sums are those of the scrape. `gateway_destination_...` have the label "
            f"`destination`: those of `metrics_destinations`, {MOST_SHOWN} at most."
        ),
    ),
    ("Times", "The last two: with a journal, or with traces."),
    ("Store", "With the setting of that name."),
    ("Journal", "With the setting of that name."),
    ("Traces", "With [traces](tracing.md)."),
    ("Edges", "Also those of other machines. The metrics of the process, below, are those of the primary."),
    ("Cluster", "With the setting of that name."),
)

_MANY = 5  # values of a label that are not repeated

_PROCESS = """
## Process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`, as in Prometheus' client libraries.
"""


def page() -> str:
    """The reference page, in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        sections = [
            "\n\n".join(filter(None, (f"## {title}", text, "".join(_list(metrics)))))
            for (title, text), metrics in zip(_SECTIONS, every(Path(folder)), strict=True)
        ]
    return HEAD + "\n".join(sections) + _PROCESS


def every(folder: Path) -> Iterator[Iterator[Metric]]:
    """All metrics, of idle parts, in the order of the page."""
    broker = Broker()
    yield of_broker(broker, ())
    none = dict.fromkeys(REASONS, 0)
    holds = cast("BlockedPublishers", SimpleNamespace(by_reason=lambda: none, totals=none))
    memory = cast("MemoryGuard", SimpleNamespace(reason="", closed=0, mark=0, resident=0))
    yield of_overload(broker, holds, ConnectionLimits(Capacity()), memory, FairGates())
    yield of_health(None, (), 0.0, 0)
    disks = Disks({"store": folder, "journal": folder})
    disks.look_now()
    yield disks.metrics()
    broker.registry.create_queue("/queue/orders")
    yield DestinationMetrics(broker, (), ["/queue/orders"]).metrics()
    yield of_timings((TURN, Histogram()), (QUEUE, Histogram()), (ACK, Histogram()))
    committer = cast("Committer", SimpleNamespace(commits=0, seconds=0.0, rows=0, failures=0, damaged=0))
    yield of_store(Storage(Metadata(lambda: 0.0, lambda: 0.0), busy=lambda: None), committer)
    journal = Journal(folder, "gateway", run="r")
    yield of_journal(journal)
    journal.start()
    journal.close()
    yield of_spans(cast("Spans", SimpleNamespace(sent=0, dropped=0, left_out=0, failure="", waiting=0)))
    yield of_edges([collections.defaultdict(int, edge="1")])
    yield of_cluster(
        role="standby",
        epoch=1,
        lag=0,
        nodes=dict.fromkeys(ROLES, 0),
        log_messages=0,
        log_bytes=0,
        room_used=0,
        room_limit=0,
        snapshot_due=0,
        changes=0,
        is_available=True,
        lease_age=0.0,
        took=dict.fromkeys(STAGES, 0.0),
    )


def _list(metrics: Iterator[Metric]) -> Iterator[str]:
    before: dict[str, Metric] = {}  # label -> the metric that named most of its values
    for family in metrics:
        values = _values(family)
        shown = [_label(key, found, before.get(key)) for key, found in values.items()]
        if family.type == "info":  # its values are those of this gateway
            shown = [f"By {', '.join([f'`{key}`' for key in values])}."]
        kind = "" if family.type in ("counter", "gauge") else f"{family.type.capitalize()}."
        yield f"* `{exposed(family)}`: {' '.join(filter(None, [family.documentation, *shown, kind]))}\n"
        for key, found in values.items():
            if len(found) >= _MANY and (key not in before or len(_values(before[key])[key]) < len(found)):
                before[key] = family


def exposed(family: Metric) -> str:
    """The name of a metric in the exposition; of histograms and summaries the start of their names."""
    end = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return f"{family.name}{end}"


def _values(family: Metric) -> dict[str, list[str]]:
    """Label -> its values, in their order."""
    found: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for key, value in sample.labels.items():
            if key not in ("le", "destination"):
                found.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in found.items()}


def _label(key: str, values: list[str], before: Metric | None) -> str:
    if before is None or not set(values) <= set(_values(before)[key]):
        return f"By `{key}`: {', '.join(values)}."
    left = ", ".join([each for each in _values(before)[key] if each not in values])
    return f"By `{key}`, as `{exposed(before)}`{f' without {left}' if left else ''}."


if __name__ == "__main__":
    sys.stdout.write(page())
