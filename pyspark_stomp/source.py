"""The data source: which reader or writer a query gets.

Constructors run in a process that only plans, so nothing here connects, opens or locks anything.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from .batch import BatchReader, LogReader
from .logstream import LogStreamReader
from .options import Options
from .rows import check_columns, ddl
from .sink import BatchWriter, Plan, StreamWriter
from .stream import StoreStreamReader


class DefaultSource(DataSource):
    """`format("stomp")`."""

    @classmethod
    def name(cls) -> str:
        """The word in `format`."""
        return "stomp"

    def schema(self) -> str:
        """The columns of a source."""
        return ddl(body=Options.of(self.options).include_body)

    def reader(self, schema: StructType) -> DataSourceReader:
        """`spark.read`.

        Raises:
            OptionError: options or schema cannot be meant.
        """
        options = Options.of(self.options)
        options.check_source()
        columns = _columns(schema)
        return LogReader(options, columns) if options.mode == "offset" else BatchReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """`spark.readStream`.

        Raises:
            OptionError: options or schema cannot be meant.
        """
        options = Options.of(self.options)
        options.check_stream()
        columns = _columns(schema)
        return LogStreamReader(options, columns) if options.mode == "offset" else StoreStreamReader(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """`df.write`.

        Raises:
            OptionError: options or columns cannot be meant.
        """
        return BatchWriter(Plan.of(Options.of(self.options), schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """`df.writeStream`.

        Raises:
            OptionError: options or columns cannot be meant.
        """
        return StreamWriter(Plan.of(Options.of(self.options), schema, overwrite=overwrite))


def _columns(schema: StructType) -> list[str]:
    return check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields])
