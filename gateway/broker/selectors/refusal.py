"""Refusal of a selector: the error with column, mistake and right form, and an excerpt that marks the place."""

from ..errors import NotAllowed

_MARK = "[here]"
# Characters of a selector around the place, and of a word: enough to find the place, few enough for a line of a log.
_AROUND = 32
_WORD = 40


def refusal(text: str, column: int, found: str, expected: str) -> NotAllowed:
    """Error about a selector.

    `column`: of the mistake, from 1.  `found`: the mistake, in words.  `expected`: the right form, in words.
    """
    return NotAllowed(
        "selector does not parse", f"column {column}: found {found}, expected {expected}: {_excerpt(text, column - 1)}"
    )


def quoted(word: str) -> str:
    """A word of a selector for an error: in quotes, cut, and without control characters."""
    return repr(word if len(word) <= _WORD else word[:_WORD] + "...")


def _excerpt(text: str, place: int) -> str:
    """Characters around a place, with a mark before it."""
    start, end = max(place - _AROUND, 0), place + _AROUND
    before = ("..." if start else "") + text[start:place]
    behind = text[place:end] + ("..." if end < len(text) else "")
    return "".join(each if each.isprintable() else "?" for each in before + _MARK + behind)
