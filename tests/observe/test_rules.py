"""The alerts: each one fires when it should and is silent when it should not, and has somewhere to read on."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observe.everything import everything, labels_by_name, scraped

ROOT = Path(__file__).parent.parent.parent
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"

JOB = 'job="stomp-gateway",instance="a"'


@dataclass(frozen=True)
class Case:
    """Time series, one value a minute in promtool's notation, and when it is over.

    Attributes:
        fires: with these it fires.
        silent: with these it does not.
        minute: when both is so.
        more: labels of the alert beside instance and severity.
    """

    fires: dict[str, str]
    silent: dict[str, str]
    minute: int = 60
    more: str = ""


def _flag(name: str, fires: int = 1) -> Case:
    """It fires while a metric is 0, or 1."""
    return Case({name: f"{fires}x90"}, {name: f"{1 - fires}x90"})


def _grows(name: str, fires: float, silent: float, more: str = "") -> Case:
    """It fires when a counter grows so much in a minute."""
    return Case({name: f"0+{fires}x90"}, {name: f"5+{silent}x90"}, more=more)


DAY = 86_400

CASES = {
    "Down": _flag("up", 0),
    "NotReady": Case(
        {"gateway_ready": "0x90"}, {"gateway_ready": "0x90", 'gateway_cluster_role{role="standby"}': "1x90"}
    ),
    "Restarts": Case(
        {"process_start_time_seconds": "1x40 100x5 200x5 300x30"}, {"process_start_time_seconds": "1x40 100x50"}, 60
    ),
    "Complains": _flag("gateway_complaints"),
    "CertificateEnds": Case(
        {"gateway_certificate_expiry_timestamp_seconds": f"{13 * DAY}x90"},
        {"gateway_certificate_expiry_timestamp_seconds": f"{15 * DAY}x90"},
        70,
    ),
    "MemoryHigh": Case(
        {"gateway_memory_resident_bytes": "85x90", "gateway_memory_mark_bytes": "100x90"},
        {"gateway_memory_resident_bytes": "85x90", "gateway_memory_mark_bytes": "0x90"},
    ),
    "MemoryFull": _flag("gateway_memory_full"),
    "MessagesFillMemory": Case(
        {"gateway_stored_bytes": "75x90", "gateway_memory_limit_bytes": "100x90"},
        {"gateway_stored_bytes": "65x90", "gateway_memory_limit_bytes": "100x90"},
    ),
    "PublishersHeld": Case({"gateway_publishers_held": "2x90"}, {"gateway_publishers_held": "2 0 0 2 0 0x85"}),
    "SlowConsumers": _grows("gateway_slow_consumers_total", 1, 0.1),
    "ConsumersStalled": Case({"gateway_consumers_stalled": "1x90"}, {"gateway_consumers_stalled": "1 1 0 0 1 0x85"}),
    "DeadLetters": _grows("gateway_messages_dead_lettered_total", 1, 0),
    "Unconsumed": Case({"gateway_messages_unconsumed": "0+10x90"}, {"gateway_messages_unconsumed": "5000-10x90"}),
    "NoConsumer": Case({"gateway_messages_unconsumed": "5x90"}, {"gateway_messages_unconsumed": "5x40 0 5x49"}),
    "OldMessages": Case(
        {"gateway_oldest_message_age_seconds": "0+60x90"}, {"gateway_oldest_message_age_seconds": "0+60x10 0+60x79"}, 24
    ),
    "MessagesDropped": Case(
        {'gateway_messages_dropped_total{reason="queue-full"}': "0+1x90"},
        {
            'gateway_messages_dropped_total{reason="queue-full"}': "7x90",
            'gateway_messages_dropped_total{reason="purged"}': "0+9x90",
        },
        more='reason="queue-full"',
    ),
    "MessagesLost": _flag("gateway_destinations_losing"),
    "HandlersFail": _grows("gateway_handler_failures_total", 1, 0.1),
    "LoginsFail": Case(
        {
            'gateway_logins_failed_total{method="token"}': "0+10x90",
            'gateway_logins_failed_total{method="passcode"}': "0+10x90",
        },
        {'gateway_logins_failed_total{method="passcode"}': "0+5x90"},
    ),
    "AccessRefused": Case(
        {
            'gateway_access_refused_total{action="send"}': "0+1x90",
            'gateway_access_refused_total{action="subscribe"}': "0+1x90",
        },
        {'gateway_access_refused_total{action="send"}': "0+1x90"},
    ),
    "HeartbeatTimeouts": _grows("gateway_heartbeat_timeouts_total", 2, 1),
    "ConnectionsRefused": _grows(
        'gateway_connections_over_limit_total{limit="max_connections"}', 1, 0, 'limit="max_connections"'
    ),
    "FilesShort": Case(
        {"process_open_fds": "90x90", "process_max_fds": "100x90"},
        {"process_open_fds": "70x90", "process_max_fds": "100x90"},
    ),
    "TurnsSlow": Case(
        {
            'gateway_turn_seconds_bucket{le="0.2"}': "0+1x90",
            'gateway_turn_seconds_bucket{le="0.5"}': "0+2x90",
            'gateway_turn_seconds_bucket{le="+Inf"}': "0+2x90",
        },
        {
            'gateway_turn_seconds_bucket{le="0.1"}': "0+1999x90",
            'gateway_turn_seconds_bucket{le="0.5"}': "0+2000x90",
            'gateway_turn_seconds_bucket{le="+Inf"}': "0+2000x90",
        },
    ),
    "ProcessorFull": _grows("process_cpu_seconds_total", 57, 30),
    "StoreFailing": _flag("gateway_store_failed"),
    "StoreDamaged": _flag("gateway_store_damaged_messages_total"),
    "StoreSlow": Case(
        {"gateway_store_commit_seconds_sum": "0+3x90", "gateway_store_commit_seconds_count": "0+10x90"},
        {"gateway_store_commit_seconds_sum": "0+2x90", "gateway_store_commit_seconds_count": "0+10x90"},
    ),
    "DiskShort": Case(
        {'gateway_disk_free_bytes{place="store"}': "5x90", 'gateway_disk_size_bytes{place="store"}': "100x90"},
        {'gateway_disk_free_bytes{place="store"}': "15x90", 'gateway_disk_size_bytes{place="store"}': "100x90"},
        more='place="store"',
    ),
    "JournalFailing": _flag("gateway_journal_failed"),
    "JournalDropping": _grows("gateway_journal_rows_dropped_total", 1, 0),
    "SpansDropped": _grows("gateway_spans_dropped_total", 1, 0),
    "EdgeDown": Case({'gateway_edge_up{edge="1"}': "0x90"}, {'gateway_edge_up{edge="1"}': "1x90"}, more='edge="1"'),
    "EdgeRestarts": Case(
        {'gateway_edge_starts_total{edge="1"}': "1+1x90"},
        {'gateway_edge_starts_total{edge="1"}': "1x50 2x40"},
        more='edge="1"',
    ),
    "ClusterUnavailable": _flag("gateway_cluster_available", 0),
    "ClusterNoPrimary": Case(
        {'gateway_cluster_nodes{role="primary"}': "0x90"},
        {'gateway_cluster_nodes{role="primary"}': "1x58 0 1x31"},
        more='role="primary"',
    ),
    "ClusterNoStandby": Case(
        {'gateway_cluster_nodes{role="standby"}': "0x90"},
        {'gateway_cluster_nodes{role="standby"}': "1x56 0x2 1x31"},
        more='role="standby"',
    ),
    "ClusterStandbyLags": Case(
        {"gateway_cluster_lag_messages": "9000x90"}, {"gateway_cluster_lag_messages": "0x59 9000x31"}
    ),
    "ClusterLeaseNotRenewed": Case(
        {"gateway_cluster_lease_age_seconds": "2.5x90"}, {"gateway_cluster_lease_age_seconds": "1x90"}
    ),
    "ClusterLogShort": Case(
        {"gateway_cluster_room_used_bytes": "76x90", "gateway_cluster_room_limit_bytes": "100x90"},
        {"gateway_cluster_room_used_bytes": "74x90", "gateway_cluster_room_limit_bytes": "100x90"},
    ),
    "ClusterLogGrows": Case(
        {"gateway_cluster_log_bytes": "310x90", "gateway_cluster_snapshot_due_bytes": "100x90"},
        {"gateway_cluster_log_bytes": "290x90", "gateway_cluster_snapshot_due_bytes": "100x90"},
    ),
}


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        found += group["rules"]
    return found


def promtool(*arguments: object) -> str:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def series(values: dict[str, str]) -> list[dict[str, str]]:
    found = []
    for name, notation in values.items():
        start, _, labels = name.partition("{")
        own = f",{labels}" if labels else "}"
        found.append({"series": f"{start}{{{JOB}{own}", "values": notation})
    return found


def checks() -> Iterator[dict[str, Any]]:
    for rule in rules():
        name = rule["alert"]
        case = CASES[name.removeprefix("StompGateway")]
        more = dict(re.findall(r'(\w+)="([^"]*)"', case.more))
        labels = {"severity": rule["labels"]["severity"], "job": "stomp-gateway", "instance": "a", **more}
        for values, expected in ((case.fires, [{"exp_labels": labels}]), (case.silent, [])):
            yield {
                "interval": "1m",
                "input_series": series(values),
                "alert_rule_test": [{"eval_time": f"{case.minute}m", "alertname": name, "exp_alerts": expected}],
            }


def test_the_files_are_right() -> None:
    promtool("check", "rules", RULES)
    promtool("check", "config", RULES.parent / "prometheus.yml")


@pytest.mark.parametrize("most", [10, pytest.param(None, marks=pytest.mark.long)])
def test_each_fires_and_is_silent(tmp_path: Path, most: int | None) -> None:
    stripped = yaml.safe_load(RULES.read_text())
    for group in stripped["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # promtool would compare them word for word; they have a test of their own
    (tmp_path / "rules.yml").write_text(json.dumps(stripped))
    written = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": list(checks())[:most]}
    (tmp_path / "tests.yml").write_text(json.dumps(written))
    promtool("test", "rules", tmp_path / "tests.yml")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_words(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert "$labels.instance" in notes["description"]
    page, _, anchor = notes["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    assert f"\n### {rule['alert']}\n" in (ROOT / page).read_text()


def test_the_page_has_no_others() -> None:
    found = re.findall(r"^### (\w+)$", (ROOT / "docs" / "alerts.md").read_text(), re.MULTILINE)
    assert found == [rule["alert"] for rule in rules()]


async def test_a_gateway_has_what_they_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with everything(tmp_path, monkeypatch) as (_, metrics):
        known = labels_by_name(await scraped(metrics))
    for rule in rules():
        for name in re.findall(r"\b(?:gateway|process)_\w+", rule["expr"]):
            assert name in known, f"{rule['alert']}: there is no {name}"
        names = re.findall(r"\b(?:gateway|process)_\w+", rule["expr"])
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]):
            assert label == "instance" or all(label in known[name] for name in names), rule["alert"]
