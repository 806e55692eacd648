"""SIGKILL of everything that runs a query: at random, and when the sink is done and Spark has not written that down.

All queries run in one process group and die together.  Messages come all the time: before, between and after.
Then the queries go on in the session of the tests, to the end, from what is on the disk.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.queries import NAMES, TARGET, source_of, start, written
from tests.pyspark_stomp.test_receiver import bodies, wait_until

_ROOT = Path(__file__).parents[2]
_START = 90.0


@contextmanager
def running(broker: Broker, folder: Path, *more: str) -> Iterator[Callable[[], None]]:
    """The process group; the value checks that it lives.  Leaving the block kills it."""
    command = [sys.executable, "-m", "tests.pyspark_stomp.queries", str(broker.process.tcp_port), str(folder), *more]
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, stdout=log, start_new_session=True)

    def check() -> None:
        assert process.poll() is None, (folder / "log").read_text()[-5000:]

    try:
        yield check
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def everywhere(broker: Broker, count: int, first: int) -> None:
    """Messages for all queries."""
    for name in NAMES:
        broker.send(source_of(name), bodies(count, first))


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_killed_and_killed_again(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    everywhere(broker, 1200, 0)
    seed = random.randrange(1000)
    print(f"seed {seed}")
    batches = random.Random(seed).randrange(1, 7)  # of the seven that the first messages make, at least
    with running(broker, tmp_path) as check:

        def far_enough() -> bool:
            check()
            return len(list(tmp_path.glob("checkpoint-*/commits/[0-9]*"))) >= batches

        wait_until(far_enough, _START)
        everywhere(broker, 600, 1200)
    with running(broker, tmp_path, "window") as check:

        def all_stand_still() -> bool:
            check()
            return all((tmp_path / f"window-{name}").exists() for name in NAMES)

        wait_until(all_stand_still, _START)
        everywhere(broker, 200, 1800)
    queries = {name: start(spark, name, broker.process.tcp_port, tmp_path, rows=1000, once=True) for name in NAMES}
    for name, query in queries.items():
        assert query.awaitTermination(90), f"{name} does not end"
        assert query.exception() is None
    expected = sorted(bodies(2000))
    assert sorted(written(tmp_path, "spool")) == expected
    assert sorted(set(written(tmp_path, "ack"))) == expected
    assert sorted(broker.waiting(TARGET)) == expected
    for name in ("spool", "ack"):
        assert broker.waiting(source_of(name)) == []
