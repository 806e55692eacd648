"""The documentation as a site: `make docs` builds it of pages that are up to date; every page can be found, every link
leads somewhere, its button copies commands alone, its search finds, and nothing in it comes from elsewhere."""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.clients.driver import ROOT, start_driver, tool

_ABSENT = "404.html"  # written by mkdocs; its links are those of a server's root


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` makes, in a copy of the sources and with this Python."""
    copy = tmp_path_factory.mktemp("sources") / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "node_modules", "site", "vendor", "tests"))
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    command = ["make", "--old-file=.venv/docs", f"BIN={Path(sys.executable).parent}", "docs"]
    built = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    return copy / "site"


def test_generated_pages_are_up_to_date(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site.parent / "docs" / page.name).read_text() == page.read_text(), f"{page.name}: run `make docs`"


def test_every_page_is_in_the_navigation(site: Path) -> None:
    page = (site / "settings.html").read_text(encoding="utf-8")
    for name in [path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "settings"]:
        assert f'href="{name}.html"' in page, f"mkdocs.yml has no place for {name}"


def test_links_lead_somewhere_and_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    del pages[_ABSENT]
    names = {path: set(re.findall(r'\bid="([^"]*)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="\w+:|<link[^>]+rel="stylesheet"[^>]+"\w+:', text), path
        for target, anchor in re.findall(r'\b(?:href|src)="(?!\w+:)([^"#]*)#?([^"]*)"', text):
            found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            assert (site / found).exists(), f"{path} links to {target}"
            assert not anchor or anchor in names.get(found, {anchor}), f"{path} links to {target}#{anchor}"


def test_in_a_browser(site: Path) -> None:
    serve = partial(SimpleHTTPRequestHandler, directory=str(site))
    find = {"words": "glossary", "title": "Glossary", "page": "glossary.html"}
    with (
        start_driver("chromium.mjs", tool("chromium")) as chromium,
        ThreadingHTTPServer(("127.0.0.1", 0), serve) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}/"
        chromium.run(
            "site", origin=origin, copy="first-steps.html", diagram="semantics.html", table="comparison.html", find=find
        )
        server.shutdown()
