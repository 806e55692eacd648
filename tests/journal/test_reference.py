"""docs/journal.md is what the code says."""

from __future__ import annotations

from pathlib import Path

from gateway.journal import reference

PAGE = Path(__file__).parent.parent.parent / "docs" / "journal.md"


def test_the_page() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference.page(), "run `make docs`"


def test_its_lines_are_not_too_long() -> None:
    assert max(map(len, reference.HEAD.splitlines())) <= 120
