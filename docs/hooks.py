"""What `mkdocs build` does beside mkdocs.yml: the first page is README.md, and links out of docs/ lead somewhere.

Pages are read in the repository, too, where `../examples/worker.py` is a file and no page.  So each path of the
repository has a place in the site, and links are written for those places:

    docs/rules.md       rules.md
    README.md           index.md
    examples/worker.py  repository/examples/worker.py, as soon as a page links to it
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")

_SECTION = re.compile(r"^## ", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page, and whatever pages link to outside of docs/."""
    files.append(File.generated(config, "index.md", abs_src_path=str(_ROOT / "README.md")))
    new = [_path_of(page.src_uri) for page in files.documentation_pages()]
    while new:
        for path in list(_linked(new.pop())):
            if _uri_of(path) not in files.src_uris:
                files.append(File.generated(config, _uri_of(path), abs_src_path=str(_ROOT / path)))
                new.append(path)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write links for the places that files have here.  What is no file (a folder) stays without a link."""
    if not _SECTION.search(markdown):
        page.meta.setdefault("hide", ["toc"])  # its place is the table's, which is all that such a page has
    here, folder = page.file.src_uri, posixpath.dirname(_path_of(page.file.src_uri))

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        if (_ROOT / path).is_dir():
            return found[1]
        uri = posixpath.relpath(_uri_of(path), posixpath.dirname(here) or ".")
        return f"[{found[1]}]({uri}{found[3] or ''})"

    return _LINK.sub(moved, markdown)


def _linked(path: str) -> Iterator[str]:
    """Files of the repository that a page links to."""
    if not path.endswith(".md"):
        return
    for found in _LINK.finditer((_ROOT / path).read_text(encoding="utf-8")):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2]))
        if (_ROOT / target).is_file():
            yield target


def _uri_of(path: str) -> str:
    """The place in the site of a path of the repository."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def _path_of(uri: str) -> str:
    if uri == "index.md":
        return "README.md"
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"
