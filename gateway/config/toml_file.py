"""The settings file: its values, and the lines on which they stand.

tomllib does not tell the line of a value.  So `statements` cuts the text into statements (a header, or a key with its
value) by counting brackets outside of strings and comments, and tomllib reads each alone.  The whole text must be TOML.
Of a value inside an array only the line of the array is known.

A file is read once, and later sentences are about the text that was read.  Relative paths in it are relative to its
folder, so that they mean the same wherever the gateway is started.

Settings and policy keys that count bytes, like `max_bytes`, had other names in the release before.  For one release
more, such a name in the file or the environment means the new one, and a warning names both.

`[[policy]]` and `[[rule]]` tables are each checked alone.  The operator reads the first error of the first wrong table,
with the line of the key, else of the table.  Of an inline array (`policy = [{}]`) only the line of `policy` is known.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gateway.config import toml_faults

NO_PATH = r":.*|memory|file:.*|//[^/].*|.*\?.*"
"""What SQLite or other programs take behind `sqlite:`, and would be a file of an odd name here."""


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
        if isinstance(values.get("policy"), list):
            values["policy"] = [self._rooted_policy(each) for each in values["policy"]]
        return values

    def _rooted_policy(self, table: object) -> object:
        if not isinstance(table, dict) or not isinstance(schema := table.get("schema"), str) or not schema:
            return table
        return {**table, "schema": str(self.path.parent / schema)}

    def _rooted_behind(self, kind: str, value: object) -> object:
        name = value.removeprefix(kind) if isinstance(value, str) else ""
        # One that is refused stays as it is written, for the sentence.
        if name in ("", value) or re.fullmatch(NO_PATH, name):
            return value
        return f"{kind}{self.path.parent / name}"


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
    text = _KEY.sub(_NEW, written)  # no line moves
    try:
        return SettingsFile(path, text, tomllib.loads(text), written)
    except ValueError as error:  # TOMLDecodeError, or a number of over 4,300 digits
        raise SettingsError(_set_twice(path, text) or toml_faults.explain(path, text, str(error))) from None


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
    except ValueError:
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
    hint = did_you_mean(key, known) or f"docs/{_PAGES[kind]} names them all"
    return f"there is no key {shown(key)}; {hint}"


_MEANT = {
    **dict.fromkeys(("queue", "topic", "name", "pattern"), ("match", "destination")),
    **dict.fromkeys(("destination", "destinations"), ("match",)),
    **dict.fromkeys(("retries", "max_retries", "max_redeliveries", "max_delivery_attempts"), ("max_attempts",)),
    **dict.fromkeys(("ttl", "expiry", "expires", "expiration", "message_ttl"), ("time_to_live",)),
    **dict.fromkeys(("max_length", "max_size", "limit"), ("max_messages",)),
    **dict.fromkeys(("dlq", "dead_letter_queue"), ("dead_letter",)),
    **dict.fromkeys(("overflow", "on_full"), ("when_full",)),
    **dict.fromkeys(("retention", "max_age"), ("log_age",)),
    **dict.fromkeys(("role", "roles"), ("groups",)),
    **dict.fromkeys(("login", "username"), ("users",)),
    **dict.fromkeys(("ip", "ips", "networks"), ("addresses",)),
    **dict.fromkeys(("permissions", "actions"), ("allow",)),
    **dict.fromkeys(("write", "publish", "produce"), ("send",)),
    **dict.fromkeys(("read", "receive", "consume"), ("subscribe",)),
    "match": ("destination",),
    "ws": ("websocket",),
}
"""Words of other programs, and those of tables that they mean."""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A hint at the known word that may be meant; empty: none is near."""
    near = [each for each in _MEANT.get(word, ()) if each in known]
    near = near or difflib.get_close_matches(word.lower(), known, 1)
    return f"did you mean {near[0]}?" if near else ""


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
