"""Settings of a command that has a file of its own: the parts that `gateway relay` and `gateway push` share.

    http = "127.0.0.1:9000"

    [[relay]]
    ...

A file has some keys, and tables of one name.  Each fault is a PlanError, whose sentence begins with the file and, in a
table, with the table's number.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gateway.config import toml_faults, toml_file
from gateway.config.values import Address

_T = TypeVar("_T")


class PlanError(ValueError):
    """The settings are wrong; the text is one sentence."""


def read_values(path: Path) -> dict[str, Any]:
    """The keys and tables of a file.  Raises PlanError: it cannot be read, or is not TOML."""
    text = _text_in(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise PlanError(toml_faults.explain(path, text, str(error))) from None


def read_tables(path: Path, name: str, tables: object, read: Callable[[Mapping[str, Any], Path], _T]) -> tuple[_T, ...]:
    """What `read` makes of each table and the folder of the file.  Raises PlanError: there is none, or one is wrong."""
    if not tables or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PlanError(f"{path} has no table [[{name}]]")
    found = []
    for number, table in enumerate(tables, 1):
        try:
            found.append(read(table, path.parent))
        except PlanError as error:
            raise PlanError(f"{path}, [[{name}]] number {number}: {error}") from None
    return tuple(found)


def check_keys(values: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises PlanError: a key is unknown."""
    if unknown := sorted(values.keys() - set(known)):
        hint = toml_file.did_you_mean(unknown[0], set(known)) or f"keys are {', '.join(sorted(known))}"
        raise PlanError(f"{unknown[0]!r} is unknown; {hint}")


def text_of(table: Mapping[str, Any], key: str) -> str:
    """A text, "" if it is missing.  Raises PlanError: it is something else."""
    value = table.get(key, "")
    if not isinstance(value, str):
        raise PlanError(f"{key} must be a string")
    return value


def read_passcode(path: Path) -> str:
    """The passcode in a file, without its line end.  Raises PlanError: the file cannot be read."""
    return _text_in(path, "the passcode file ").rstrip("\r\n")


def http_address(text: str, example: str) -> Address | None:
    """The address of the pages for monitoring; "": none.  Raises PlanError: the text is not an address with a port."""
    try:
        found = Address.parse(text) if text else None
    except ValueError:
        found = Address("", 0)
    if found is not None and not found.port:
        raise PlanError(f"http is {text[:80]!r}, which is no address: write {example}")
    return found


def _text_in(path: Path, kind: str = "") -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PlanError(f"{kind}{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{kind}{path} cannot be read: it is not UTF-8") from None
