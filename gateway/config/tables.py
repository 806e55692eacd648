"""Tables of the settings file, `[[policy]]` and `[[rule]]`: what they have in common, be it only how they are wrong.

A table is checked against itself alone.  The first fault of the first table that has one is the sentence that the
operator reads; it names the line of the key, and where that cannot be told, of the table.  `toml_file` says
how lines are found; of tables in an inline array (`policy = [{...}]`) only the line of `policy` is known.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from gateway.config.toml_file import SettingsFile, statements

T = TypeVar("T")


class TableError(ValueError):
    """A table is wrong; `str()` says why, without the place.

    Attributes:
        kind: `policy` or `rule`.
        key: the key that is wrong; empty: the whole table.
        number: which of the tables it is, from 1; 0: all of them.
        match: the patterns of the table, as far as they could be read.
    """

    kind = ""

    def __init__(self, reason: str, key: str = "") -> None:
        super().__init__(reason)
        self.key = key
        self.number = 0
        self.match: tuple[str, ...] = ()


def read_each(
    value: object, error: type[TableError], plural: str, read: Callable[[Mapping[str, object]], T]
) -> tuple[T, ...]:
    """Read the tables that a file has under one name.

    Args:
        value: what it has there.
        error: what is raised for the kind.
        plural: of the kind.
        read: reads one table, and raises such an error.

    Raises:
        TableError: the first fault of the first table that has one.
    """
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
    """The sentence on a key that such a table does not have.

    Args:
        known: the keys that it may have.
        settings: the names of settings.
    """
    if key in settings and key not in ("policy", "rule"):
        # All that follows a header belongs to its table: TOML's own trap.
        return f"{key} is a setting and no key of a {kind}; write it above the first [[{kind}]]"
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"docs/{_PAGES[kind]} names them all"
    return f"there is no key {shown(key)}; {hint}"


_PAGES = {"policy": "policies.md", "rule": "rules.md"}


def shown(value: object) -> str:
    """A value as its file has it, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def sentence(error: TableError, file: SettingsFile | None) -> str:
    """What is wrong, and where.

    Args:
        file: where the tables were read from; None: they come from elsewhere.
    """
    place = f"{file.path} line {line_of(file, error)}: " if file else ""
    if not error.number:
        return f"{place}{error}"
    # The number is for whoever has no line to go by, or no pattern.
    number = "" if file and error.match else f" {error.number}"
    more = f" and {len(error.match) - 3} more" if len(error.match) > 3 else ""
    patterns = f" for {', '.join(map(shown, error.match[:3]))}{more}" if error.match else ""
    return f"{place}{error.kind}{number}{patterns}: {error}"


def line_of(file: SettingsFile, error: TableError) -> int:
    """The line of the key that is wrong, else of its table, else of the first that is of its kind."""
    return _search(file.text, error.kind, error.number, error.key)


def lines_of(file: SettingsFile, kind: str, count: int) -> list[int]:
    """The line of each of so many tables."""
    every = [line for line, is_header, content in statements(file.text) if is_header and content.get(kind) == [{}]]
    return every if len(every) == count else [_search(file.text, kind, 0, "")] * count


def _search(text: str, kind: str, number: int, key: str) -> int:
    found = tables = 0
    top = True
    direct = False  # whether what follows are keys of the table itself, and not of one within it
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
