"""The error of a selector that does not parse: where, what was found, what would be right.

One line for people, with the place marked in an excerpt, for the selector may be long.
"""

from __future__ import annotations

from ..errors import NotAllowed

_MARK = "[here]"
# What of a selector and of a word is shown: enough to find the place by eye, little enough for a line of a log.
_AROUND = 32
_WORD = 40


def refusal(text: str, column: int, found: str, expected: str) -> NotAllowed:
    """The error to raise.

    Args:
        text: the whole selector.
        column: where in it, from 1.
        found: what is there, in words.
        expected: what may be there, in words.
    """
    return NotAllowed(
        "selector does not parse", f"column {column}: found {found}, expected {expected}: {_excerpt(text, column - 1)}"
    )


def quoted(word: str) -> str:
    """A word of a selector as an error shows it: in quotes, cut, and without control characters."""
    return repr(word if len(word) <= _WORD else word[:_WORD] + "...")


def _excerpt(text: str, place: int) -> str:
    """The neighbourhood of a place, with a mark in front of it."""
    start, end = max(place - _AROUND, 0), place + _AROUND
    before = ("..." if start else "") + text[start:place]
    behind = text[place:end] + ("..." if end < len(text) else "")
    return "".join(each if each.isprintable() else "?" for each in before + _MARK + behind)
