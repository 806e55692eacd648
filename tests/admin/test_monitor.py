"""The monitor: what the API shows of rates, losses, problems and the last day, and what a restart leaves of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from gateway import auth
from gateway.admin import openapi, site
from gateway.admin.access import AccessControl
from gateway.admin.monitor import Monitor, history_file
from gateway.observe.destination_watch import STEP
from gateway.runtime.gateway import open_gateway
from tests.transports.peers import Peer

from .running import Running, settings_of

EPOCH = 1_700_000_040.0  # a full minute
SHORT = [{"match": "/queue/short", "max_messages": 2, "when_full": "drop-oldest"}]


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of threads is done at once: trio's clock would jump while they are at it."""

    async def run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr("trio.to_thread.run_sync", run_sync)


@asynccontextmanager
async def watched(began: float = 0.0, *, runs: bool = True, **values: Any) -> AsyncIterator[tuple[Running, Monitor]]:
    """A gateway that is watched since `began`; trio's clock jumps."""
    settings = settings_of(policy=SHORT, **values)
    started = trio.current_time()
    async with (
        open_gateway(settings, authenticator=auth.for_settings(settings)) as gateway,
        trio.open_nursery() as nursery,
    ):
        monitor = Monitor(gateway, settings, epoch=lambda: EPOCH + began + trio.current_time() - started)
        app = site.build(gateway, settings, monitor=monitor)
        table = site.endpoints(gateway, settings, AccessControl(gateway, settings), monitor=monitor)
        if runs:
            nursery.start_soon(monitor.run)
        yield Running(gateway, settings, app, openapi.document(table), values), monitor
        nursery.cancel_scope.cancel()


async def publish(peer: Peer, name: str, count: int) -> None:
    for _ in range(count):
        await peer.publish(name, b"x")
    await peer.settled()


async def test_a_loss_is_seen_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list, on the destination's page, in the overview and among the problems."""
    monkeypatch.chdir(tmp_path)
    async with watched(runs=False) as (site, monitor):
        peer = await site.peer()
        await publish(peer, "/queue/short", 7)
        await publish(peer, "/queue/long", 3)
        await monitor.look()
        (row,) = (await site.get("destinations", state="losing", series="true"))["destinations"]
        assert (row["name"], row["dropped"], row["lost"], row["losing"]) == ("/queue/short", 5, 5, True)
        assert row["series"]["lost"] == [row["lost_rate"]] != [0]
        rows = (await site.get("destinations", sort="-published_rate"))["destinations"]
        assert [(each["name"], each["published"], each["series"]) for each in rows] == [
            ("/queue/short", 7, None),
            ("/queue/long", 3, None),
        ]
        found = await site.get("destination", name="/queue/short")
        assert (found["drops"], found["series"]["step"]) == ({"queue-full": 5}, STEP)
        overview = await site.get("overview")
        assert (overview["losses"]["dropped"], overview["losing"]) == (5, 1)
        problems = (await site.get("problems"))["problems"]
        assert [each["id"] for each in problems] == ["losing", "memory-only"]
        assert overview["problems"] == problems
        assert problems[0]["link"] == "#/destination?name=%2Fqueue%2Fshort"
        await peer.aclose()


async def test_a_day_outlives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_threads: None, autojump_clock: MockClock
) -> None:
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:{tmp_path}/store.db"
    async with watched(store=store) as (site, monitor):
        await trio.sleep(0.5)
        site.gateway.broker.counters.published += 120
        await trio.sleep(130)
        # Of 60 samples, or of 59 where the last one of the minute came a moment later.
        assert [(each.at - EPOCH, round(each.published)) for each in monitor.history.minutes] == [(60, 2), (120, 0)]
    async with watched(600.0, store=store) as (site, monitor):
        await trio.sleep(70)
        with monkeypatch.context() as patched:
            patched.setattr("time.time", lambda: EPOCH + 670)
            hour = await site.get("history")
            assert (await site.get("history", range="5m"))["step"] == 1
        assert hour["kept"] is True
        published = [None if each is None else round(each) for each in hour["series"]["published"]]
        points = dict(zip(hour["at"], published, strict=True))
        assert len(points) == 60
        assert [points[EPOCH + at] for at in (0, 60, 120, 180, 660)] == [None, 2, 0, None, 0]
        assert hour["gaps"] == [{"from": EPOCH + 120, "to": EPOCH + 600}]
        answer = await site.ask("GET", "history", range="1w")
        assert (answer.status, answer.error) == (400, "range must be one of 5m, 1h, 24h")


async def test_where_the_file_is(tmp_path: Path) -> None:
    assert history_file(settings_of()) is None
    assert history_file(settings_of(journal=tmp_path)) == tmp_path / "gateway" / "history"
    both = settings_of(journal=tmp_path, store=f"sqlite:{tmp_path}/a/store.db")
    assert history_file(both) == tmp_path / "a" / "store.db.history"


async def test_a_look_that_fails_is_told_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_threads: None, autojump_clock: MockClock
) -> None:
    monkeypatch.chdir(tmp_path)
    with structlog.testing.capture_logs() as lines:
        async with watched() as (_, monitor):
            with monkeypatch.context() as patched:
                patched.setattr(monitor.watch, "look", None)
                await trio.sleep(STEP)
            await trio.sleep(STEP + 1)
            assert [each["id"] for each in monitor.problems.present] == ["memory-only"]
    assert "the gateway could not be watched" in [line["event"] for line in lines]
