"""The reference page of the settings, in Markdown.

    python -m docs.generate.settings > docs/settings.md

All of it comes from the class in `gateway/config/settings.py`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys

from pydantic.fields import FieldInfo

from gateway.config.errors import variable
from gateway.config.kinds import quantity_of, words
from gateway.config.reference import TABLES, descriptions, fields, toml

HEAD = """\
# Settings

Written by `make docs` from `gateway/config/settings.py`; change them there.

The value of a setting comes from, strongest first: the environment variable `GATEWAY_<NAME>`; the file `gateway.toml`
in the working directory, or the file that `GATEWAY_CONFIG` names; the default. A list is comma-separated in a variable
and an array in the file. Relative paths in the file are relative to its folder, those in variables to the working
directory. An unknown name, or a wrong value, ends the start with one sentence that says where it stands.

Bytes and durations may have a unit, also in policies. Without one, a number counts bytes, and seconds or milliseconds
as the setting's text says. In the file a value with a unit stands in quotes: `drain_timeout = "30s"`.

* Bytes: `kB`, `MB`, `GB`, `TB` (1,000 each), `KiB`, `MiB`, `GiB`, `TiB` (1,024 each), like `64MiB`.
* Durations: `ms`, `s`, `min`, `h`, `d`, `w`, or their words, like `250 ms`, `1.5h` or `7 days`; `m` is a minute.

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
    allowed = "tables" if name in TABLES else words(field).replace("|", "\\|")
    return f"| `{name}`<br>{where} | {_default(field)} | {allowed} | {text} |\n"


def _default(field: FieldInfo) -> str:
    value, quantity = field.default, quantity_of(field)
    if value is None or value in ("", [], ()):
        return "none"
    return f"`{toml(value)}`" + (f" ({quantity.in_words(value)})" if quantity and value else "")


if __name__ == "__main__":
    sys.stdout.write(page())
