"""The data source: which reader or writer a query gets.

Constructors run in a process that only plans, so nothing here connects, opens or locks anything.

Spark stops a stream's reader whatever happened, even one that it did not get, and then reports that error instead.  So
wrong options of a stream are reported by a reader that has no other answer.  Options that any source needs are checked
earlier, when Spark asks for the columns, and unknown options first of all.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from .batch import BatchReader, OffsetReader
from .errors import OptionError
from .offset_stream import OffsetStreamReader
from .options import Options
from .rows import check_columns, ddl
from .sink import BatchWriter, Plan, StreamWriter
from .stream import StoreStreamReader


class DefaultSource(DataSource):
    """`format("stomp")`.  `OptionError`: an option is unknown or wrong."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = Options.of(options)

    @classmethod
    def name(cls) -> str:
        """The word in `format`."""
        return "stomp"

    def schema(self) -> str:
        """The columns of a source.  `OptionError`: there is no destination."""
        self._parsed.check_source()
        return ddl(body=self._parsed.include_body)

    def reader(self, schema: StructType) -> DataSourceReader:
        """`spark.read`.  `OptionError`: options or schema are wrong."""
        options = self._parsed
        options.check_source()
        columns = _columns(schema)
        return OffsetReader(options, columns) if options.mode == "offset" else BatchReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """`spark.readStream`."""
        options = self._parsed
        try:
            options.check_stream()
            columns = _columns(schema)
        except OptionError as error:
            return RefusedReader(error)
        return OffsetStreamReader(options, columns) if options.mode == "offset" else StoreStreamReader(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """`df.write`.  `OptionError`: options or columns are wrong."""
        return BatchWriter(Plan.of(self._parsed, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """`df.writeStream`.  `OptionError`: options or columns are wrong."""
        return StreamWriter(Plan.of(self._parsed, schema, overwrite=overwrite))


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers the first question, whichever that is, with an error."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._error

    initialOffset = getDefaultReadLimit = prepareForTriggerAvailableNow = _refuse
    latestOffset = partitions = read = _refuse

    def stop(self) -> None:
        """Nothing has begun."""


def _columns(schema: StructType) -> list[str]:
    return check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields])
