"""Tables of the settings file: the reading, and the errors, that `[[policy]]` and `[[rule]]` share.

Each table is checked alone.  The operator reads the first error of the first wrong table, with the line of the
key, else of the table (`toml_file`).  Of an inline array (`policy = [{...}]`) only the line of `policy` is known.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from gateway.config.toml_file import SettingsFile, statements

T = TypeVar("T")


class TableError(ValueError):
    """A table is wrong; `str()` says why, without the place."""

    kind = ""

    def __init__(self, reason: str, key: str = "") -> None:
        super().__init__(reason)
        self.key = key  # empty: the whole table is wrong
        self.number = 0  # which of the tables it is, from 1; 0: all of them
        self.match: tuple[str, ...] = ()  # its patterns, if they could be read


def read_each(
    value: object, error: type[TableError], plural: str, read: Callable[[Mapping[str, object]], T]
) -> tuple[T, ...]:
    """Read each of the tables that a file has under one name; raises the first error of the first wrong one."""
    kind = error.kind
    if isinstance(value, Mapping):
        raise error(f"each {kind} is a table in double brackets: write [[{kind}]]")
    if not isinstance(value, (list, tuple)):
        raise error(f"{plural} are [[{kind}]] tables of the settings file, not {shown(value)}")
    tables: list[T] = []
    for number, table in enumerate(value, 1):
        try:
            if not isinstance(table, Mapping):
                raise error(f"a {kind} is a table, not {shown(table)}")
            tables.append(read(table))
        except TableError as fault:
            fault.number = number
            raise
    return tuple(tables)


def unknown(key: str, kind: str, known: Collection[str], settings: Collection[str]) -> str:
    """The sentence on a key that no table of the kind has; `settings` are the names of settings."""
    if key in settings and key not in ("policy", "rule"):
        # In TOML all keys after a header belong to its table, which surprises many users.
        return f"{key} is a setting and no key of a {kind}; write it above the first [[{kind}]]"
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"docs/{_PAGES[kind]} names them all"
    return f"there is no key {shown(key)}; {hint}"


_PAGES = {"policy": "policies.md", "rule": "rules.md"}


def shown(value: object) -> str:
    """A value as in the file; a long one is cut."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def sentence(error: TableError, file: SettingsFile | None) -> str:
    """The error with its place.  `file`: the file of the tables; None: they come from elsewhere."""
    place = f"{file.path} line {line_of(file, error)}: " if file else ""
    if not error.number:
        return f"{place}{error}"
    # The number helps only without a line or without a pattern.
    number = "" if file and error.match else f" {error.number}"
    more = f" and {len(error.match) - 3} more" if len(error.match) > 3 else ""
    patterns = f" for {', '.join(map(shown, error.match[:3]))}{more}" if error.match else ""
    return f"{place}{error.kind}{number}{patterns}: {error}"


def line_of(file: SettingsFile, error: TableError) -> int:
    """The line of the wrong key, else of its table, else of the first table of the kind."""
    return _search(file.text, error.kind, error.number, error.key)


def lines_of(file: SettingsFile, kind: str, count: int) -> list[int]:
    """The line of each of `count` tables of a kind."""
    every = [line for line, is_header, content in statements(file.text) if is_header and content.get(kind) == [{}]]
    return every if len(every) == count else [_search(file.text, kind, 0, "")] * count


def _search(text: str, kind: str, number: int, key: str) -> int:
    found = tables = 0
    top = True
    direct = False  # True while keys of the table itself follow, not keys of a table inside it
    for line, is_header, content in statements(text):
        table = content.get(kind)
        if not is_header:
            if direct and key in content:
                return line
            if top and kind in content:
                found = line
            continue
        top = False
        tables += table == [{}]
        direct = table == [{}] and tables == number
        if direct:
            found = line
        elif tables == number and isinstance(table, dict) and (key in table or not found):
            return line  # [policy.KEY] behind the table's own header, or [policy] where it should be [[policy]]
    return found
