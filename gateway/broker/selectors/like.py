"""LIKE: patterns with `%` (any characters, also none) and `_` (any one character).

The pattern is cut at its `%` into pieces, which are searched one after the other.

Known weakness: the worst known selectors take 6 ms with `_`, and 40 ms without on a header of 64 KiB.
"""

import re
from collections.abc import Callable, Iterator

Matcher = Callable[[str], bool | None]
"""True if a value matches the pattern; None: unknown, because the value is too long."""

# Characters of a value in which a piece with `_` is searched at most: its regular expression compares the piece at each
# place, and their product must stay small.
_LONGEST = 1024

# A character of the pattern, None for `_`.
_Piece = list[str | None]


def matcher(pattern: str, escape: str = "") -> Matcher:
    """Read a pattern.  `pattern`: the right side of LIKE.  `escape`: one character, or empty where there is none."""
    first, *others = _pieces(pattern, escape)
    if not others:
        return _exactly(first)
    *middle, last = others
    return _in_order(first, [piece for piece in middle if piece], last)


def _pieces(pattern: str, escape: str) -> list[_Piece]:
    """Pieces between the `%` of a pattern, one more than there are `%`."""
    pieces: list[_Piece] = [[]]
    for character, wild in _characters(pattern, escape):
        if wild and character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if wild else character)
    return pieces


def _characters(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """Characters of a pattern, each with True if it is a wildcard."""
    special = {"%", "_", escape}
    rest = iter(range(len(pattern)))
    for place in rest:
        character = pattern[place]
        # As in ActiveMQ, an escape character before an ordinary one is ordinary itself; SQL refuses it.
        if escape and character == escape and pattern[place + 1 : place + 2] in special:
            yield pattern[next(rest)], False
        else:
            yield character, character in ("%", "_")


def _text(piece: _Piece) -> str:
    """A piece without `_`."""
    return "".join(each or "" for each in piece)


def _expression(piece: _Piece) -> re.Pattern[str]:
    # DOTALL, for `_` is any character, a line end included.
    return re.compile("".join("." if each is None else re.escape(each) for each in piece), re.DOTALL)


def _exactly(piece: _Piece) -> Matcher:
    """Matcher of a pattern without `%`."""
    if None in piece:
        fits = _expression(piece).fullmatch
        return lambda value: fits(value) is not None
    text = _text(piece)
    return lambda value: value == text


def _in_order(first: _Piece, middle: list[_Piece], last: _Piece) -> Matcher:
    """Matcher of a pattern with `%`."""
    # A single regular expression would try all combinations of places.
    starts, ends = _stands(first), _stands(last)
    finders = [_finder(piece) for piece in middle]
    longest = _LONGEST if any(None in piece for piece in middle) else None

    def is_like(value: str) -> bool | None:
        if longest is not None and len(value) > longest:
            return None
        place, end = len(first), len(value) - len(last)
        # A value may be too short for both ends: `ab%ba` does not take `aba`.
        if place > end or not starts(value, 0) or not ends(value, end):
            return False
        # Without backtracking: the leftmost match leaves the most room for the rest.
        for find in finders:
            place = find(value, place, end)
            if place < 0:
                return False
        return True

    return is_like


def _stands(piece: _Piece) -> Callable[[str, int], bool]:
    """Test for a piece at a place of a value."""
    # Without `_` a piece is plain text, for which the methods of str are much faster than an expression.
    if None in piece:
        match = _expression(piece).match
        return lambda value, place: match(value, place) is not None
    text = _text(piece)
    return lambda value, place: value.startswith(text, place)


def _finder(piece: _Piece) -> Callable[[str, int, int], int]:
    """Search for a piece between two places of a value; it returns the place after the piece, or -1."""
    if None in piece:
        search = _expression(piece).search

        def find_expression(value: str, start: int, end: int) -> int:
            match = search(value, start, end)
            return match.end() if match else -1

        return find_expression
    text = _text(piece)

    def find_text(value: str, start: int, end: int) -> int:
        place = value.find(text, start, end)
        return place + len(text) if place >= 0 else -1

    return find_text
