"""The reference page of the settings, in Markdown.

    python -m docs.generate.settings > docs/settings.md

All of it comes from the class in `gateway/config/settings.py`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from pydantic.fields import FieldInfo

from gateway.config.kinds import KIB, MIB
from gateway.config.reference import GROUPS, TABLES, descriptions, toml
from gateway.config.settings import Settings

_HEAD = """\
# Settings

Written by `make docs` from `gateway/config/`. A setting comes from, strongest first:

1. the environment variable `GATEWAY_<NAME>`, like `GATEWAY_TCP`;
2. the file `gateway.toml` in the working directory, or the one that `GATEWAY_CONFIG` names;
3. the default.

A list is comma-separated in a variable, and an array in the file. Bytes may have a unit: `64MiB`, in the file
`"64MiB"`. A relative path in the file is relative to its folder, in a variable to the working directory. An unknown
name or a wrong value ends the start with one sentence that says where it stands.

    gateway check-config          # the settings in force, and the source of each value
    gateway check-config --bind   # and whether the ports are free
    gateway check-config --list   # all names
"""


def page() -> str:
    """The reference page, in Markdown."""
    return _HEAD + "".join([_section(title, names) for title, names in GROUPS.items()])


def _section(title: str, names: Iterable[str]) -> str:
    rows = [_row(name, Settings.model_fields[name]) for name in names]
    return f"\n## {title}\n\n| Setting | Default | Meaning |\n| --- | --- | --- |\n{''.join(rows)}"


def _row(name: str, field: FieldInfo) -> str:
    text = descriptions()[name].replace("|", "\\|")
    shown = f"[[{name}]]" if name in TABLES else name
    return f"| `{shown}` | {'; '.join(filter(None, [_default(field), _allowed(field)]))} | {text} |\n"


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value in ("", [], ()):
        return "none"
    if isinstance(value, int) and value >= 64 * KIB and value % KIB == 0:
        size = f"{value // MIB} MiB" if value % MIB == 0 else f"{value // KIB} KiB"
        return f"`{value}` ({size})"
    return f"`{toml(value)}`"


def _allowed(field: FieldInfo) -> str:
    """The bounds of a setting, in words."""
    bounds: dict[str, Any] = {}
    for constraint in field.metadata:
        for key in ("ge", "gt", "le", "pattern"):
            if getattr(constraint, key, None) is not None:
                bounds[key] = getattr(constraint, key)
    if "pattern" in bounds:
        return f"`{bounds['pattern']}`".replace("|", "\\|")
    if "gt" in bounds:
        return f"over {bounds['gt']}, to {bounds['le']}"
    return f"{bounds['ge']}–{bounds['le']}" if "ge" in bounds else ""


if __name__ == "__main__":
    sys.stdout.write(page())
