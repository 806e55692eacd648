"""A span of the archive as a DataFrame."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.archive.compact import compact
from gateway.pipeline.errors import UsageFailure
from gateway.pipeline.spark.dataframe import COLUMNS
from gateway.pipeline.spark.dataframe import rows as read
from tests.pipeline import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR = timedelta(hours=1)


def seqs(frame: DataFrame) -> list[int]:
    return sorted([row.seq for row in frame.select("seq").collect()])


def test_a_range_is_read_once_and_completely(spark: SparkSession, tmp_path: Path) -> None:
    """Of three hours the first is compacted, and then gets another raw file."""
    first = [rows.accepted(minute * 60, seq=minute + 1, headers={"a": "", "b": "1"}) for minute in range(180)]
    rows.write(tmp_path, first)
    compact(tmp_path, rows.START + HOUR)
    rows.write(tmp_path, [rows.accepted(59, seq=1001), rows.acked(3601, seq=1002)], number=2)
    begin, end = rows.START, rows.START + 3 * HOUR
    everything = read(spark, str(tmp_path), begin, end)
    assert everything.columns == list(COLUMNS)
    row = everything.where("seq = 61").first()
    assert row is not None
    assert (row.gateway, row.epoch, row.destination, row.queue_us) == (rows.GATEWAY, rows.EPOCH, "/queue/a", None)
    assert (row.headers, bytes(row.body)) == ({"a": "", "b": "1"}, b"x" * 100)
    assert (row.date, row.hour) == (date(2026, 3, 1), 13)
    assert seqs(everything) == [*range(1, 181), 1001, 1002]
    # The ends of the span, the events, the columns.
    part = read(spark, str(tmp_path), begin + 0.5 * HOUR, begin + HOUR + timedelta(seconds=1), events=["accepted"])
    assert seqs(part) == list(range(31, 62))
    assert read(spark, str(tmp_path), begin, end, columns=["event", "hour"]).columns == ["event", "hour"]
    assert seqs(read(spark, str(tmp_path), begin, end, events=["acked", "nacked"])) == [1002]


def test_an_archive_that_is_elsewhere_or_empty_or_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Of one elsewhere the raw files alone, with the same columns."""
    rows.write(tmp_path, [rows.accepted(at, seq=number + 1) for number, at in enumerate((0, 3600, 86_400))])
    uri = tmp_path.as_uri() + "/"
    frame = read(spark, uri, rows.START, rows.START + 2 * HOUR)
    assert frame.columns == list(COLUMNS)
    assert sorted([(row.seq, row.date, row.hour) for row in frame.collect()]) == [
        (1, date(2026, 3, 1), 12),
        (2, date(2026, 3, 1), 13),
    ]
    (tmp_path / "empty").mkdir()
    empty = read(spark, str(tmp_path / "empty"), rows.START, rows.START + HOUR)
    assert (empty.columns, empty.count()) == (list(COLUMNS), 0)
    missing = tmp_path / "missing"
    for place in (str(missing), missing.as_uri()):
        with pytest.raises(UsageFailure, match=r"there is no archive .*missing"):
            read(spark, place, rows.START - HOUR, rows.START)
