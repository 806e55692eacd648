"""A line for each batch, and messages beside the jobs, which an absent server does not disturb."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.client import Client, StompServer
from gateway.pipeline.broker_url import BrokerUrl
from gateway.pipeline.errors import JobFailure, UsageFailure
from gateway.pipeline.streaming import publish
from gateway.pipeline.streaming.progress import BatchReport, Progress
from gateway.pipeline.streaming.publish import SnapshotPublisher
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

    def checked(self, times: int) -> bool:
        """Whether it was asked so many times."""
        return self.checks >= times

    def wait(self, condition: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 20)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    monkeypatch.setattr(publish, "_SOON", 0.01)
    return FakeServer(monkeypatch)


@contextmanager
def publisher(err: io.StringIO, url: str = URL) -> Iterator[SnapshotPublisher]:
    made = SnapshotPublisher(NO_SPARK, url, Progress(err=err))
    try:
        yield made
    finally:
        made.close()
    assert not made._thread.is_alive()


def test_the_destination_is_checked_first() -> None:
    sentence = r"names no destination: write stomp://a:61613/topic/gateway\.pipeline"
    with pytest.raises(UsageFailure, match=sentence):
        SnapshotPublisher(NO_SPARK, "stomp://a", Progress())


def test_the_newest_of_each_job_is_sent(server: FakeServer) -> None:
    err = io.StringIO()
    with publisher(err) as sender:
        server.open.clear()
        sender.offer("metrics", b"1")
        server.wait(lambda: server.got)
        for number in range(2, 5):
            sender.offer("metrics", b"%d" % number)
        sender.offer("sessions", b"5")
        server.open.set()
        server.wait(lambda: len(server.got) == 2)
    assert server.got == [{"metrics": b"1"}, {"metrics": b"4", "sessions": b"5"}]
    assert (sender.failed, server.checks) == (0, 1)
    assert err.getvalue() == ""


def test_an_absent_server_is_reported_once_and_counted(server: FakeServer) -> None:
    err = io.StringIO()
    server.away = "127.0.0.1:61613 does not answer"
    with publisher(err) as sender:
        for number in range(3):
            sender.offer("metrics", b"%d" % number)
            server.wait(partial(server.checked, number + 1))
        assert server.got == []
        server.away = None
        sender.offer("metrics", b"last")
        server.wait(lambda: server.got)
    assert server.got == [{"metrics": b"last"}]
    told = err.getvalue().splitlines()
    where = "stomp://127.0.0.1:61613"
    assert told[0] == f"publishing to {where} fails, the jobs go on: 127.0.0.1:61613 does not answer"
    assert told[1] == f"{where} answers again"
    assert told[2:] == [f"{sender.failed} messages for {where} were not sent"]
    assert sender.failed == 3


def test_the_end_does_not_wait_for_a_server_that_does_not_answer(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "_END", 0.0)
    err = io.StringIO()
    server.open.clear()
    sender = SnapshotPublisher(NO_SPARK, URL, Progress(err=err))
    sender.offer("metrics", b"1")
    server.wait(lambda: server.got)
    sender.close()
    assert err.getvalue() == "the last messages for stomp://127.0.0.1:61613 are dropped: they took longer than 0 s\n"
    server.open.set()
    sender._thread.join(20)
    assert not sender._thread.is_alive()


@pytest.mark.long
@pytest.mark.spark
def test_a_subscriber_gets_the_messages(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_END", 110.0)  # the first start of Python in Spark, on a machine with other work
    err = io.StringIO()
    with start_gateway() as gateway:
        listener = Client(StompServer(HOST, gateway.tcp_port, heartbeat=0))
        listener.request("SUBSCRIBE", {"id": "0", "destination": "/topic/a b.>", "ack": "auto"})
        sender = SnapshotPublisher(spark, f"stomp://{HOST}:{gateway.tcp_port}/topic/a%20b", Progress(err=err))
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
BATCH = BatchReport("metrics", 12, 120_000, 0.31, AT - 4_249_000, AT)


def test_a_line_as_text_and_as_json() -> None:
    told = {}
    for as_json in (False, True):
        err, out = io.StringIO(), io.StringIO()
        progress = Progress(as_json, err=err, out=out)
        progress.batch(BATCH)
        progress.batch(BatchReport("consumers", 0, 0, 0.0, None, AT))
        progress.say("One sentence.")
        told[as_json] = err.getvalue().splitlines(), out.getvalue().splitlines()
    text = "metrics     batch 12: 120,000 rows in 0.31 s, 387,097 rows/s, lag 4.2 s"
    assert told[False] == ([text, "consumers   batch 0: 0 rows in 0.00 s", "One sentence."], [])
    assert told[True][0] == ["One sentence."]
    first, second = map(json.loads, told[True][1])
    assert (first["job"], first["batch"], first["rows"], first["seconds"]) == ("metrics", 12, 120_000, 0.31)
    assert (first["rows_per_second"], first["lag"], first["at"]) == (387_097, 4.2, "2026-11-21T14:30:07.000Z")
    assert (second["lag"], second["rows_per_second"]) == (None, 0)


def test_lines_of_several_queries_stay_whole() -> None:
    err = io.StringIO()
    progress = Progress(err=err)

    def report() -> None:
        for _ in range(200):
            progress.batch(BATCH)

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert err.getvalue() == (BATCH.line() + "\n") * 800
