"""The documentation as a site: it builds, every page can be found, and nothing in it comes from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Written by mkdocs for search engines and for what is not there.
_NO_PAGES = {"404.html"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    pages = {path.name for path in site.glob("*.html")} - _NO_PAGES
    assert pages >= {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages if f'href="{page}"' not in home} <= {"index.html"}


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(
            r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+rel="stylesheet"[^>]+https?:', text
        ), page


def test_links_out_of_docs_lead_to_the_file(site: Path) -> None:
    text = (site / "operations.html").read_text(encoding="utf-8")
    assert 'href="repository/deploy/nginx.conf"' in text
    assert (site / "repository/deploy/nginx.conf").read_bytes() == (ROOT / "deploy/nginx.conf").read_bytes()
