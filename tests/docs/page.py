"""A page, read as its reader does: blocks in their order, to be written or typed.

    ```toml            gateway.toml; the gateway is started with it
    # name.py          the first line names a file: # name, // name; that of toml may be another file than gateway.toml
    ```sh              typed line by line; each must end with status 0.  `gateway serve` is the first terminal's
                       `gateway serve & ...` likewise, and what follows is typed, where $! is the gateway
    ```console         lines behind "$ " are typed, the others are what is shown then; `...` stands for anything

Blocks of other kinds, and indented ones, are to be read only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.machine import ROOT, Machine

_PIECE = re.compile(r"^#+ (?P<title>[^\n]*)$|^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"(?:#|//) ([\w-]+\.\w+)\n")
_INDENTED = re.compile(_PIECE.pattern + r"|^    (?P<line>(?:[^\n]*\\\n)*[^\n]*)$", re.DOTALL | re.MULTILINE)
_PROGRAMS = "cd|cp|curl|gateway|install|journalctl|make|nginx|pip|python3?|runuser|spark-submit|systemctl|useradd|chmod"
# With variables in front, or a path.  A picture is none: `gateway --> journal`, `gateway archive: reads`.
_COMMAND = re.compile(rf"(?:\$ )?(?:\w+=\S* )*(?:\S*/)?(?:{_PROGRAMS}|mkdir|\.) (?!-*>|[\w ]+: )")
_TYPED = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block, by the heading that it stands under."""

    title: str
    kind: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that it is."""
        found = _FILE.match(self.text)
        return found[1] if found else "gateway.toml" if self.kind == "toml" else None


def blocks(page: str) -> list[Block]:
    """Those of a page, by its path in the repository."""
    title, found = "", []
    for piece in _PIECE.finditer((ROOT / page).read_text(encoding="utf-8")):
        title = piece["title"] or title
        if piece["kind"]:
            found.append(Block(title, piece["kind"], piece["text"]))
    return found


def behind_nginx() -> list[Block]:
    """Those of howto-nginx.md, with the certificate for which it links to howto-tls.md."""
    certificate = [block for block in blocks("docs/howto-tls.md") if block.title == "A certificate"]
    return [*certificate, *blocks("docs/howto-nginx.md")]


def listed(page: str, title: str = "") -> list[str]:
    """Lines of the indented blocks under a heading, without remarks; without a heading, those before the second one.

    Lines that end with a backslash are one with the next.
    """
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    sections = re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]
    (section,) = [each for each in sections if each.startswith(f"{title}\n")] if title else sections[:1]
    lines = re.findall(r"^    (\S.*)$", re.sub(r"\\\n\s*", "", section), re.MULTILINE)
    return [re.sub(r"\s+# .*$", "", line) for line in lines]


def commands(page: str) -> list[tuple[str, str]]:
    """All that a page tells to type, in blocks of any kind: heading and line, without remarks."""
    title, found = "", []
    for piece in _INDENTED.finditer((ROOT / page).read_text(encoding="utf-8")):
        title = piece["title"] or title
        if piece["kind"] == "sh":
            lines = piece["text"].replace("\\\n", "").splitlines()
        elif piece["kind"] == "console":
            lines = [command for command, _ in typed(piece["text"])]
        else:
            lines = [line for line in [piece["line"] or ""] if _COMMAND.match(line)]
        found += [(title, re.sub(r"\\\n\s*", "", re.sub(r"\s+# .*$", "", line))) for line in lines]
    return found


def typed(block: str) -> list[tuple[str, str]]:
    """Commands of a console, and what each shows."""
    parts = _TYPED.split(block)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def matches(shown: str, expected: str) -> bool:
    """Whether that is what the page says; any space is as good as another."""
    text = " ".join(shown.split())
    first, *rest = [" ".join(part.split()) for part in expected.split("...")]
    if not rest:
        return text == first
    place, last = len(first), rest.pop()
    for part in rest:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return text.startswith(first) and text.endswith(last) and len(text) - len(last) >= place


def perform(machine: Machine, steps: list[Block]) -> int:
    """Do what the blocks say; how many commands that were.

    Raises:
        AssertionError: a command fails, or shows something else.
    """
    count = 0
    for block in steps:
        if block.file:
            machine.write(block.file, block.text)
            if block.file == "gateway.toml":
                machine.serve()
        elif block.kind == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if line == "gateway serve":
                    machine.serve()
                elif line.startswith("gateway serve & "):
                    machine.serve()
                    machine.run(line.removeprefix("gateway serve & "))
                elif "pkill -HUP" in line:
                    machine.reload(line)
                else:
                    machine.run(line)
                count += 1
        elif block.kind == "console":
            for command, expected in typed(block.text):
                _, shown = machine.type(command)
                assert matches(shown, expected), f"$ {command}\n{shown}\nis not\n{expected}"
                count += 1
    return count
