"""The Spark session that all tests of a pytest process share: one JVM, started with the first test that asks for it.

Its settings are those of a machine that runs many small queries once; how fast it is, benchmarks measure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.gateway_process import HOST, free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",  # as docs/connector.md says
    "spark.connect.grpc.binding.address": HOST,
}


def start_spark() -> SparkSession:
    """The same Spark in a process of its own, as a program starts it that knows nothing of the pipeline.

    Its JVM belongs to the process's session, so that whoever kills one kills both.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # or its workers run the system's Python
    os.environ["SPARK_LOCAL_IP"] = HOST
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from gateway.pipeline.spark.session import session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("spark")))  # the JVM's output goes there
        connect = {"spark.connect.grpc.binding.port": str(free_ports(1)[0])}  # if a test has it serve Spark Connect
        spark = session("local[2]", None, "tests", SETTINGS | connect)
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
