"""The data source without Spark: when it says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_stomp import DefaultSource
from pyspark_stomp.errors import OptionError
from pyspark_stomp.rows import ddl


def test_a_missing_destination_is_an_error_of_the_schema() -> None:
    with pytest.raises(OptionError, match="option destination is missing"):
        DefaultSource({}).schema()
    assert DefaultSource({"destination": "/queue/a"}).schema() == ddl(body=True)


def test_a_misspelt_option_is_an_error_at_once() -> None:
    with pytest.raises(OptionError, match=r"is destination meant\?"):
        DefaultSource({"destinatoin": "/queue/a"})


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.initialOffset(),
        lambda reader: reader.getDefaultReadLimit(),
        lambda reader: reader.prepareForTriggerAvailableNow(),
        lambda reader: reader.latestOffset({}, ReadAllAvailable()),
        lambda reader: reader.partitions({}, {}),
    ],
)
@pytest.mark.parametrize("told", [{}, {"destination": "/queue/a"}, {"destination": "/topic/a", "mode": "offset"}])
def test_a_stream_fails_at_its_first_call(told: dict[str, str], ask: Callable[[Any], object]) -> None:
    """Spark hides an exception of `streamReader`: it then stops a reader that it does not have."""
    schema = StructType().add("colour", "string") if "mode" in told else StructType()
    reader = DefaultSource(told).streamReader(schema)
    assert isinstance(reader, DataSourceStreamReader)
    assert isinstance(reader, SupportsTriggerAvailableNow)
    with pytest.raises(OptionError, match=r"option destination|option spoolDir|names a column colour"):
        ask(reader)
    reader.stop()
