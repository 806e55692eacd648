"""The dashboard: Grafana can import it, and it asks for nothing that a gateway does not have."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .everything import everything, labels_by_name, scraped

FILE = Path(__file__).parent.parent.parent / "deploy" / "grafana" / "stomp-gateway.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = BOARD["panels"]
CHARTS = [panel for panel in PANELS if panel["type"] != "row"]

VARIABLES = {"$job": ".*", "$instance": ".*", "$__rate_interval": "1m"}


def expressions() -> Iterator[tuple[str, str]]:
    """Title of the panel, and an expression of it with a value in place of each variable."""
    for panel in CHARTS:
        for target in panel["targets"]:
            yield panel["title"], _filled(target["expr"])
    for each in BOARD["annotations"]["list"]:
        yield each["name"], _filled(each["expr"])


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def test_what_grafana_needs() -> None:
    assert BOARD["id"] is None  # or the import would look for that one
    assert BOARD["uid"] == "stomp-gateway"
    assert BOARD["schemaVersion"] >= 36
    assert {"title", "time", "refresh", "templating", "annotations", "tags"} <= BOARD.keys()
    needed = {(each["type"], each["id"]) for each in BOARD["__requires"]}
    assert {("panel", panel["type"]) for panel in CHARTS} == {each for each in needed if each[0] == "panel"}
    assert ("datasource", "prometheus") in needed
    for panel in CHARTS:
        assert panel["description"], panel["title"]
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_prometheus_understands_all(tmp_path: Path) -> None:
    rules = [{"record": f"x:{number}", "expr": each} for number, (_, each) in enumerate(expressions())]
    (tmp_path / "all.yml").write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", tmp_path / "all.yml"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


async def test_a_gateway_has_what_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with everything(tmp_path, monkeypatch) as (gateway, metrics):
        gateway.broker.registry.create_queue("/queue/orders")
        known = labels_by_name(await scraped(metrics))
    for title, expression in expressions():
        names = re.findall(r"\b(?:gateway|process)_\w+", expression)
        assert names, title
        for name in names:
            assert name in known, f"{title}: there is no {name}"
        grouped = [label for labels in re.findall(r"by \(([\w, ]+)\)", expression) for label in labels.split(", ")]
        for label in grouped:
            assert any(label in known[name] for name in names), f"{title}: no metric has {label}"
    for panel in CHARTS:
        for target in panel["targets"]:
            names = re.findall(r"\b(?:gateway|process)_\w+", target["expr"])
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert label == "instance" or any(label in known[name] for name in names), panel["title"]


async def test_every_metric_is_on_it_or_left_out_for_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = {
        *("gateway_build_info", "gateway_destinations", "gateway_frames_received_total", "gateway_connections_open"),
        *("gateway_handshakes", "gateway_log_cursors", "gateway_complaints", "gateway_held_publishers_total"),
        *("gateway_memory_short", "gateway_memory_full", "gateway_disk_size_bytes", "gateway_store_commit_seconds_sum"),
        *("gateway_destination_waiting_bytes", "gateway_destination_subscriptions", "gateway_spans_waiting"),
        *("gateway_spans_failed", "gateway_journal_written_bytes_total"),
        "gateway_misspelt_headers_total",  # the log names each header
    }
    async with everything(tmp_path, monkeypatch) as (gateway, metrics):
        gateway.broker.registry.create_queue("/queue/orders")
        families = await scraped(metrics)
    shown = " ".join(expression for _, expression in expressions())
    starts = {sample.name for family in families.values() for sample in family.samples[:1]}
    missing = {name for name in starts if not name.startswith("process_") and not re.search(rf"\b{name}\b", shown)}
    assert missing - left_out == set()
