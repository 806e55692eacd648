"""The pages of features: what docs/features.md promises, and tests/features.md shows by tests that are there, or gives
a reason why there are none.

Tests are looked up in the syntax trees of the test files.  That a test shows what the row says is for its readers.

    head    = "|" 1*(cell "|")
    row     = "|" 1*(cell "|")                   of a head that begins "What you get" or "There":
                                                     the first cell begins with "**" name ".**", which may be a link
                                                 of the head "Feature", "Tests": name, and tests or reason
    test    = "`" "tests/" file ".py" "::" [class "::"] name "`"
    reason  = "Not there: " text "."
    link    = "[" text "](" [file] ["#" heading] ")"

What the rows name as headers, keys and settings must be on the pages of these.
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
TEXT = PAGE.read_text() + (ROOT / "tests" / "features.md").read_text()
WORDS = "".join((PAGE.parent / f"{name}.md").read_text() for name in ("headers", "semantics", "policies", "settings"))
"""The pages that explain what the rows name."""

_TEST = re.compile(r"`(tests/[^`]*::[^`]*)`")
_REASON = re.compile(r"Not there: .{20,}\.")
_NAME = re.compile(r"\*\*\[?([^*\]]+)(?:\]\([^)]*\))?\.\*\* .+")
_LINK = re.compile(r"\[[^]]*\]\(([^)#]*)(?:#([^)]*))?\)")
_WORD = re.compile(r"`([A-Za-z_][\w-]+)(?::[^`]*)?`")

HEADS = [["What you get", "How you ask for it"], ["There", "Here"], ["Feature", "Tests"]]


class Row(NamedTuple):
    """A row of a table, and the table's head."""

    line: int
    head: list[str]
    cells: list[str]

    @property
    def promise(self) -> str | None:
        """The name of what it promises; `None`: the row is of another kind."""
        found = _NAME.match(self.cells[0])
        return found[1] if found and self.head[0] != "Feature" else None

    @property
    def fault(self) -> str:
        """What is wrong with it; empty: nothing."""
        if len(self.cells) != len(self.head):
            return "has not as many cells as its head"
        last = self.cells[-1]
        if self.head[-1] == "Tests":
            return "" if _TEST.search(last) or _REASON.fullmatch(last) else "names no test, and gives no reason"
        return "" if self.promise else "does not begin with its name"


def rows_of(text: str) -> Iterator[Row]:
    """All rows of all tables, without their heads."""
    head: list[str] = []
    behind = False  # the line that ends the head
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            behind = False
        elif set(line) <= set("|-"):
            behind = True
        elif behind:
            yield Row(number, head, cells)
        else:
            head = cells


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
    titles = [line.lstrip("#").strip() for line in path.read_text().splitlines() if line.startswith("#")]
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def is_there(test: str) -> bool:
    """Whether there is a test of that name."""
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.name.startswith("test_") and path.is_file() and name in collected_in(path)


def faults(text: str) -> Iterator[str]:
    rows = list(rows_of(text))
    for row in rows:
        if row.fault:
            yield f"line {row.line}: {row.cells[0]!r} {row.fault}"
    promised = [row.promise for row in rows if row.promise]
    shown = [row.cells[0] for row in rows if row.head == ["Feature", "Tests"]]
    for name in sorted({*promised, *shown}):
        if (promised.count(name), shown.count(name)) != (1, 1):
            yield f"{name!r} is promised {promised.count(name)} times and shown {shown.count(name)} times"
    for number, line in enumerate(text.splitlines(), 1):
        for test in _TEST.findall(line):
            if not is_there(test):
                yield f"line {number}: there is no test {test}"
        for file, heading in _LINK.findall(line):
            path = (PAGE.parent / file).resolve() if file else PAGE
            if not path.is_file() or (heading and heading not in headings_of(path)):
                yield f"line {number}: {file}#{heading} leads nowhere"


def test_every_promise_names_tests_that_are_there_or_a_reason() -> None:
    assert list(faults(TEXT)) == []


def test_the_tables_are_whole() -> None:
    """Else a row, or half of one, could hide from this test."""
    rows = list(rows_of(TEXT))
    ends = [line for line in TEXT.splitlines() if line.startswith("|--")]
    assert len(rows) + 2 * len(ends) == sum(line.startswith("|") for line in TEXT.splitlines())
    assert all(row.head in HEADS for row in rows)
    assert {tuple(row.head) for row in rows} == set(map(tuple, HEADS))


def test_the_tests_stand_in_the_order_of_the_promises() -> None:
    rows = list(rows_of(TEXT))
    shown = [row.cells[0] for row in rows if row.head == ["Feature", "Tests"]]
    assert [row.promise for row in rows if row.promise] == shown


def test_what_one_asks_for_is_explained() -> None:
    """Headers, keys and settings in the column of how to ask."""
    words = {word for row in rows_of(TEXT) if row.head == HEADS[0] for word in _WORD.findall(row.cells[1])}
    assert {word for word in words if not re.search(rf"`{word}[`:]", WORDS)} == set()
    assert {"prefetch-count", "when_full", "memory_limit"} < words


HERE = "tests/test_features.py"
GOOD = f"`{HERE}::test_a_fault_is_found`"
HEAD = "| What you get | How you ask for it |\n|---|---|\n"


@pytest.mark.parametrize(
    ("promise", "cell", "fault"),
    [
        ("**A.** Words.", GOOD, ""),
        ("**A.** Words.", "Not there: nobody could rely on it, whatever it did.", ""),
        ("**A.** Words.", "It is tested by hand, and that must be enough.", "gives no reason"),
        ("**A.** Words.", f"`{HERE}`, all of it", "names no test"),
        ("**A.** Words.", f"{GOOD}<br>`{HERE}::test_gone`", "there is no test"),
        ("**A.** Words.", f"{GOOD} | more", "as many cells"),
        ("**B.** Words.", GOOD, "'A' is promised 0 times and shown 1 times"),
        ("Words.", GOOD, "does not begin with its name"),
        ("**[A](semantics.md#nowhere).** Words.", GOOD, "leads nowhere"),
    ],
)
def test_a_fault_is_found(promise: str, cell: str, fault: str) -> None:
    text = f"{HEAD}| {promise} | words |\n\n| Feature | Tests |\n|---|---|\n| A | {cell} |\n"
    found = list(faults(text))
    assert any(fault in each for each in found) if fault else not found
