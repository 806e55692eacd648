"""The sink against the real gateway, without Spark: how fast it may send."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from pyspark_stomp.sink import BatchWriter, Plan, Written
from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.test_receiver import bodies


@pytest.mark.parametrize(("rate", "least"), [("20", 0.4), ("4", 0.0), ("0", 0.0)])
def test_rows_a_second(broker: Broker, name: str, rate: str, least: float) -> None:
    """Ten rows, two in a transaction at 20 a second: the fifth transaction is due after 0.4 s."""
    count = 1 if rate == "4" else 10
    rows = pa.RecordBatch.from_pydict({"body": bodies(count)})
    writer = BatchWriter(Plan(broker.options(destination=f"/queue/{name}", maxRowsPerSecond=rate), ["body"], name))
    started = time.monotonic()
    assert writer.write(iter([rows])) == Written(count)
    assert least <= time.monotonic() - started < least + 5
    assert broker.waiting(f"/queue/{name}") == bodies(count)
