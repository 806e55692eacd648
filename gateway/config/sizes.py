"""Octets, as settings write them: a number, or a number with a unit."""

from __future__ import annotations

import re

_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_FORM = re.compile(r"(-?[0-9][0-9_]*)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def parse(text: str) -> int:
    """Read `1073741824`, `1_048_576`, `1GiB` or `64 kB`; letter case of the unit does not count.

    Raises:
        ValueError: the text is none of these; the message says which they are.
    """
    found = _FORM.fullmatch(text.strip())
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError(
            f"{text[:80]!r} is no number of octets; write one like 1073741824, or with a unit, like 1GiB, 64KiB or 8MB"
        )
    return int(found[1]) * unit
