"""What Spark makes of the rows of some hours, for each job: the same as the plain loops of `reference` make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession

from gateway.pipeline.jobs import JOBS
from tests.pipeline import rows
from tests.pipeline.jobs.reference import in_order, looks_of, metrics_of, sessions_of
from tests.pipeline.jobs.story import life, numbered, story
from tests.pipeline.jobs.test_sessions import letters_of
from tests.pipeline.jobs.test_sessions import table_of as sessions_table

pytestmark = pytest.mark.spark


def told() -> list[rows.Row]:
    """Rows of all events, and of a gateway `g9` 900 ACKs of three consumers, one of which is looked at twice."""
    random = Random(4)
    settled = [rows.acked(at, session=f"s{at % 3}", gateway="g9") for at in range(900)]
    settled += [rows.gauge_subscription(at + 0.5, session="s0", gateway="g9") for at in (300, 600)]
    lived = [each | {"gateway": f"l{each['gateway']}"} for each in life(random)]  # its sessions are not the story's
    return [*story(random, 1500), *lived, *numbered(settled)]


TOLD = told()
REFERENCE: dict[str, Callable[[list[rows.Row]], pyarrow.Table]] = {
    "metrics": metrics_of,
    "consumers": looks_of,
    "sessions": lambda made: sessions_table(sessions_of(made)),
    "deadletters": letters_of,
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return rows.frame(spark, TOLD).cache()


@pytest.mark.parametrize("name", JOBS)
def test_partial_rows_are_those_of_the_reference(frame: DataFrame, name: str) -> None:
    job, expected = JOBS[name], REFERENCE[name](TOLD)
    found = job.transform(frame.select(*job.columns)).toArrow()
    assert [(each.name, each.type) for each in found.schema] == [(each.name, each.type) for each in expected.schema]
    assert in_order(found) == in_order(expected)
    if name == "consumers":  # however long a batch is, a consumer that was never looked at leaves one row
        own = [each["session"] for each in found.to_pylist() if (each["gateway"], each["what"]) == ("g9", "settled")]
        assert Counter(own) == {"s0": 3, "s1": 1, "s2": 1}
