"""What `docs/generate` writes is up to date, the page of headers has all of the table, and links lead to the site."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docs.generate import headers, journal, metrics
from gateway.broker.headers.row import OTHER_WORDS, Treatment
from gateway.broker.headers.table import TABLE
from tests.docs.machine import ROOT

DOCS = Path(__file__).parents[2] / "docs"


def lines_of(title: str) -> list[str]:
    section = headers.page().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(
    ("name", "page"), [("headers", headers.page), ("journal", journal.page), ("metrics", metrics.page)]
)
def test_a_page_is_up_to_date(name: str, page: Callable[[], str]) -> None:
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == page(), "run `make docs`"


def test_commands_are_those_of_the_program() -> None:
    """In a process of its own: click keeps the name of the command that first asked for `--help`."""
    command = [sys.executable, "-m", "docs.generate.commands"]
    made = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, timeout=60, check=True)
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == made.stdout, "run `make docs`"


def test_every_row_is_there_with_all_it_says() -> None:
    titles = {
        "CONNECT": "CONNECT and STOMP",
        "STOMP": "CONNECT and STOMP",
        **dict.fromkeys(("BEGIN", "COMMIT", "ABORT"), "BEGIN, COMMIT and ABORT"),
    }
    for row in TABLE:
        sections = ["Queue arguments on SEND and SUBSCRIBE"] if row.argument else [titles.get(f, f) for f in row.frames]
        for title in sections:
            (line,) = [line for line in lines_of(title) if line.startswith(f"| `{row.name}`")]
            assert line.endswith(f" | {row.meaning} |")
            assert f"| {row.treatment.value} |" in line
            for spelling in row.spellings:
                assert f"`{spelling.name}`" + (f" ({spelling.broker})" if spelling.broker else "") in line
                if row.treatment is not Treatment.REFUSED:
                    assert spelling.values.allowed in line
                assert all(f"`{word}`" in line for word in spelling.passes if word)


def test_whether_subscribers_see_it_and_other_words() -> None:
    seen = {line.split("`")[1]: line.split(" | ")[4] for line in lines_of("SEND")}
    words = [seen[name] for name in ("priority", "x-delay", "JMSXGroupID")]
    assert words == ["yes", "no", "yes; an alias as `JMSXGroupID` as well"]
    section = headers.page().split("\n## SUBSCRIBE\n")[1].split("\n## ")[0]
    assert all(f"`{word}`" in section for word in OTHER_WORDS)


HOOKS = runpy.run_path(str(ROOT / "docs" / "hooks.py"))


def moved(uri: str, text: str) -> tuple[str, dict[str, Any]]:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=uri), meta={})
    return HOOKS["on_page_markdown"](text, page=page, config=None, files=None), page.meta


@pytest.mark.parametrize(
    ("uri", "link", "place"),
    [
        ("index.md", "docs/rules.md#keys", "rules.md#keys"),
        ("rules.md", "../README.md", "index.md"),
        ("rules.md", "policies.md", "policies.md"),
        ("moving.md", "../tests/clients/spring.mjs", "repository/tests/clients/spring.mjs"),
        ("repository/examples/README.md", "worker.py", "worker.py"),
        ("repository/examples/README.md", "../docs/rules.md", "../../rules.md"),
    ],
)
def test_links_lead_to_the_site(uri: str, link: str, place: str) -> None:
    assert moved(uri, f"see [that]({link})") == (f"see [that]({place})", {"hide": ["toc"]})


def test_what_is_no_file_is_no_link() -> None:
    assert moved("index.md", "[more](examples), [there](https://example.org), [below](#more)\n## More\n") == (
        "more, [there](https://example.org), [below](#more)\n## More\n",
        {},
    )
