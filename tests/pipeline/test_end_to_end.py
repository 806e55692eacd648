"""From clients to a report: 200,000 messages through a real gateway, and each figure is what the clients counted.

examples/shop.py is the load and counts; the commands of a user follow, as processes; Chromium opens the report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.pipeline import tables
from gateway.pipeline.jobs import JOBS
from tests.pipeline.report.conftest import Look, chromium, look

__all__ = ["chromium", "look"]

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent.parent
MESSAGES = 200_000
DEAD = "/queue/dlq.shop.orders"
Counts = Counter[tuple[str, str]]


def ended(*arguments: str, cwd: Path, seconds: float) -> str:
    """What a program prints that ends well; both its outputs where it does not."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "STOMP_"))}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@dataclass
class Shop:
    folder: Path  # the gateway's, with journal, archive and tables
    counted: Counts  # (destination, event) -> what the clients counted
    progress: list[dict[str, Any]]  # a line of JSON for each batch of each job

    def table(self, job: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = tables.of(self.folder / "tables", JOBS[job]).read().to_pylist()
        return rows


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("shop")
    told = ended(
        *(str(ROOT / "examples" / "shop.py"), str(folder), "--messages", str(MESSAGES), "--rate", "8000"),
        cwd=folder,
        seconds=240,
    )
    counted = Counter(
        {(name, event): count for name, events in json.loads(told).items() for event, count in events.items()}
    )
    lines = ended(
        *("-m", "gateway", "pipeline", "run", "all", "--once", "--json", "--journal", "journal"),
        cwd=folder,
        seconds=240,
    )
    return Shop(folder, +counted, [json.loads(line) for line in lines.splitlines()])


def test_metrics_equal_the_clients_counts(shop: Shop) -> None:
    events: Counter[str] = Counter()
    for (_, event), count in shop.counted.items():
        events[event] += count
    assert events["accepted"] == MESSAGES + 3  # and three without an acknowledgement
    for event, least in (("nacked", 10_000), ("redelivered", 10_000), ("dead_lettered", 2_000), ("expired", 1_000)):
        assert events[event] >= least, event  # or this test would show nothing
    rows, found_rows = shop.table("metrics"), Counts()
    for row in rows:
        found_rows[row["destination"], row["event"]] += row["count"]
        if row["event"] == "accepted":
            found_rows[row["destination"], "octets"] += row["octets"]
    assert dict(+found_rows) == dict(shop.counted)
    timed = {"delivered", "redelivered", "acked", "nacked"}
    assert {row["event"] for row in rows if row["bucket"] is not None} == timed
    assert all(row["bucket"] is not None for row in rows if row["event"] in timed)


def test_dead_letters_and_sessions(shop: Shop) -> None:
    letters, sessions = shop.table("deadletters"), shop.table("sessions")
    assert len({letter["message_id"] for letter in letters}) == len(letters) == shop.counted[DEAD, "delivered"]
    assert {(letter["destination"], letter["delivery_count"]) for letter in letters} == {("/queue/shop.orders", 3)}
    assert {session["principal"] for session in sessions} == {"shop"}
    assert all(session["disconnected_at"] is not None for session in sessions)
    for event, least in (("accepted", MESSAGES), ("acked", 1)):
        wanted = sum(count for (_, each), count in shop.counted.items() if each == event)
        assert sum(session[event] for session in sessions) == wanted >= least


def test_the_report(shop: Shop, look: Look) -> None:
    """In Chromium its figures are what the clients counted, in all and for each destination."""
    ended(
        *("-m", "gateway", "pipeline", "report", "--stuck-after", "5", "--out", "report.html"),
        cwd=shop.folder,
        seconds=240,
    )
    seen = look((shop.folder / "report.html").read_text(encoding="utf-8"))
    totals: Counter[str] = Counter()
    for (_, event), count in shop.counted.items():
        totals[event] += count
    assert {event: int(seen["figures"]["bytes" if event == "octets" else event]) for event in totals} == totals
    assert seen["figures"]["stuck"] == "1"
    for event in ("accepted", "delivered", "acked"):
        shown = {
            row["destination"]: int(row["value"])
            for row in seen["rows"]
            if row["in"] == "destinations" and row["figure"] == event and row["value"] != "0"
        }
        assert shown == {name: count for (name, each), count in shop.counted.items() if each == event}
    assert {"traffic", "latency", "dead-letters", "consumers"} <= set(seen["sections"])
