"""The reference page of the settings, in Markdown.

    python -m docs.generate.settings > docs/settings.md

All of it comes from the class in `gateway/config/settings.py`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic.fields import FieldInfo

from gateway.config.errors import variable
from gateway.config.kinds import KIB, MIB
from gateway.config.reference import TABLES, descriptions, fields, toml

HEAD = """\
# Settings

Written by `make docs` from `gateway/config/settings.py`; change them there.

The value of a setting comes from, strongest first: the environment variable `GATEWAY_<NAME>`; the file `gateway.toml`
in the working directory, or the file that `GATEWAY_CONFIG` names; the default. A list is comma-separated in a variable
and an array in the file. Bytes may have a unit: `64MiB`, or `"64MiB"` in the file. Relative paths in the file are
relative to its folder, those in variables to the working directory. An unknown name, or a wrong value, ends the start
with one sentence that says where it stands.
Settings of single destinations stand at the end of the file, in `[[policy]]` and `[[rule]]` tables: see
[policies](policies.md) and [rules](rules.md).

    gateway check-config          # the settings in force, and the source of each value
    gateway check-config --bind   # and whether the ports are free
    gateway check-config --list   # all names

| Setting | Default | Allowed | Meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The reference page, in Markdown."""
    return HEAD + "".join(_row(name, field) for name, field in fields())


def _row(name: str, field: FieldInfo) -> str:
    text = descriptions()[name].replace("|", "\\|")
    where = "in the file" if name in TABLES else f"`{variable(name)}`"
    return f"| `{name}`<br>{where} | {_default(field)} | {_allowed(field)} | {text} |\n"


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
    least = f"{bounds['ge']}" if "ge" in bounds else f"more than {bounds['gt']}" if "gt" in bounds else ""
    return f"{least} to {bounds['le']}" if least else ""


if __name__ == "__main__":
    sys.stdout.write(page())
