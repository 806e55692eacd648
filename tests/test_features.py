"""The page of features: each row names tests that are there, or says why it names none, and links that lead somewhere.

The names are looked up in the syntax trees of the test files; nothing is imported.  That a test shows what the row says
is for its readers to see.

    row    = "|" 1*(cell "|")                                   in the last cell: the tests, or the reason
    test   = "`" "tests/" file ".py" "::" [class "::"] name "`"
    reason = ("Not there: " text / "The next release (" text) "."
    link   = "[" text "](" file ["#" heading] ")"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "features.md"

_TEST = re.compile(r"`(tests/[^`]*::[^`]*)`")
_REASON = re.compile(r"(Not there: .{20,}|The next release \(.*)\.")
_LINK = re.compile(r"\[[^]]*\]\(([^)#]*)(?:#([^)]*))?\)")


class Row(NamedTuple):
    """A row of a table."""

    line: int
    cells: list[str]

    @property
    def tests(self) -> list[str]:
        """The tests that it names."""
        return _TEST.findall(self.cells[-1])


def rows_of(text: str) -> Iterator[Row]:
    """All rows of all tables, without their heads."""
    behind = False  # the line that ends the head
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            behind = False
        elif set(line) <= set("|-"):
            behind = True
        elif behind:
            yield Row(number, [cell.strip() for cell in line.strip("|").split("|")])


@cache
def collected_in(path: Path) -> frozenset[str]:
    """What pytest would collect there, as `name` or `class::name`."""
    found: set[str] = set()
    module = ast.parse(path.read_text()).body
    for node in module:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found |= {f"{node.name}::{each}" for each in _functions(node.body)}
    return frozenset(found.union(_functions(module)))


def _functions(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield node.name


@cache
def headings_of(path: Path) -> frozenset[str]:
    """The anchors of a page's headings."""
    titles = [line.lstrip("#").strip() for line in path.read_text().splitlines() if line.startswith("#")]
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def is_there(test: str) -> bool:
    """Whether there is a test of that name."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.name.startswith("test_") and path.is_file() and name in collected_in(path)


def faults(text: str) -> Iterator[str]:
    """What is wrong with a page."""
    for row in rows_of(text):
        if not row.tests and not _REASON.fullmatch(row.cells[-1]):
            yield f"line {row.line}: {row.cells[0]!r} names no test, and gives no reason"
    for number, line in enumerate(text.splitlines(), 1):
        for test in _TEST.findall(line):
            if not is_there(test):
                yield f"line {number}: there is no test {test}"
        for file, heading in _LINK.findall(line):
            path = (PAGE.parent / file).resolve()
            if not path.is_file() or (heading and heading not in headings_of(path)):
                yield f"line {number}: {file}#{heading} leads nowhere"


def test_every_row_names_tests_that_are_there_or_a_reason() -> None:
    assert list(faults(PAGE.read_text())) == []


def test_the_tables_are_whole() -> None:
    """Else a row, or half of one, could hide from this test."""
    text = PAGE.read_text()
    rows = list(rows_of(text))
    heads = [line for line in text.splitlines() if line.startswith(("| Feature |", "| There |"))]
    assert len(rows) + 2 * len(heads) == sum(line.startswith("|") for line in text.splitlines())
    assert len(heads) == 5
    for row in rows:
        assert all(row.cells[:1]), f"line {row.line}"
        assert len(row.cells) in (2, 3, 4), f"line {row.line}"


def test_each_feature_stands_there_once() -> None:
    names = [row.cells[0] for row in rows_of(PAGE.read_text())]
    assert len(names) == len(set(names))


HERE = "tests/test_features.py"


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        (f"`{HERE}::test_a_fault_is_found`", ""),
        (f"`{HERE}::TestOfThisTest::test_a_method`", ""),
        ("Not there: nobody could rely on it, whatever it did.", ""),
        ("The next release (durability).", ""),
        ("", "gives no reason"),
        ("-", "gives no reason"),
        ("Not there: no.", "gives no reason"),
        ("It is tested by hand, and that must be enough.", "gives no reason"),
        (f"`{HERE}`, all of it", "names no test"),
        (f"`{HERE}::test_that_is_gone`", "there is no test"),
        (f"`{HERE}::TestOfThisTest::test_that_is_gone`", "there is no test"),
        (f"`{HERE}::TestOfThisTest`", "there is no test"),
        (f"`{HERE}::test_a_method`", "there is no test"),
        (f"`{HERE}::is_there`", "there is no test"),
        ("`tests/broker/conftest.py::scene`", "there is no test"),
        ("`tests/test_gone.py::test_x`", "there is no test"),
        (f"`{HERE}::test_a_fault_is_found`<br>`{HERE}::test_gone`", "there is no test"),
    ],
)
def test_a_fault_is_found(cell: str, fault: str) -> None:
    found = list(faults(f"Text.\n\n| Feature | Tests |\n|---|---|\n| A | {cell} |\n"))
    assert [fault in each for each in found] == ([True] if fault else [])


@pytest.mark.parametrize(
    ("link", "good"),
    [
        ("[x](semantics.md)", True),
        ("[x](semantics.md#delivery-and-acknowledgement)", True),
        ("[x](../examples/rpc.py)", True),
        ("[x](semantics.md#nowhere)", False),
        ("[x](nothing.md)", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, good: bool) -> None:
    assert (list(faults(f"See {link}.")) == []) is good


class TestOfThisTest:
    def test_a_method(self) -> None:
        """Found as `class::name`, and not as a name alone."""
        assert is_there(f"{HERE}::TestOfThisTest::test_a_method")
        assert not is_there(f"{HERE}::test_a_method")
