"""Durations, as options of commands have them: a number, or a number with a unit."""

from __future__ import annotations

import re

import click

_FORM = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(ms|[smhd]?)")
_SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SHORTEST = 0.1


def parse(text: str, like: str) -> float:
    """Seconds: `60s`, `1.5m`, `2h`, `7d`, or a number of them.

    Args:
        like: examples, for whoever wrote something else.

    Raises:
        click.BadParameter: it is none of these.
    """
    found = _FORM.fullmatch(text.strip().lower())
    if found is None:
        raise click.BadParameter(f"{text[:80]!r} is no duration; write one like {like}")
    return float(found[1]) * _SECONDS[found[2]]


def pause(text: str, like: str) -> float:
    """Seconds between two looks.

    Raises:
        click.BadParameter: it is no duration, or so short that nothing else would be done.
    """
    seconds = parse(text, like)
    if seconds < _SHORTEST:
        raise click.BadParameter(f"{text[:80]!r} is too short; it must be {_SHORTEST:g}s or longer")
    return seconds
