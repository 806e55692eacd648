"""The pages of features: what docs/features.md promises, and tests/features.md shows by tests that are there, or gives
a reason why there are none.

Tests are looked up in the syntax trees of the test files.  That a test shows what the row says is for its readers.

    promise = "* **" name ".** " text ["<br>" how to ask for it]     the name may be a link
    shown   = "| " name " | " tests or reason " |"
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

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "features.md"
TEXT = PAGE.read_text() + (ROOT / "tests" / "features.md").read_text()
WORDS = "".join((PAGE.parent / f"{name}.md").read_text() for name in ("headers", "semantics", "policies", "settings"))
"""The pages that explain what the rows name."""

_TEST = re.compile(r"`(tests/[^`]*::[^`]*)`")
_REASON = re.compile(r"Not there: .{20,}\.")
_PROMISE = re.compile(r"\* \*\*\[?([^*\]]+)(?:\]\([^)]*\))?\.\*\* .+")
_SHOWN = re.compile(r"\| ([^|]+) \| ([^|]+) \|")
_LINK = re.compile(r"\[[^]]*\]\(([^)#]*)(?:#([^)]*))?\)")
_WORD = re.compile(r"`([A-Za-z_][\w-]+)(?::[^`]*)?`")

HEAD = ("| Feature | Tests |", "|---|---|")


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


def promised(text: str) -> list[str]:
    return [found[1] for found in map(_PROMISE.fullmatch, text.splitlines()) if found]


def shown(text: str) -> list[str]:
    return [found[1] for line in text.splitlines() if line not in HEAD and (found := _SHOWN.fullmatch(line))]


def fault_of(line: str) -> str:
    """What is wrong with a row; empty: nothing, or it is no row."""
    if line.startswith("* "):
        return "" if _PROMISE.fullmatch(line) else "does not begin with its name"
    if not line.startswith("|") or line in HEAD:
        return ""
    if not (row := _SHOWN.fullmatch(line)):
        return "has not two cells"
    return "" if _TEST.search(row[2]) or _REASON.fullmatch(row[2]) else "names no test, and gives no reason"


def faults(text: str) -> Iterator[str]:
    for name in sorted({*promised(text), *shown(text)}):
        if (promised(text).count(name), shown(text).count(name)) != (1, 1):
            yield f"{name!r} is promised {promised(text).count(name)} times and shown {shown(text).count(name)} times"
    for number, line in enumerate(text.splitlines(), 1):
        if fault := fault_of(line):
            yield f"line {number}: {line[:40]!r} {fault}"
        for test in _TEST.findall(line):
            if not is_there(test):
                yield f"line {number}: there is no test {test}"
        for file, heading in _LINK.findall(line):
            path = (PAGE.parent / file).resolve() if file else PAGE
            if not path.is_file() or (heading and heading not in headings_of(path)):
                yield f"line {number}: {file}#{heading} leads nowhere"


def test_every_promise_names_tests_that_are_there_or_a_reason() -> None:
    assert list(faults(TEXT)) == []


def test_the_tests_stand_in_the_order_of_the_promises() -> None:
    assert promised(TEXT) == shown(TEXT)
    assert len(shown(TEXT)) > 100


def test_what_one_asks_for_is_explained() -> None:
    """Headers, keys and settings in what tells how to ask."""
    rows = PAGE.read_text().split("\n## Differences")[0].splitlines()
    words = {word for row in rows for word in _WORD.findall(row.partition("<br>")[2])}
    assert {word for word in words if not re.search(rf"`{word}[`:]", WORDS)} == set()
    assert {"prefetch-count", "when_full", "memory_limit"} < words


HERE = "tests/test_features.py"
GOOD = f"`{HERE}::test_a_fault_is_found`"


@pytest.mark.parametrize(
    ("promise", "cell", "fault"),
    [
        ("**A.** Words.", GOOD, ""),
        ("**A.** Words.", "Not there: nobody could rely on it, whatever it did.", ""),
        ("**A.** Words.", "It is tested by hand, and that must be enough.", "gives no reason"),
        ("**A.** Words.", f"`{HERE}`, all of it", "names no test"),
        ("**A.** Words.", f"{GOOD}<br>`{HERE}::test_gone`", "there is no test"),
        ("**A.** Words.", f"{GOOD} | more", "two cells"),
        ("**B.** Words.", GOOD, "'A' is promised 0 times and shown 1 times"),
        ("Words.", GOOD, "does not begin with its name"),
        ("**[A](semantics.md#nowhere).** Words.", GOOD, "leads nowhere"),
    ],
)
def test_a_fault_is_found(promise: str, cell: str, fault: str) -> None:
    text = f"* {promise}<br>words\n\n| Feature | Tests |\n|---|---|\n| A | {cell} |\n"
    found = list(faults(text))
    assert any(fault in each for each in found) if fault else not found
