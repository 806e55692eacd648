"""The metrics as text.

    python -m gateway.observe.reference > docs/metrics.md

Everything comes from the collectors themselves: they are asked, as a scraper would, over a broker that does nothing.  A
test compares the committed page with it, and another one the names with those of a running gateway.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.broker.broker import Broker
from gateway.broker.core.histogram import Histogram
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.storage import Storage
from gateway.journal import Journal
from gateway.observe.condition import Condition, Disks, SpanCollector
from gateway.observe.metrics import BrokerCollector, JournalCollector, StoreCollector
from gateway.observe.overload import OverloadCollector
from gateway.observe.survey import MOST_SHOWN, Survey
from gateway.observe.timings import ACK, QUEUE, TURN, Timings
from gateway.transports.flow.back_pressure import REASONS
from gateway.transports.flow.connection_limits import LIMITS
from gateway.transports.wire.fairness import FairGates

if TYPE_CHECKING:
    from gateway.stores.writer import Committer
    from gateway.transports.flow.back_pressure import BlockedPublishers
    from gateway.transports.flow.connection_limits import ConnectionLimits
    from gateway.transports.flow.memory_guard import MemoryGuard

HEAD = f"""\
# Metrics

Written by `make docs` from `gateway/observe/`; change it there. `/metrics` has them as Prometheus or OpenMetrics text,
for whoever sends `Authorization: Bearer` with `metrics_token` or `admin_token`; while there is none, for loopback.

* [deploy/prometheus/prometheus.yml](../deploy/prometheus/prometheus.yml) scrapes a gateway, and
  [deploy/prometheus/rules.yml](../deploy/prometheus/rules.yml) has the alerts: [what to do at each](alerts.md).
* [deploy/grafana/stomp-gateway.json](../deploy/grafana/stomp-gateway.json) is a dashboard of it all: import it in
  Grafana and choose the data source.

A scrape takes one or two milliseconds of the event loop, and up to 10 ms more with very many queues. Labels are a few
words of the gateway's own; nothing that a client chooses becomes one. But the setting `metrics_destinations` names
destinations that are shown one by one, {MOST_SHOWN} at most. All values of all other labels are there from the start.

"""

_SECTIONS = (
    ("Clients and messages", ""),
    ("Overload", ""),
    ("Condition", ""),
    ("Disks", "Where there is a store, or a journal. A disk is asked before each scrape, for a second at most."),
    (
        "Destinations",
        "Sums are of the last look at all; up to 10,000 it is the scrape. Names: where `metrics_destinations` is set.",
    ),
    ("Times", "The last two are there where there is a journal, or messages are traced."),
    ("Store", "Where there is one."),
    ("Journal", "Where there is one."),
    ("Traces", "Where messages are [traced](tracing.md)."),
)

_PROCESS = """
## Process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`, as Prometheus' own client libraries have them.
"""


def page() -> str:
    """The reference page, in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        sections = [
            "\n\n".join(filter(None, (f"## {title}", text, "".join(_table(collector)))))
            for (title, text), collector in zip(_SECTIONS, collectors(Path(folder)), strict=True)
        ]
    return HEAD + "\n".join(sections) + _PROCESS


def collectors(folder: Path) -> Iterator[Collector]:
    """Every collector, over parts that do nothing, in the order of the page."""
    broker = Broker()
    yield BrokerCollector(broker, ())
    admission = cast(
        "ConnectionLimits", SimpleNamespace(connections=0, handshakes=0, refusals=dict.fromkeys(LIMITS, 0))
    )
    none = dict.fromkeys(REASONS, 0)
    holds = cast("BlockedPublishers", SimpleNamespace(by_reason=lambda: none, totals=none))
    memory = cast("MemoryGuard", SimpleNamespace(reason="", closed=0, mark=0, resident=0))
    yield OverloadCollector(broker, holds, admission, memory, FairGates())
    yield Condition(lambda: None, dict, lambda: 0.0, lambda: 0)
    disks = Disks({"store": folder, "journal": folder})
    disks.look_now()
    yield disks
    broker.registry.create_queue("/queue/orders")
    yield Survey(broker, (), ["/queue/orders"])
    yield Timings((TURN, Histogram), (QUEUE, Histogram), (ACK, Histogram))
    committer = cast("Committer", SimpleNamespace(commits=0, seconds=0.0, rows=0, failures=0, damaged=0))
    yield StoreCollector(Storage(Metadata(lambda: 0.0, lambda: 0.0), busy=lambda: None), committer)
    journal = Journal(folder, "gateway", run="r")
    yield JournalCollector(journal)
    journal.start()
    journal.close()
    yield SpanCollector(SimpleNamespace(sent=0, dropped=0, left_out=0, failure="", waiting=0))


def _table(collector: Collector) -> Iterator[str]:
    yield "| Metric | Kind | Labels | Meaning |\n| --- | --- | --- | --- |\n"
    for family in collector.collect():
        yield f"| `{exposed(family)}` | {family.type} | {_labels(family)} | {family.documentation} |\n"


def exposed(family: Metric) -> str:
    """The name of a metric as a scraper reads it; of histograms and summaries the start of their names."""
    end = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return f"{family.name}{end}"


def _labels(family: Metric) -> str:
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for key, value in sample.labels.items():
            if key != "le":
                values.setdefault(key, {})[value] = None
    if family.type == "info" or "destination" in values:
        return ", ".join([f"`{key}`" for key in values])
    return "; ".join([f"`{key}`: {', '.join(found)}" for key, found in values.items()])


if __name__ == "__main__":
    sys.stdout.write(page())
