"""What a header's string reads as, where a selector wants a number or a truth value.

    number  = [ "+" / "-" ] ( 1*DIGIT [ "." *DIGIT ] / "." 1*DIGIT ) [ ( "e" / "E" ) [ "+" / "-" ] 1*DIGIT ]

and nothing around it: Python's own `int` and `float` would take ` 1`, `1_000`, `nan` and the digits of other scripts.
What has neither point nor exponent is an int, so that large integers compare exactly.

A number has an absolute value below 1e300.  Beyond that a header is no number and a result is unknown, which rules out
infinities, makes every int convertible to float, and keeps products of ints small.
"""

from __future__ import annotations

import re

_LARGEST = 1e300
# More digits than any number has that somebody meant, and few enough for `int` to be quick.
_LONGEST_NUMBER = 100
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_LONGEST_BOOLEAN = len("false")


def number_of(text: str) -> int | float | None:
    """The number that a string reads as; None: none."""
    if len(text) > _LONGEST_NUMBER:
        return None
    if text.isdigit() and text.isascii():  # most of them; saves the expression
        return int(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    return int(text) if match.lastindex is None else in_range(float(text))


def in_range(value: float) -> int | float | None:
    """The value, or None where it is too large to be a number here (NaN is never in range)."""
    return value if -_LARGEST < value < _LARGEST else None


def boolean_of(text: str) -> bool | None:
    """The truth value that a string reads as, in any case; None: none."""
    return _BOOLEANS.get(text.lower()) if len(text) <= _LONGEST_BOOLEAN else None
