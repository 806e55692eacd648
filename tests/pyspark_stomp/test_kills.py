"""SIGKILL of everything that runs queries, and then an end, in both ways, of the gateway under queries that run.

Spark, its Python and all queries are one session of processes and die together: when one's sink is done and Spark has
not written that down, the others wherever they are.  Messages come all the time: before, between and after.  The
queries go on in the session of the tests, from what is on the disk.  Each moment of a kill has a test of the part
that must bear it, in `test_spool`, `test_memory`, `test_receiver` and `test_log`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.gateway_process import GatewayProcess
from tests.pyspark_stomp.conftest import running_gateway
from tests.pyspark_stomp.kills import Feed, live, outcomes
from tests.pyspark_stomp.queries import at_gateway, at_rabbitmq, start, written
from tests.pyspark_stomp.test_receiver import wait_until


@pytest.fixture
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with running_gateway(tmp_path_factory.mktemp("stored"), store="sqlite:store.db", close_linger=0.1) as process:
        yield process


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(400)
def test_spark_and_gateway_are_killed(
    spark: SparkSession, stored: GatewayProcess, rabbitmq: int, name: str, tmp_path: Path
) -> None:
    queries = at_gateway(stored.tcp_port, name) + (at_rabbitmq(rabbitmq, name) if rabbitmq else [])
    feed = Feed(queries)
    feed.send(400)
    dice = random.Random(seed := random.randrange(1000))
    print(f"seed {seed}")
    live(tmp_path, queries, feed, dice, "spool")
    running = [start(spark, query, tmp_path, rows=1000) for query in queries]

    def all_there() -> bool:
        assert [each.exception() for each in running] == [None] * len(running)
        return not any(each.lost or each.left for each in outcomes(queries, tmp_path, feed.sent))

    try:
        wait_until(all_there, 100, 0.2)
        before = len(written(tmp_path, "ack"))
        for end in (stored.kill, stored.stop):
            feed.send(200)
            end()
            stored.start()
            feed.send(200)
        wait_until(all_there, 100, 0.2)
    finally:
        for each in running:
            each.stop()
    found = outcomes(queries, tmp_path, feed.sent)
    assert all(each.is_right for each in found), "\n".join(map(str, found))
    assert len(written(tmp_path, "ack")) - before == 800  # a broken connection alone doubles nothing
