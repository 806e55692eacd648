"""The reference page of the settings, in Markdown.

    python -m docs.generate.settings > docs/settings.md

All of it comes from the class in `gateway/config/settings.py`; a test compares the committed page with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from pydantic.fields import FieldInfo

from gateway.config.kinds import Quantity, quantity_of
from gateway.config.reference import GROUPS, TABLES, descriptions, toml
from gateway.config.settings import Settings

_HEAD = """\
# Settings

Written by `make docs` from `gateway/config/`. A setting comes from, strongest first:

1. the environment variable `GATEWAY_<NAME>`, like `GATEWAY_TCP`;
2. the file `gateway.toml` in the working directory, or the one that `GATEWAY_CONFIG` names;
3. the default.

A list is comma-separated in a variable, and an array in the file. A relative path in the file is relative to its
folder, in a variable to the working directory. An unknown name or a wrong value ends the start with one sentence that
says where it stands.

Bytes and durations may have a unit, also in policies; in the file such a value stands in quotes: `"64MiB"`.

* Bytes: `kB`, `MB`, `GB`, `TB` (1,000 each), `KiB`, `MiB`, `GiB`, `TiB` (1,024 each).
* Durations: `ms`, `s`, `min` or `m`, `h`, `d`, `w`, or their words, like `1.5h` or `7 days`.

In brackets stand the default, if there is one, and the values that are allowed.

    gateway check-config          # the settings in force, and the source of each value
    gateway check-config --bind   # and whether the ports are free
    gateway check-config --list   # all names
"""


def page() -> str:
    """The reference page, in Markdown."""
    return _HEAD + "".join([_section(title, names) for title, names in GROUPS.items()])


def _section(title: str, names: Iterable[str]) -> str:
    rows = [_row(name, Settings.model_fields[name]) for name in names]
    return f"\n## {title}\n\n{''.join(rows)}"


def _row(name: str, field: FieldInfo) -> str:
    shown = f"[[{name}]]" if name in TABLES else name
    facts = "; ".join(filter(None, [_default(field), _allowed(field)]))
    return f"* `{shown}`{f' ({facts})' if facts else ''}: {descriptions()[name]}\n"


def _default(field: FieldInfo) -> str:
    value, quantity = field.default, quantity_of(field)
    if value is None or value in ("", [], ()):
        return ""
    return f"`{_short(quantity, value) if quantity else toml(value)}`"


def _short(quantity: Quantity | None, value: float) -> str:
    """A number as the file could have it, in quotes."""
    text = quantity.in_words(value) if quantity and value else f"{value:,}"
    return re.sub(r" (?:bytes|(d)ays?|(?=\w))", r"\1", text)


def _allowed(field: FieldInfo) -> str:
    """The bounds of a setting, in words."""
    bounds: dict[str, Any] = {}
    for constraint in field.metadata:
        for key in ("ge", "gt", "le", "pattern"):
            if getattr(constraint, key, None) is not None:
                bounds[key] = getattr(constraint, key)
    if "pattern" in bounds:
        words = re.fullmatch(r"\^\(([\w|-]+)\)\$", bounds["pattern"])
        return f"`{words[1].replace('|', '`, `')}`" if words else field.description or f"`{bounds['pattern']}`"
    if "le" not in bounds:
        return ""
    least = f"over {bounds['gt']}" if "gt" in bounds else _short(quantity_of(field), bounds["ge"])
    return f"{least}–{_short(quantity_of(field), bounds['le'])}"


if __name__ == "__main__":
    sys.stdout.write(page())
