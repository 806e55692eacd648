"""The archive as a DataFrame: a span of it at once, for report and replay.

    on this machine     the files that `gateway.archive.history` names, so that no row comes twice
    anywhere else       ARCHIVE is a Hadoop URI: all files below its `raw`

The columns are those of `gateway.journal.schema`, then `date` and `hour`, computed from `ts`.  A file that is older
than a column has null there; a column that is newer than this program is not read.

The files are named once, when the DataFrame is made: a compaction during a long read makes the reading fail.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from gateway.archive import history
from gateway.archive.layout import ArchiveError
from gateway.journal import schema

from .. import errors
from ..errors import JobFailure, UsageFailure

COLUMNS = tuple([each.name for each in (*schema.COLUMNS, *schema.PARTITIONS)])  # the names of all columns, in order


def rows(
    spark: SparkSession,
    archive: str,
    since: datetime,
    until: datetime,
    *,
    events: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a span, which ends before `until`; `events` and `columns` None: all.

    `UsageFailure`: there is no archive.  `JobFailure`: it cannot be read.
    """
    frame = _remote(spark, archive, since, until) if "://" in archive else _local(spark, archive, since, until)
    wanted = (f.col("ts") >= f.lit(since)) & (f.col("ts") < f.lit(until))
    if events is not None:
        wanted &= f.col("event").isin(list(events))
    return frame.where(wanted).select(*(COLUMNS if columns is None else columns))


def files_of(archive: str, since: datetime, until: datetime) -> list[str]:
    """The files of a folder with the rows of a span, and maybe others; raises like `rows`."""
    folder = Path(archive)
    if not folder.is_dir():
        raise UsageFailure(f"there is no archive in {archive}: name its folder with --archive")
    try:
        found = history.files(folder, since, until)
        for path in found:
            errors.refuse_empty(path)
    except (ArchiveError, OSError) as error:
        raise JobFailure(f"the archive cannot be read: {error}") from None
    return [str(path) for path in found]


def _local(spark: SparkSession, archive: str, since: datetime, until: datetime) -> DataFrame:
    found = files_of(archive, since, until)
    frame = spark.read.schema(schema.ddl()).parquet(*found) if found else spark.createDataFrame([], schema.ddl())
    return frame.withColumn("date", f.to_date("ts")).withColumn("hour", f.hour("ts"))


def _remote(spark: SparkSession, archive: str, since: datetime, until: datetime) -> DataFrame:
    ddl = ", ".join([schema.ddl(), *[f"{each.name} {each.type}" for each in schema.PARTITIONS]])
    try:
        frame = spark.read.schema(ddl).parquet(archive.rstrip("/") + "/raw")
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise UsageFailure(f"there is no archive at {archive}: it has no folder raw") from None
    # Spark skips whole days before it opens a file.
    return frame.where(f.col("date").between(f.to_date(f.lit(since)), f.to_date(f.lit(until))))
