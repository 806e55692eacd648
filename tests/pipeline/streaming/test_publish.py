"""What a batch says: its line, the console's snapshot, and messages, which an absent server does not disturb."""

from __future__ import annotations

import dataclasses
import io
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from gateway.client import Client, StompServer
from gateway.pipeline import tables
from gateway.pipeline.errors import JobFailure, UsageFailure
from gateway.pipeline.jobs import JOBS
from gateway.pipeline.options import BrokerUrl
from gateway.pipeline.streaming.progress import BatchReport, Progress
from gateway.pipeline.streaming.snapshots import SnapshotPublisher, Snapshots
from tests.gateway_process import HOST, start_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


URL = "stomp://worker@127.0.0.1:61613/topic/gateway.pipeline"
NO_SPARK = cast("SparkSession", None)


class FakeServer:
    """What a publisher talks to here: it can be away, and can be held up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away: str | None = None
        self.checks = 0
        self.got: list[dict[str, bytes]] = []
        self.changed = threading.Condition()
        self.open = threading.Event()
        self.open.set()
        monkeypatch.setattr(BrokerUrl, "check", lambda _: self._check())
        monkeypatch.setattr(SnapshotPublisher, "_send", lambda _, messages: self._take(messages))

    def _check(self) -> str:
        with self.changed:
            self.checks += 1
            self.changed.notify()
        if self.away is not None:
            raise JobFailure(self.away)
        return "server"

    def _take(self, messages: dict[str, bytes]) -> None:
        with self.changed:
            self.got.append(messages)
            self.changed.notify()
        assert self.open.wait(20)
        if self.away is not None:
            raise OSError(self.away)

    def attempted(self, times: int) -> bool:
        """True after so many attempts: the first failure is that of a message, and later ones are of a check."""
        return len(self.got) + self.checks - 1 >= times

    def wait(self, condition: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 20)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    return FakeServer(monkeypatch)


def test_the_newest_of_each_job_is_sent_and_an_absent_server_is_reported_once(server: FakeServer) -> None:
    err = io.StringIO()
    sender = SnapshotPublisher(NO_SPARK, URL, Progress(err=err), soon=0.01)
    server.open.clear()
    sender.offer("metrics", b"1")
    server.wait(lambda: server.got)
    for number in range(2, 5):
        sender.offer("metrics", b"%d" % number)
    sender.offer("sessions", b"5")
    server.open.set()
    server.wait(lambda: len(server.got) == 2)
    assert server.got == [{"metrics": b"1"}, {"metrics": b"4", "sessions": b"5"}]
    assert (sender.failed, server.checks, err.getvalue()) == (0, 1, "")
    server.away = "127.0.0.1:61613 does not answer"
    for number in range(3):
        sender.offer("metrics", b"%d" % number)
        server.wait(partial(server.attempted, number + 3))
    server.away = None
    sender.offer("metrics", b"last")
    server.wait(lambda: server.got[-1] == {"metrics": b"last"})
    sender.close()
    where = "stomp://127.0.0.1:61613"
    assert err.getvalue().splitlines() == [
        f"publishing to {where} fails, the jobs go on: 127.0.0.1:61613 does not answer",
        f"{where} answers again",
        f"3 messages for {where} were not sent",
    ]


def test_the_end_does_not_wait_for_a_server_that_does_not_answer(server: FakeServer) -> None:
    err = io.StringIO()
    server.open.clear()
    sender = SnapshotPublisher(NO_SPARK, URL, Progress(err=err), patience=0.0)
    sender.offer("metrics", b"1")
    server.wait(lambda: server.got)
    sender.close()
    assert err.getvalue() == "the last messages for stomp://127.0.0.1:61613 are dropped: they took longer than 0 s\n"
    server.open.set()


def test_the_destination_is_checked_first() -> None:
    sentence = r"names no destination: write stomp://a:61613/topic/gateway\.pipeline"
    with pytest.raises(UsageFailure, match=sentence):
        SnapshotPublisher(NO_SPARK, "stomp://a", Progress())


@pytest.mark.long
@pytest.mark.spark
def test_a_subscriber_gets_the_messages(spark: SparkSession) -> None:
    err = io.StringIO()
    with start_gateway() as gateway:
        listener = Client(StompServer(HOST, gateway.tcp_port, heartbeat=0))
        listener.request("SUBSCRIBE", {"id": "0", "destination": "/topic/a b.>", "ack": "auto"})
        url = f"stomp://{HOST}:{gateway.tcp_port}/topic/a%20b"
        # So long takes the first start of Python in Spark, on a machine with other work.
        sender = SnapshotPublisher(spark, url, Progress(err=err), patience=110.0)
        sender.offer("metrics", json.dumps({"a": "ä"}).encode())
        sender.offer("sessions", b"{}")
        sender.close()
        got: dict[str, tuple[str, bytes]] = {}
        while len(got) < 2:
            frames = listener.receive(20)
            assert frames
            got |= {frame.headers["destination"]: (frame.headers["content-type"], frame.body) for frame in frames}
        assert got == {
            "/topic/a b.metrics": ("application/json", json.dumps({"a": "ä"}).encode()),
            "/topic/a b.sessions": ("application/json", b"{}"),
        }
        listener.disconnect()
    assert (sender.failed, err.getvalue()) == (0, "")


AT = 1_795_271_407_000_000  # 2026-11-21 14:30:07 UTC


def test_a_line_as_text_and_as_json() -> None:
    batch = BatchReport("metrics", 12, 120_000, 0.31, AT - 4_249_000, AT)
    err, out = io.StringIO(), io.StringIO()
    for as_json in (False, True):
        progress = Progress(as_json, err=err, out=out)
        progress.batch(batch)
        progress.batch(BatchReport("consumers", 0, 0, 0.0, None, AT))
        progress.say("One sentence.")
    text = "metrics     batch 12: 120,000 rows in 0.31 s, 387,097 rows/s, lag 4.2 s"
    said = ["One sentence."]
    assert err.getvalue().splitlines() == [text, "consumers   batch 0: 0 rows in 0.00 s", *said, *said]
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["job"], first["batch"], first["rows"], first["seconds"]) == ("metrics", 12, 120_000, 0.31)
    assert (first["rows_per_second"], first["lag"], first["at"]) == (387_097, 4.2, "2026-11-21T14:30:07.000Z")
    assert (second["lag"], second["rows_per_second"]) == (None, 0)


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def counts(table: pa.Table, now: datetime, limit: int = 0) -> dict[str, Any]:
    hours = [(now - minute).total_seconds() / 3600 for minute in table.column("minute").to_pylist()]
    return {"count": sum(table.column("count").to_pylist()), "hours": max(hours, default=None), "limit": limit}


JOB = dataclasses.replace(JOBS["metrics"], keys=("minute",), merges={"count": "sum"}, time="minute", snapshot=counts)


def counted(*hours_and_counts: tuple[float, int]) -> pa.Table:
    """Rows of the table, hours before NOW."""
    minutes = [NOW - timedelta(hours=hours) for hours, _ in hours_and_counts]
    return pa.table({"minute": pa.array(minutes, TIME), "count": [count for _, count in hours_and_counts]})


@pytest.fixture
def table(tmp_path: Path) -> tables.JobTable:
    return tables.of(tmp_path, JOB)


def shown(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "_console" / "metrics.json").read_text())
    return found


def test_it_is_of_the_last_day(tmp_path: Path, table: tables.JobTable) -> None:
    assert Snapshots(JOB, tmp_path).make(NOW) is None
    assert not (tmp_path / "_console").exists()
    table.write(0, counted((25, 1), (23, 2), (1, 4), (0.1, 8)))
    made = Snapshots(JOB, tmp_path).make(NOW)
    assert shown(tmp_path) == {
        "job": "metrics",
        "at": "2026-03-01T12:00:00Z",
        "since": "2026-02-28T12:00:00Z",
        "count": 14,
        "hours": 23,
        "limit": 2 * 1024**2 - 200,
    }
    assert made is not None
    assert json.loads(made.all) == shown(tmp_path)
    lately = json.loads(made.lately)  # what subscribers get
    assert (lately["count"], lately["since"], lately["limit"]) == (8, "2026-03-01T11:50:00Z", 256 * 1024 - 200)


def test_new_and_merged_files_are_counted_once(
    tmp_path: Path, table: tables.JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FAN", 4)
    snapshot = Snapshots(JOB, tmp_path, pause=0)
    for batch in range(30):
        table.merge(before=batch)
        table.write(batch, counted((1, 1)))
        if batch % 7 in (0, 1, 4):  # before, across and after each merge
            snapshot.make(NOW)
            assert shown(tmp_path)["count"] == batch + 1
    snapshot.make(NOW + timedelta(hours=23.5))
    assert shown(tmp_path)["count"] == 0


def test_a_day_of_too_many_rows_is_shorter(tmp_path: Path, table: tables.JobTable) -> None:
    for batch in range(10):
        table.write(batch, counted((20 - batch, 1), (20 - batch - 0.5, 1)))
    Snapshots(JOB, tmp_path, most_rows=5).make(NOW)
    found = shown(tmp_path)
    # The newest two files have four rows; what is as old as the third one's newest is left out.
    assert (found["count"], found["hours"]) == (4, 12)
    assert found["since"].startswith("2026-02-28T23:30:00")
    everything = Snapshots(JOB, tmp_path, most_rows=1)
    everything.make(NOW)
    assert shown(tmp_path)["count"] == 2  # one file is held in any case
    table.write(10, counted((9, 1)))
    everything.make(NOW)
    assert shown(tmp_path)["count"] == 1


def test_it_is_due_when_there_is_a_batch_and_some_time_is_over(
    tmp_path: Path, table: tables.JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 100.0, 100.0, 104.0, 108.9, 109.0, 200.0, 200.0, 200.0, 200.1, 200.1 + 4.99, 206.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    snapshot = Snapshots(JOB, tmp_path, pause=5)
    assert not snapshot.due(None)
    table.write(0, counted((1, 1)))
    assert snapshot.due(0)
    snapshot.make(NOW)  # takes 4 s, and so the next one may come 40 s later
    assert not snapshot.due(0)
    assert not snapshot.due(1)
    assert not snapshot.due(1)
    assert snapshot.due(1)
