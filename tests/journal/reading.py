"""The rows of a journal's files, as the archive reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from gateway.archive.segments import Tables

Row = tuple[Any, ...]
"""The values of `schema.COLUMNS`, in that order; `ts` is in microseconds since 1970, `headers` is a dictionary."""


class Segment:
    """One file; `torn`, `damaged` and `unknown` are known after the last row."""

    def __init__(self, path: Path) -> None:
        self._tables = Tables(path)

    @property
    def torn(self) -> int:
        return self._tables.torn

    @property
    def damaged(self) -> int:
        return self._tables.damaged

    @property
    def unknown(self) -> int:
        return self._tables.unknown

    def records(self) -> Iterator[list[Row]]:
        """The rows of each record."""
        return map(rows_in, self._tables)

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.records())


def rows_in(table: pa.Table) -> list[Row]:
    """The rows of a table with the columns of a journal."""
    columns = [table[name].cast(pa.int64()) if name == "ts" else table[name] for name in table.column_names]
    return list(zip(*[[_plain(value) for value in column.to_pylist()] for column in columns], strict=True))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, list) else value
