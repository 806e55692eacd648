"""Numbers with units, as settings and options of commands write them: sizes in bytes, durations in seconds."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

_BYTES: dict[str, int] = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"(-?[0-9][0-9_]*)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(ms|[smhd]?)")
SHORTEST_INTERVAL = 0.1  # seconds between two rounds of work


def parse_size(text: str) -> int:
    """Bytes: `1073741824`, `1_048_576`, `1GiB` or `64 kB`, in any letter case; ValueError says which are right."""
    found = _SIZE.fullmatch(text.strip())
    unit = _BYTES.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError(
            f"{text[:80]!r} is no number of bytes; write one like 1073741824, or with a unit, like 1GiB, 64KiB or 8MB"
        )
    return int(found[1]) * unit


def duration_like(examples: str, least: float = 0.0) -> Callable[[str], float]:
    """The type of an option in seconds: `60s`, `1.5m`, `2h`, `7d`, or a number; click.BadParameter has the examples."""

    def duration(text: str) -> float:  # the help shows this name
        found = _DURATION.fullmatch(text.strip().lower())
        if found is None:
            raise click.BadParameter(f"{text[:80]!r} is no duration; write one like {examples}")
        seconds = float(found[1]) * _SECONDS[found[2]]
        if seconds < least:
            raise click.BadParameter(f"{text[:80]!r} is too short; it must be {least:g}s or longer")
        return seconds

    return duration
