"""The table itself: it is read as it stands, and each of its cells has a test."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

from .requirements import COLUMNS, REQUIREMENTS, columns, read

PACKAGE = __name__.rpartition(".")[0]


def definitions() -> Iterator[list[pytest.Mark]]:
    """The marks of every test of this folder that runs on a scene."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{PACKAGE}.{path.stem}")
        for value in vars(module).values():
            marks = getattr(value, "pytestmark", [])
            if isinstance(value, FunctionType) and any(mark.name == "requirement" for mark in marks):
                yield marks


def arguments(marks: list[pytest.Mark], name: str) -> list[str]:
    return [argument for mark in marks if mark.name == name for argument in mark.args]


def test_the_table_is_read() -> None:
    assert len(REQUIREMENTS) == 203
    assert REQUIREMENTS["FRM-02"].levels == {"1.2": "MUST*"}
    assert REQUIREMENTS["NEG-04"].levels == {"1.1": "SHOULD", "1.2": "MUST"}
    assert REQUIREMENTS["LEN-09"].levels == {"1.0": "SHOULD"}
    assert not REQUIREMENTS["WST-01"].binds("1.2", "tcp")
    assert read("| ABC-01 | MUST | — | MAY* | said | there | so |")["ABC-01"].levels == {"1.0": "MUST", "1.2": "MAY*"}


def test_every_requirement_that_binds_has_a_test() -> None:
    shown: set[tuple[str, str, str]] = set()
    for marks in definitions():
        ids = arguments(marks, "requirement")
        shown |= {(id, *column) for id in ids for column in columns(ids, arguments(marks, "columns"))}
    missing = [
        f"{row.id} ({version} over {transport})"
        for row in REQUIREMENTS.values()
        for version, transport in COLUMNS
        if row.binds(version, transport) and (row.id, version, transport) not in shown
    ]
    assert not missing
