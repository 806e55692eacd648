"""The journal's columns as Arrow types; the partitions, `date` and `hour`, are in the names of the folders."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gateway.journal import schema

_TYPES = {
    schema.STRING: pa.string(),
    schema.INT: pa.int32(),
    schema.BIGINT: pa.int64(),
    schema.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    schema.MAP: pa.map_(pa.string(), pa.string()),
    schema.BINARY: pa.binary(),
}

SCHEMA = pa.schema(
    [pa.field(each.name, _TYPES[each.type], nullable=each.nullable) for each in schema.COLUMNS],
    metadata={"gateway.journal": str(schema.VERSION)},
)

REPEATED = [
    *("gateway", "event", "transport", "peer", "principal", "session", "subscription", "ack_mode", "destination"),
    *("message_id", "transaction", "reason", "headers.key_value.key", "headers.key_value.value"),
]
"""Columns whose values repeat: a Parquet file has them in a dictionary."""


def aligned(table: pa.Table) -> pa.Table:
    """A table of an older version of the schema with the columns of this one.  `ValueError`: it is newer, or other."""
    newer = [name for name in table.column_names if name not in SCHEMA.names]
    if newer:
        raise ValueError(f"it has columns that this program does not know: {', '.join(newer)}")
    columns: list[Any] = []
    for field in SCHEMA:
        if field.name not in table.column_names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        try:
            columns.append(table.column(field.name).cast(field.type))
        except pa.ArrowNotImplementedError as error:
            raise ValueError(f"its column {field.name} has another type") from error
    return pa.table(columns, schema=SCHEMA)
