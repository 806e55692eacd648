"""Every example and every command of every page is one that could be typed: names and options that are there."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gateway.cli.main import main
from gateway.config.settings import Settings
from tests.clients.driver import tool

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "examples" / "README.md"], key=lambda path: path.name
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:\A|\n)\n((?: {4}.*\n|\n(?= {4}))+)")
INLINE = re.compile(r"`([^`\n]+)`")
# Lines of a picture, which name commands, and are none.
PICTURE = re.compile(r"-->|->|^ +gateway [\w ]+:")
# Words of a shell that stand in front of a command.
FRONT = re.compile(r"^(?:\$ |sudo |exec |eval |env |runuser -u \S+ -- |\w+=\S* )+")
PATH = re.compile(r"^(?:\S*/)?bin/")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(*kinds: str) -> list[tuple[str, str]]:
    return [(page.name, found[2]) for page in PAGES for found in FENCE.finditer(text_of(page)) if found[1] in kinds]


def command_lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = text_of(page)
        for found in FENCE.finditer(text):
            if found[1] in ("sh", "bash", "console"):
                yield from ((page.name, line) for line in joined(found[2]) if found[1] != "console" or line[:2] == "$ ")
        prose = "\n".join([line for line in FENCE.sub("", text).split("\n") if not PICTURE.search(line)])
        for found in INDENTED.finditer(prose):
            yield from ((page.name, line.strip()) for line in joined(found[1]))
        yield from ((page.name, found[1]) for found in INLINE.finditer(prose))


def joined(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


def simple(line: str) -> Iterator[list[str]]:
    line = re.sub(r"\s#\s.*$", "", FRONT.sub("", line))
    for part in re.split(r"\s(?:\||&&|\|\||;|&)(?:\s|$)|;\s|\$\(|\)", line):
        try:
            words = shlex.split(FRONT.sub("", part.strip()))
        except ValueError:
            continue
        if words:
            yield [PATH.sub("", words[0]), *words[1:]]


def commands(program: str) -> list[tuple[str, tuple[str, ...]]]:
    found = [
        (page, tuple(words[1:])) for page, line in command_lines() for words in simple(line) if words[0] == program
    ]
    return sorted(set(found))


def shown(rows: list[tuple[str, tuple[str, ...]]]) -> list[str]:
    return [f"{page}: {' '.join(words)}" for page, words in rows]


GATEWAY = commands("gateway")


@pytest.mark.parametrize(("page", "words"), GATEWAY, ids=shown(GATEWAY))
def test_commands_of_ours(page: str, words: tuple[str, ...]) -> None:
    """The command is there, and has such options."""
    left = [word.strip("[]") for word in words if not word.startswith((">", "<", "2>"))]
    context, command = click.Context(main, info_name="gateway", **main.context_settings), main
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        below = command.get_command(context, left[0])
        assert below is not None, f"there is no `{context.command_path} {left[0]}`"
        context, command, left = click.Context(below, info_name=left[0], parent=context), below, left[1:]
    known = {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    given = {word.partition("=")[0] for word in left if re.match(r"--?[a-zA-Z]", word)}
    assert given <= known, f"`{context.command_path}` has no {sorted(given - known)}"


MAKE = commands("make")


@pytest.mark.parametrize(("page", "words"), MAKE, ids=shown(MAKE))
def test_targets_of_make(page: str, words: tuple[str, ...]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in words if re.fullmatch(r"[a-z-]+", word)} <= set(targets)


def test_variables_are_settings() -> None:
    """`GATEWAY_...` is a setting, or one of the variables that commands read."""
    others = {"GATEWAY_CONFIG", "GATEWAY_PIPELINE_PASSCODE"}
    named = {word for page in PAGES for word in re.findall(r"\bGATEWAY_[A-Z_]*[A-Z]\b", text_of(page))}
    assert named - others <= {f"GATEWAY_{name.upper()}" for name in Settings.model_fields}


def test_settings_and_python() -> None:
    """Keys of the first level are settings; what is wrong beside that, the pages' own tests find."""
    for page, text in blocks("toml"):
        if not text.startswith("# push.toml"):  # another process
            assert tomllib.loads(text).keys() <= Settings.model_fields.keys(), page
    for page, text in blocks("python"):
        ast.parse(text, page)


@pytest.mark.parametrize(("page", "text"), blocks("js"))
def test_javascript(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "example.mjs"
    file.write_text(text)
    checked = subprocess.run([tool("node"), "--check", str(file)], capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stderr


def test_words_that_troubleshooting_quotes_are_ours() -> None:
    said = "".join([path.read_text(encoding="utf-8") for path in (ROOT / "gateway").rglob("*.py")])
    firsts = re.findall(r"^\* \*\*(.*?)\*\*", text_of(ROOT / "docs" / "troubleshooting.md"), re.MULTILINE)
    quoted = [words for cell in firsts for words in INLINE.findall(cell)]
    assert len(quoted) > 20
    assert [words for words in quoted if words not in said] == []
