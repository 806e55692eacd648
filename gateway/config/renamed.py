"""Renamed settings: the names of the release before, which are read for one release more.

Settings and policy keys that count bytes, like `max_bytes`, had other names.  Such a name in the settings file or the
environment means the new one, and a warning names both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

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


def warnings(file: str, text: str) -> Iterator[str]:
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
