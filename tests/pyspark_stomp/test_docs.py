"""docs/connector.md says the same as the code: options with their defaults, columns with their types."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from pyspark_stomp.options import Options
from pyspark_stomp.rows import COLUMNS

_TEXT = (Path(__file__).parents[2] / "docs" / "connector.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading."""
    behind = _TEXT.split(f"\n## {heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", behind, re.MULTILINE)
    assert table is not None
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


def default(field: Field[Any]) -> str:
    """A default as one would write it."""
    value = field.default
    if field.default_factory is not MISSING:
        value = field.default_factory()
    return value if isinstance(value, str) else json.dumps(value) if value != () else ""


def test_options() -> None:
    assert [row[:2] for row in rows("Options")] == [
        [field.metadata["option"], default(field)] for field in fields(Options)
    ]


def test_columns() -> None:
    assert [row[:2] for row in rows("Columns")] == [[name, kind] for name, kind, _ in COLUMNS]
