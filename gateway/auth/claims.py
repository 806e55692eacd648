"""What tokens and cookies say of a user.  They are signed by somebody we believe, and still of any shape."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.broker.core.ports import ANONYMOUS

_MOST_OCTETS = 1024
"""Of a user's name."""

_LARGEST_NUMBER = 10**100
"""Of a user who is known by one."""

_FLASK_TUPLE = " t"
"""How Flask writes a tuple into its cookie: an object of this one key."""


def find(data: Mapping[str, object], name: str) -> object:
    """The value of that name; None: it has none.

    Names of claims may be addresses, with dots in them; where there is none of the whole name, each dot goes one level
    deeper: `realm_access.roles`.
    """
    if name in data:
        return data[name]
    found: object = data
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def user_of(value: object) -> str | None:
    """A user's name; None: it is none.  Numbers are names, too: many applications know users by them.

    `anonymous` is what those are called who have none: who registers under it elsewhere must not be taken for nobody,
    for whom rules and limits of users are not.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER:
        return str(value)
    # What cannot be printed cannot be told apart, and may break lines of logs.
    if not isinstance(value, str) or not value.isprintable() or value != value.strip() or value == ANONYMOUS:
        return None
    return value if 0 < len(value.encode()) <= _MOST_OCTETS else None


def groups_of(value: object) -> frozenset[str]:
    """Groups: those of an array, or the words of a text, between spaces or commas."""
    if isinstance(value, Mapping):
        value = value.get(_FLASK_TUPLE)
    if isinstance(value, str):
        value = re.split(r"[\s,]+", value)
    return (
        frozenset(each for each in value if isinstance(each, str) and each) if isinstance(value, list) else frozenset()
    )
