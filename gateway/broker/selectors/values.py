"""Numbers and truth values of header strings, for comparisons in selectors.

    number  = [ "+" / "-" ] ( 1*DIGIT [ "." *DIGIT ] / "." 1*DIGIT ) [ ( "e" / "E" ) [ "+" / "-" ] 1*DIGIT ]

without spaces around it.  A number has an absolute value below 1e300.  A larger header is no number, and a larger
result is unknown.
"""

import re

# It excludes infinities, makes each int convertible to float, and keeps products of ints small.
_LARGEST = 1e300
# Longer than any useful number, and short enough for `int` to be quick.
_LONGEST_NUMBER = 100
# `int` and `float` of Python would accept ` 1`, `1_000`, `nan` and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_LONGEST_BOOLEAN = len("false")


def number_of(text: str) -> int | float | None:
    """Number that a string reads as; None: it is no number."""
    if len(text) > _LONGEST_NUMBER:
        return None
    if text.isdigit() and text.isascii():  # the common case, without the regular expression
        return int(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    # Without point and exponent it is an int, so that large integers compare exactly.
    return int(text) if match.lastindex is None else in_range(float(text))


def in_range(value: float) -> int | float | None:
    """The value, or None if it is out of range (NaN always is)."""
    return value if -_LARGEST < value < _LARGEST else None


def boolean_of(text: str) -> bool | None:
    """Truth value that a string reads as, in any letter case; None: it is none."""
    return _BOOLEANS.get(text.lower()) if len(text) <= _LONGEST_BOOLEAN else None
