"""What a scraper gets of a running gateway: every metric that the page has, by good names, and never too many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from prometheus_client import Metric

from docs.generate.metrics import exposed
from gateway.broker.broker import Broker
from gateway.broker.model.options import PLAIN
from gateway.codec import Head

from .everything import everything, scraped

PAGE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"

HOSTILE = (
    '/queue/"} 1\ngateway_ready 0\n',
    "/queue/back\\slash",
    "/queue/{a=b}",
    "/queue/\u2028\u202e\U0001f4a9",
    "/queue/" + "x" * 60_000,
    "/queue/ ",
)


def deposit(broker: Broker, name: str) -> None:
    broker.deposit(name, Head.of("SEND", {"destination": name}), b"", PLAIN)


def series(families: dict[str, Metric]) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))) for family in families.values() for sample in family.samples
    }


async def test_every_metric_is_on_the_page_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with everything(tmp_path, monkeypatch) as (gateway, metrics):
        deposit(gateway.broker, "/queue/orders")
        families = await scraped(metrics)
    found = {exposed(family) for family in families.values() if not family.name.startswith("process_")}
    assert found == set(re.findall(r"^\* `(\w+)`: ", PAGE.read_text(), re.MULTILINE))
    for family in families.values():
        assert family.samples, f"{family.name} has no time series"


async def test_promtool_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with everything(tmp_path, monkeypatch) as (gateway, metrics):
        for name in ("/queue/orders", *HOSTILE):
            deposit(gateway.broker, name)
        content, _ = await metrics.scrape("")
    done = await trio.run_process(
        ["promtool", "check", "metrics"], stdin=content, capture_stdout=True, capture_stderr=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")


async def test_what_clients_choose_makes_no_time_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with everything(tmp_path, monkeypatch, shown=()) as (gateway, metrics):
        before = series(await scraped(metrics))
        for number in range(10_000):
            deposit(gateway.broker, f"/queue/{number}")
        for name in HOSTILE:
            deposit(gateway.broker, name)
        assert series(await scraped(metrics)) == before
