"""What `mkdocs build` does beside mkdocs.yml: the front page, the product's look, and places for what pages link to.

Pages are read in the repository, too, where `../examples/worker.py` is a file and no page.  So each path of the
repository has a place in the site, and links are written for those places:

    docs/rules.md       rules.md
    examples/worker.py  repository/examples/worker.py, as soon as a page links to it

The front page is docs/theme/front.md, which only the site has.  Its picture and its programs are those of README.md,
where the tests run them.  Colours are those of static/look/tokens.css, under the names that Material's switch needs.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_SECTION = re.compile(r"^## ", re.MULTILINE)
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)", re.MULTILINE)
_BLOCK = re.compile(r'<div class="(?P<class>(?:language-\w+ )?highlight)"><pre\b[^>]*>(?P<code>.*?)</pre>', re.DOTALL)
_TYPED = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.DOTALL)
_DIAGRAM = re.compile(r'<img ([^>]*)src="(\w+)\.svg"([^>]*)>')
_DARK = "@media (prefers-color-scheme: dark)"
_COLOURS = re.compile(r":root \{(.*?)\}", re.DOTALL)
_SCHEMES = ("default", "slate")  # light and dark, in the words of Material


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the front page, the look, and whatever pages link to outside of docs/."""
    files.append(File.generated(config, "index.md", content=_front()))
    files.append(File.generated(config, "look.css", content=_look()))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(_ROOT / "static/icon.svg")))
    for diagram in (_ROOT / "docs").glob("*.svg"):
        text = diagram.read_text(encoding="utf-8")
        for name, media in (("light", "@media not all"), ("dark", "@media all")):
            uri = f"{diagram.stem}.{name}.svg"
            files.append(File.generated(config, uri, content=text.replace(_DARK, media)))
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
    if page.file.src_uri.startswith("repository/"):
        page.meta.setdefault("search", {"exclude": True})  # for readers of the code
    here, folder = page.file.src_uri, posixpath.dirname(_path_of(page.file.src_uri))

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        if (_ROOT / path).is_dir():
            return found[1]
        uri = posixpath.relpath(_uri_of(path), posixpath.dirname(here) or ".")
        return f"[{found[1]}]({uri}{found[3] or ''})"

    return _LINK.sub(moved, markdown)


def on_page_content(content: str, **_: object) -> str:
    """Mark blocks, tables and diagrams.

    Where a block shows commands and their output, the button copies the commands (Material's `data-copy`). Cells of
    wide tables get the names of their columns, because a phone shows each row as a card. Diagrams follow the page's
    switch of light and dark, not only the system.
    """
    content = _TABLE.sub(_labelled, content)
    content = _DIAGRAM.sub(
        lambda found: "".join(
            [f'<img {found[1]}src="{found[2]}.{name}.svg#only-{name}"{found[3]}>' for name in ("light", "dark")]
        ),
        content,
    )

    def marked(found: re.Match[str]) -> str:
        shown = html.unescape(re.sub(r"<[^>]+>", "", found["code"]))
        commands = html.escape("\n".join(_TYPED.findall(shown))).replace("\n", "&#10;")
        if not commands:
            return found[0]
        return found[0].replace(f'class="{found["class"]}"', f'class="{found["class"]}" data-copy="{commands}"', 1)

    return _BLOCK.sub(marked, content)


def on_post_page(output: str, **_: object) -> str:
    """The theme's dialog has no name that a screen reader could say."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def _labelled(table: re.Match[str]) -> str:
    heads = [
        html.escape(html.unescape(re.sub(r"<[^>]+>", "", head)))
        for head in re.findall(r"<th\b[^>]*>(.*?)</th>", table[0], re.DOTALL)
    ]
    if len(heads) < 3:
        return table[0]
    columns = cycle(heads)
    return _CELL.sub(lambda cell: f'<td data-label="{next(columns)}"{cell[1]}><div>{cell[2]}</div></td>', table[0])


def _front() -> str:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    picture = _PICTURE.search(readme)
    assert picture, "README.md has no picture for the front page"
    text = (_ROOT / "docs/theme/front.md").read_text(encoding="utf-8")
    text = text.replace("{picture}", picture[0].replace("](", "](../"))
    for kind in ("js", "python"):
        block = re.search(rf"^```{kind}\n.*?^```$", readme, re.DOTALL | re.MULTILINE)
        assert block, f"README.md has no block of {kind} for the front page"
        text = text.replace(f"{{{kind}}}", block[0])
    return text


def _look() -> str:
    found = _COLOURS.findall((_ROOT / "static/look/tokens.css").read_text(encoding="utf-8"))
    pairs = zip(_SCHEMES, found, strict=True)
    return f":root {{{found[0]}}}\n" + "\n".join(
        [f'[data-md-color-scheme="{name}"] {{{colours}}}' for name, colours in pairs]
    )


def _linked(path: str) -> Iterator[str]:
    """Files of the repository that a page links to."""
    if not path.endswith(".md") or not (_ROOT / path).is_file():
        return
    for found in _LINK.finditer((_ROOT / path).read_text(encoding="utf-8")):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2]))
        if (_ROOT / target).is_file():
            yield target


def _uri_of(path: str) -> str:
    """The place in the site of a path of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def _path_of(uri: str) -> str:
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"
