"""The settings file: its values, and the lines on which they stand.

tomllib does not tell the line of a value.  So `statements` cuts the text into statements (a header, or a key with its
value) by counting brackets outside of strings and comments, and tomllib reads each alone.  The whole text must be TOML.
Of a value inside an array only the line of the array is known.

A file is read once, and later sentences are about the text that was read.  Relative paths in it are relative to its
folder, so that they mean the same wherever the gateway is started.

Settings and policy keys that count bytes, like `max_bytes`, had other names in the release before.  For one release
more, such a name in the file or the environment means the new one, and a warning names both.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class SettingsError(ValueError):
    """A setting is wrong; `str()` is one sentence that says where it stands and which values are right."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read."""

    path: Path
    text: str  # with line ends `\n`, and with the names that settings have now
    values: Mapping[str, Any]  # unchecked
    written: str = ""  # the text with the names that it has

    def line_of(self, name: str) -> int:
        """The line of a setting, or of the first header of a table of that name."""
        top = True
        for line, is_header, content in statements(self.text):
            top = top and not is_header
            if name in content and (top or is_header):
                return line
        raise KeyError(name)

    def rooted(self, paths: Iterable[str], addresses: Iterable[str]) -> dict[str, Any]:
        """The values, with those that are paths, or may be unix sockets, relative to the working directory."""
        values = dict(self.values)
        for name in values.keys() & set(paths):
            if values[name] and isinstance(values[name], str):
                values[name] = str(self.path.parent / values[name])
        if "store" in values:
            values["store"] = self._rooted_behind("sqlite:", values["store"])
        for name in values.keys() & set(addresses):
            found = listed(values[name])
            if isinstance(found, list):
                values[name] = [self._rooted_behind("unix:", each) for each in found]
        return values

    def _rooted_behind(self, kind: str, value: object) -> object:
        if isinstance(value, str) and value.startswith(kind) and value != kind:
            return f"{kind}{self.path.parent / value.removeprefix(kind)}"
        return value


def listed(value: object) -> object:
    """The list in a comma-separated string; any other value stays as it is."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def config_file() -> Path:
    """The settings file in use (it need not exist unless `GATEWAY_CONFIG` names it)."""
    return Path(os.environ.get("GATEWAY_CONFIG") or "gateway.toml")


def read() -> SettingsFile:
    """Read the settings file in use; one that does not exist is empty.  Raises SettingsError."""
    path = config_file()
    if not path.is_file():
        if os.environ.get("GATEWAY_CONFIG"):
            raise SettingsError(f"GATEWAY_CONFIG names {path}, but there is no such file")
        return SettingsFile(path, "", {})
    try:
        # Editors on Windows write a byte order mark.  tomllib reads line ends in the same way.
        written = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} cannot be read: it is not UTF-8 (byte {error.start + 1})") from None
    text = with_new_names(written)
    try:
        return SettingsFile(path, text, tomllib.loads(text), written)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(_set_twice(path, text) or f"{path} cannot be read: {error}") from None


def _set_twice(path: Path, text: str) -> str:
    """The sentence on a key that is set twice, which tomllib does not name; empty: no key is."""
    seen: dict[tuple[str, ...], int] = {}
    try:
        for line, is_header, content in statements(text):
            if is_header:
                seen.clear()
                continue
            key = _key(content)
            if key in seen:
                return f"{path} line {line}: {'.'.join(key)} is set twice, first in line {seen[key]}"
            seen[key] = line
    except tomllib.TOMLDecodeError:
        pass  # the error is another one
    return ""


def _key(content: object) -> tuple[str, ...]:
    """The key that a statement sets; a dotted key has several words."""
    words: list[str] = []
    while isinstance(content, dict) and len(content) == 1:
        ((word, content),) = content.items()
        words.append(word)
    return tuple(words)


_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\r]+ | \#[^\n]* )
    | (?P<end> \n )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | \"{3} (?: \\. | [^\\] )*? \"{3,5} | '{3} .*? '{3,5} | " (?: \\. | [^"\\] )* " | ' [^']* '
    | [^\s\#"'\[\]{}]+
    """,
    re.VERBOSE | re.DOTALL,
)


def statements(text: str) -> Iterator[tuple[int, bool, dict[str, Any]]]:
    """Line, True for a header, and content of each statement; raises tomllib.TOMLDecodeError."""
    start = -1  # start of the statement; -1: between two
    depth = 0
    line = begun = 1
    for token in _TOKEN.finditer(text + "\n"):
        kind = token.lastgroup
        if start < 0 and kind not in ("blank", "end"):
            start, begun = token.start(), line
        depth += (kind == "open") - (kind == "close")
        if kind == "end" and start >= 0 and not depth:
            yield begun, text[start] == "[", tomllib.loads(text[start : token.start()])
            start = -1
        line += token[0].count("\n")


_OLD = r"(log|max|max_transaction|max_unacknowledged)_octets((?:_per_second(?:_per_user|_per_address)?)?)"
_KEY = re.compile(rf"\b{_OLD}(?=[\"']?\s*=)")
_VARIABLE = re.compile(rf"GATEWAY_{_OLD}", re.IGNORECASE)
_NEW = r"\1_bytes\2"


def with_new_names(text: str) -> str:
    """The text of a settings file with the new names; no line moves."""
    return _KEY.sub(_NEW, text)


def old_variables() -> dict[str, str]:
    """Variables with old names that are set, and the settings that they mean."""
    return {name: _VARIABLE.sub(_NEW, name).lower() for name in os.environ if _VARIABLE.fullmatch(name)}


def old_names(file: str, text: str) -> Iterator[str]:
    """A sentence for each old name in force.

    Args:
        file: the name of the settings file.
        text: the file as it is written.
    """
    for number, line in enumerate(text.splitlines(), 1):
        for old in _KEY.finditer(line):
            yield _sentence(f"{file} line {number}", old[0], old.expand(_NEW))
    for name, setting in old_variables().items():
        yield _sentence("the environment", name, f"GATEWAY_{setting.upper()}")


def _sentence(place: str, old: str, new: str) -> str:
    return f"{place}: {old} is called {new} now, and the next release does not read the old name: rename it"
