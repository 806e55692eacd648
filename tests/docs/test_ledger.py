"""Ledger: every page with examples or commands is named by a module of tests, which runs them.

`test_docs_blocks` looks at names alone, and does not count.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.docs.machine import ROOT
from tests.docs.page import blocks, commands

PAGES = [
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]
]
EXECUTABLE = sorted([page for page in PAGES if blocks(page) or commands(page)])
# The first two only bring packages from the network, or make the tests themselves.  The others are made out of the
# code: tests/test_docs_site.py makes them again, and tests/admin/test_reference.py runs the examples of the API.
NOT_RUN = {"CONTRIBUTING.md", "examples/README.md", "docs/api.md", "docs/commands.md"}


@cache
def words() -> str:
    left_out = {ROOT / "tests" / "test_docs_blocks.py", Path(__file__)}
    found = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file not in left_out and ".md" in text:
            tree = ast.parse(text)
            said = [id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)]
            constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in said]
            found += [node.value for node in constants if isinstance(node.value, str)]
    return "\n".join(found)


@pytest.mark.parametrize("page", EXECUTABLE)
def test_a_test_runs_the_page(page: str) -> None:
    assert page in NOT_RUN or Path(page).name in words(), f"no test names {page}: run what it shows, see tests/docs"
