"""docs/hooks.py: what it does to the text of a page."""

from __future__ import annotations

import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from tests.docs.machine import ROOT

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
