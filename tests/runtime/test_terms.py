"""Two real gateways that take over from each other: what their journals, traces, metrics and logs tell of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gateway.cluster.term import STAGES
from gateway.journal import found
from tests.cluster.gateways import PATIENCE, Pair, two_gateways
from tests.journal.desk import as_dict
from tests.journal.reading import Segment
from tests.observe.collector import Collector, collecting, facts

pytestmark = pytest.mark.slow


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture
def pair(tmp_path: Path, collector: Collector) -> Iterator[Pair]:
    """Their journals are in one folder, and their logs are in JSON."""
    folder = tmp_path / "journal"
    seen = {"journal": str(folder), "trace_endpoint": collector.endpoint, "log_format": "json"}
    with two_gateways(tmp_path, **seen) as pair:
        yield pair


def rows_of(folder: Path, node: str) -> list[tuple[object, ...]]:
    """Event, node, epoch and reason of the rows about terms."""
    rows = [as_dict(row) for path in found(folder / node) for row in Segment(path)]
    names = ("gateway", "event", "node", "cluster_epoch", "reason")
    return [tuple(row[name] for name in names) for row in rows if "cluster_epoch" in row]


def lines_of(pair: Pair, node: str, event: str) -> list[dict[str, Any]]:
    lines = map(json.loads, pair.nodes[node].log_path.read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def await_change(pair: Pair, node: str, epoch: int) -> Any:
    """Wait until a node has taken over; returns the change in its API."""

    def took() -> Any:
        change = pair.cluster(node)["changes"][0]
        return change if (change["node"], change["epoch"]) == (node, epoch) and change["took"] else None

    return pair.until(took)


def spans_of(pair: Pair, collector: Collector, name: str, count: int) -> list[Span]:
    """Wait for so many spans of a name."""

    def came() -> list[Span] | None:
        spans = [span for span in collector.spans if span.name == name]
        return spans if len(spans) >= count else None

    return list(pair.until(came))


def test_a_take_over_and_a_handover_are_seen(pair: Pair, collector: Collector, tmp_path: Path) -> None:
    first = pair.cluster("a")["changes"][0]
    assert tuple(first["took"]) == STAGES
    pair.nodes["a"].kill()
    change = await_change(pair, "b", 2)
    assert 1.0 < change["took"]["lease"] < 10.0
    (line,) = lines_of(pair, "b", "this node has taken over")
    assert {name: line[name] for name in STAGES} == change["took"]
    assert line["seconds"] == pytest.approx(sum(change["took"].values()), abs=0.01)
    assert (line["epoch"], line["reason"]) == (2, "the lease of the last one ended")
    with urlopen(f"{pair.nodes['b'].http_url}/metrics", timeout=PATIENCE) as answer:
        assert f'gateway_cluster_takeover_seconds{{stage="lease"}} {change["took"]["lease"]}' in answer.read().decode()

    pair.nodes["a"].start()
    pair.sees("b", a="standby", b="primary")
    assert pair.sees("a", a="standby", b="primary")["changes"][0]["took"] is None
    assert pair.ask("b", "api/v1/cluster/handover", {"node": "a"})[0] == 202
    change = await_change(pair, "a", 3)
    assert change["took"]["lease"] < 3.0
    pair.sees("a", a="primary", b="standby")
    pair.nodes["a"].stop()

    journal = tmp_path / "journal"
    assert rows_of(journal, "a") == [
        ("a", "became_primary", "a", 1, "it is the first primary"),
        ("a", "became_primary", "a", 3, "a handover"),
        ("a", "stepped_down", "a", 3, "the node stops"),
    ]
    assert rows_of(journal, "b")[:2] == [
        ("b", "became_primary", "b", 2, "the lease of the last one ended"),
        ("b", "stepped_down", "b", 2, "a handover to a"),
    ]

    take_over = next(span for span in spans_of(pair, collector, "take over", 3) if facts(span)["gateway.epoch"] == 3)
    hand_over = next(span for span in spans_of(pair, collector, "hand over", 2) if facts(span)["gateway.epoch"] == 2)
    assert hand_over.trace_id == take_over.trace_id
    assert facts(take_over) == {
        "gateway.cluster": "shop",
        "gateway.node": "a",
        "gateway.epoch": 3,
        "gateway.reason": "a handover",
        "gateway.log.messages": facts(take_over)["gateway.log.messages"],
    }
    stages = [span for span in collector.spans if span.parent_span_id == take_over.span_id]
    assert [span.name for span in stages] == list(STAGES)
    second = 1_000_000_000  # spans of two batches differ by the steps of the clock, and by what a busy machine adds
    assert stages[0].start_time_unix_nano == pytest.approx(take_over.start_time_unix_nano, rel=0, abs=second)
    assert stages[-1].end_time_unix_nano == pytest.approx(take_over.end_time_unix_nano, rel=0, abs=second)
