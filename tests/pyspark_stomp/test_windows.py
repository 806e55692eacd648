"""SIGKILL at each of the named moments, one after the other, over one checkpoint: nothing lost, nothing doubled.

The queries are run by `engine`, which does what Spark does; whole Sparks are killed in `test_kills`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pyspark_stomp.errors import DataLost
from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.engine import Engine
from tests.pyspark_stomp.kills import Feed, Life, outcomes
from tests.pyspark_stomp.queries import at_gateway, config
from tests.pyspark_stomp.windows import WINDOWS


@pytest.mark.long
@pytest.mark.parametrize("mode", list(WINDOWS))
def test_killed_in_every_window(broker: Broker, name: str, tmp_path: Path, mode: str) -> None:
    query = next(each for each in at_gateway(broker.process.tcp_port, name) if each.mode == mode)
    query = dataclasses.replace(query, target="") if query.files else query  # the target needs Spark
    feed = Feed([query])
    for window in WINDOWS[mode]:
        feed.send(250)
        with Life.of_module(tmp_path, "engine", config(tmp_path, [query], [], (query.name, window))) as life:
            life.wait_for((tmp_path / f"window-{query.name}").exists)
        (tmp_path / f"window-{query.name}").unlink()
    feed.send(250)
    Engine(query, tmp_path).run()
    (outcome,) = outcomes([query], tmp_path, feed.sent)
    assert outcome.is_right, outcome
    assert outcome.doubled == 0 or mode == "ack"


def test_a_spool_and_a_checkpoint_belong_together(broker: Broker, name: str, tmp_path: Path) -> None:
    query = at_gateway(broker.process.tcp_port, name)[0]
    Feed([query]).send(10)
    Engine(query, tmp_path).run()
    (tmp_path / "spool-spool").rename(tmp_path / "spool-other")
    with pytest.raises(DataLost, match="the checkpoint belongs to another spool"):
        Engine(query, tmp_path).run()
