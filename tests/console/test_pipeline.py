"""The results of the pipeline: snapshots as the jobs leave them, made by the jobs' own code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow
from playwright.sync_api import expect

from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.jobs.consumers import fold
from tests.console.conftest import Front, Visit
from tests.pipeline import rows
from tests.pipeline.jobs.reference import looks_of

NOW = rows.START + timedelta(minutes=10)


def leave(tables: Path, job: str, table: pyarrow.Table) -> None:
    body: dict[str, Any] = {"job": job, "at": NOW.isoformat(), "since": rows.START.isoformat()}
    folder = tables / "_console"
    folder.mkdir(exist_ok=True)
    (folder / f"{job}.json").write_text(json.dumps(body | JOBS[job].snapshot(table, NOW)))


def stuck(destination: str) -> pyarrow.Table:
    looks = [rows.gauge_subscription(at, oldest_us=70_000_000, destination=destination) for at in (0.0, 10.0, 20.0)]
    return fold({}, looks_of(looks), AlarmLimits(stuck_after=60))[1]


def dead(count: int) -> pyarrow.Table:
    told = [rows.dead_lettered(at, destination="/queue/orders", reason="rejected") for at in range(count)]
    names = "ts gateway epoch seq destination message_id reason delivery_count size headers"
    return rows.table(told).select(names.split())


def minutes() -> pyarrow.Table:
    found = [
        (rows.START + timedelta(minutes=minute), "/queue/orders", event, bucket, 60 * (minute + 1), 6000)
        for minute in range(10)
        for event, bucket in (("accepted", None), ("delivered", 80), ("acked", 100))
    ]
    types = {"minute": pyarrow.timestamp("us", "UTC"), "destination": pyarrow.string(), "event": pyarrow.string()}
    types |= {"bucket": pyarrow.int32(), "count": pyarrow.int64(), "octets": pyarrow.int64()}
    columns = zip(zip(*found, strict=True), types.values(), strict=True)
    return pyarrow.table([pyarrow.array(values, kind) for values, kind in columns], names=[*types])


def test_what_the_jobs_left(visiting: Callable[..., Visit], starting: Callable[..., Front], tmp_path: Path) -> None:
    leave(tmp_path, "consumers", stuck("/queue/held"))
    leave(tmp_path, "deadletters", dead(3))
    leave(tmp_path, "metrics", minutes())
    visit = visiting(starting(tables=tmp_path), scheme="dark")
    page = visit.open("pipeline")
    expect(page.get_by_role("navigation").get_by_role("link", name="Pipeline")).to_be_visible()
    consumers = page.get_by_role("region", name="Consumers that are stuck or slow").first
    expect(consumers.get_by_text("1 stuck")).to_be_visible()
    expect(consumers.get_by_role("link", name="/queue/held")).to_be_visible()
    letters = page.get_by_role("region", name="Dead letters").first
    expect(letters.get_by_text("3 in a day")).to_be_visible()
    expect(letters.get_by_role("row", name="/queue/orders rejected 3")).to_be_visible()
    chart = page.locator("figure").filter(has_text="Messages per minute")
    expect(chart.get_by_role("listitem").filter(has_text="accepted")).to_contain_text("600")
    expect(page.get_by_role("region", name="Traffic").first.get_by_text("3,300 accepted")).to_be_visible()
    assert visit.faults() == []
    leave(tmp_path, "consumers", stuck("/queue/held").slice(0, 0))
    page.reload()
    expect(consumers.get_by_text("All consumers keep up")).to_be_visible()
