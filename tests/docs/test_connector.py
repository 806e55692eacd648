"""docs/connector.md: its programs run as they stand, but for the port, and for folders that are this test's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.page import blocks
from tests.gateway_process import start_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.long
def test_the_five_minutes(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, stream, sql = [block.text for block in blocks("docs/connector.md") if block.title == "Five minutes"]
    with start_gateway() as gateway:

        def placed(text: str) -> str:
            text = text.replace('format("stomp")', f'format("stomp").option("port", {gateway.tcp_port})')
            text = text.replace("OPTIONS (", f"OPTIONS (port '{gateway.tcp_port}', ")
            return text.replace("/var/lib/orders", str(tmp_path))

        names: dict[str, object] = {}
        exec(placed(first), names)
        assert "|/queue/orders|" in capsys.readouterr().out
        view, query = [statement for statement in placed(sql).split(";") if statement.strip()]
        spark.catalog.dropTempView("waiting")  # the session is shared, and another test may have left one
        spark.sql(view)
        assert {tuple(row) for row in spark.sql(query).collect()} == {("red", 1), ("blue", 1)}
        exec(placed(stream), names)
        rows = spark.read.parquet(str(tmp_path / "table")).select("body", "colour").collect()
        assert {tuple(row) for row in rows} == {("one", "red"), ("two", "blue")}
