"""The page for users says what is: its examples parse, and its errors are those that come."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.selectors import parse

PAGE = (Path(__file__).parents[3] / "docs" / "selectors.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> list[str]:
    """The code that the items of a section begin with."""
    return re.findall(r"^\* `([^`]+)`", section(title), re.MULTILINE)


def test_the_examples_parse() -> None:
    for selector in first_cells("By example"):
        assert (parse(selector)({}) is True) is (selector == "discount IS NULL")


def test_the_names_of_jms_are_these() -> None:
    for name, header in re.findall(r"^\* `(JMS\w+)`: `([a-z_-]+)`", PAGE, re.MULTILINE):
        assert parse(f"{name} = 'x'")({header: "x"})


def test_the_errors_are_these() -> None:
    for line in re.findall(r"^    (column .*)$", section("Errors"), re.MULTILINE):
        before, behind = line.rsplit("[here]", 1)
        with pytest.raises(NotAllowed, match=r"^selector does not parse$") as caught:
            parse(before.rsplit(": ", 1)[1] + behind)
        assert caught.value.detail == line


def test_something_was_found() -> None:
    assert len(first_cells("By example")) == 14
    assert len(first_cells("JMS names")) == 11
    assert section("Errors").count("\n    column ") == 2
