"""Evaluation of selectors: closures of three-valued logic, comparison and arithmetic.

A value is None where it is unknown: the header is missing, or arithmetic had no result.  Conditions are True, False or
None (JMS 1.1, 3.8.1.2).  A message is selected if the whole condition is True.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .identifiers import Headers, Reader, is_plain, reader
from .values import boolean_of, in_range, number_of

Condition = Callable[[Headers], bool | None]
Number = Callable[[Headers], int | float | None]
Comparison = Callable[[Any, Any], bool]
Arithmetic = Callable[[Any, Any], int | float]


class Kind(Enum):
    """Kind of a value, as an error names it; the comment is the type that its closure returns (or None)."""

    HEADER = "a header"  # str
    STRING = "a string"  # str
    NUMBER = "a number"  # int or float
    CONDITION = "a condition"  # bool


@dataclass(frozen=True, slots=True)
class Value:
    """A part of a selector that has a value."""

    kind: Kind  # its kind
    column: int  # where it begins, from 1
    read: Callable[[Headers], Any]  # returns its value for a message
    computed: bool = False  # True for the result of arithmetic
    literal: str | float | bool | None = None  # its value, if that is the same for all messages; None: it is no literal
    name: str = ""  # the name of a header that is read by its name alone; else empty


COMPARISONS: dict[str, Comparison] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# A division has a fraction, as in ActiveMQ: `5 / 2` is 2.5.
ARITHMETIC: dict[str, Arithmetic] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
# Of a comparison whose header stands at the right: so each kind of pair is written once, with the header at the left.
_MIRRORED: dict[Comparison, Comparison] = {
    operator.eq: operator.eq,
    operator.ne: operator.ne,
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
}
_FEW = 16  # digits for which int() is quick
_READINGS: dict[Kind, Callable[[str], Any]] = {Kind.NUMBER: number_of, Kind.CONDITION: boolean_of}


def constant(value: str | float | bool) -> Callable[[Headers], Any]:
    """Closure of a value that is the same for all messages."""
    return lambda headers: value


def literal(kind: Kind, column: int, value: str | float | bool) -> Value:
    """Value that stands in the selector itself."""
    return Value(kind, column, constant(value), literal=value)


def header(column: int, name: str) -> Value:
    """Value of the header that an identifier means."""
    return Value(Kind.HEADER, column, reader(name), name=name if is_plain(name) else "")


# Three-valued logic.


def all_of(parts: Sequence[Condition]) -> Condition:
    """AND: False if a part is, else unknown if a part is."""
    return _junction(parts, decisive=False)


def any_of(parts: Sequence[Condition]) -> Condition:
    """OR: True if a part is, else unknown if a part is."""
    return _junction(parts, decisive=True)


def _junction(parts: Sequence[Condition], *, decisive: bool) -> Condition:
    """AND or OR: a part that is `decisive` decides."""
    # It would cost a call for each message.
    if len(parts) == 1:
        return parts[0]

    def run(headers: Headers) -> bool | None:
        # One closure with a loop for the whole chain, so that calls are as deep as the parentheses.
        result: bool | None = not decisive
        for part in parts:
            value = part(headers)
            if value is decisive:
                return decisive
            # Unknown, but a later part may still decide: `unknown OR TRUE` is true (JMS 1.1, 3.8.1.2).
            if value is None:
                result = None
        return result

    return run


def _unless_unknown(read: Callable[[Headers], Any], function: Callable[[Any], Any]) -> Callable[[Headers], Any]:
    """A function of a value; of unknown it is unknown."""

    def run(headers: Headers) -> Any:
        value = read(headers)
        return None if value is None else function(value)

    return run


def negation(part: Condition) -> Condition:
    """NOT; of unknown it is unknown."""
    return _unless_unknown(part, operator.not_)


# Comparison.


def truth(read: Reader) -> Condition:
    """A header as a condition: True if it is `true`, in any letter case."""
    # A header with any other text is there, so it is false and not unknown.
    return _unless_unknown(read, lambda text: boolean_of(text) is True)


def compare(comparison: Comparison, left: Value, right: Value) -> Condition:
    """A comparison operator between two values."""
    # Decided here, once: the kinds are known when the selector is parsed, and no closure tests types for each message.
    if left.kind is right.kind is Kind.HEADER:
        return _headers(comparison, left.read, right.read)
    if right.kind is Kind.HEADER:
        return compare(_MIRRORED[comparison], right, left)
    if left.kind is Kind.HEADER and right.kind is Kind.STRING:
        return _with_string(comparison, left, right.literal)
    # A header that reads as a number is one if the other side is a number, as in ActiveMQ.  A literal in quotes never
    # is: `'1' = 1` compares unlike types.
    if left.kind is Kind.HEADER and right.kind is Kind.NUMBER and right.literal is not None:
        return _with_number(comparison, left, right.literal)
    if left.kind is Kind.HEADER:
        return _read_as(_READINGS[right.kind], comparison, left.read, right.read)
    if left.kind is right.kind:
        return _alike(comparison, left.read, right.read)
    return _unlike(comparison, left.read, right.read)


def _with_string(comparison: Comparison, header: Value, string: Any) -> Condition:
    """Compare a header with a string, which is always a literal."""
    # `headers.get` instead of `read`: most comparisons come here, and a call costs as much as the comparison.
    name, read = header.name, header.read

    def run(headers: Headers) -> bool | None:
        text = headers.get(name) if name else read(headers)
        # Strings have an order, by code points.  JMS and ActiveMQ compare them by `=` and `<>` alone.
        return None if text is None else comparison(text, string)

    return run


def _with_number(comparison: Comparison, header: Value, number: Any) -> Condition:
    """Compare a header with a literal number: the header counts as the number that it reads as."""
    name, read = header.name, header.read
    unlike = comparison is operator.ne

    def run(headers: Headers) -> bool | None:
        text = headers.get(name) if name else read(headers)
        if text is None:
            return None
        # Most are a few digits: int() here saves the call of `number_of`.
        one = int(text) if len(text) < _FEW and text.isdigit() and text.isascii() else number_of(text)
        return unlike if one is None else comparison(one, number)

    return run


def _alike(comparison: Comparison, left: Callable[[Headers], Any], right: Callable[[Headers], Any]) -> Condition:
    def run(headers: Headers) -> bool | None:
        one, other = left(headers), right(headers)
        return None if one is None or other is None else comparison(one, other)

    return run


def _unlike(comparison: Comparison, left: Callable[[Headers], Any], right: Callable[[Headers], Any]) -> Condition:
    """Compare values that are never equal and have no order; unknown stays unknown."""
    # As in ActiveMQ `<>` is true, so that `a <> b` always is `NOT (a = b)`.  In JMS it is false as well.
    result = comparison is operator.ne

    def run(headers: Headers) -> bool | None:
        return None if left(headers) is None or right(headers) is None else result

    return run


def _read_as(
    reading: Callable[[str], Any], comparison: Comparison, header: Reader, right: Callable[[Headers], Any]
) -> Condition:
    """Compare a header with a value that is no string: the header counts as the value that it reads as."""
    unlike = comparison is operator.ne

    def run(headers: Headers) -> bool | None:
        text, other = header(headers), right(headers)
        if text is None or other is None:
            return None
        one = reading(text)
        return unlike if one is None else comparison(one, other)

    return run


def _headers(comparison: Comparison, left: Reader, right: Reader) -> Condition:
    """Compare two headers: as numbers if both read as numbers, else as strings."""

    def run(headers: Headers) -> bool | None:
        one, other = left(headers), right(headers)
        if one is None or other is None:
            return None
        number, other_number = number_of(one), number_of(other)
        # JMS has no rule for this: its properties have types, and headers are strings.
        if number is None or other_number is None:
            return comparison(one, other)
        return comparison(number, other_number)

    return run


def between(value: Value, low: Value, high: Value) -> Condition:
    """BETWEEN, both ends included."""
    # As JMS defines it, so that what is unknown or of an unlike type needs no rule of its own.
    return all_of([compare(operator.ge, value, low), compare(operator.le, value, high)])


def not_between(value: Value, low: Value, high: Value) -> Condition:
    """NOT BETWEEN: below or above."""
    # Not the negation of BETWEEN: a value without order to the ends is neither between them nor outside.
    return any_of([compare(operator.lt, value, low), compare(operator.gt, value, high)])


def member(read: Reader, literals: Sequence[str | int | float]) -> Condition:
    """IN: equal to one of the literals; numbers compare as numbers."""
    strings = frozenset(each for each in literals if isinstance(each, str))
    numbers = frozenset(each for each in literals if not isinstance(each, str))

    # Without numbers no header need be read as one.
    if not numbers:
        return _unless_unknown(read, strings.__contains__)
    return _unless_unknown(read, lambda text: text in strings or number_of(text) in numbers)


def like(read: Reader, is_like: Callable[[str], bool | None]) -> Condition:
    """LIKE, of a header and a compiled pattern."""
    return _unless_unknown(read, is_like)


def missing(read: Reader) -> Condition:
    """IS NULL; never unknown."""
    return lambda headers: read(headers) is None


# Arithmetic.


def header_number(read: Reader) -> Number:
    """A header as an operand; unknown if it reads as no number."""
    return _unless_unknown(read, number_of)


def negative(read: Number) -> Number:
    """Number with the sign changed."""
    return _unless_unknown(read, operator.neg)


def arithmetic(first: Number, rest: Sequence[tuple[Arithmetic, Number]]) -> Number:
    """Chain of operands and operators: products first, each from left to right."""
    terms: list[tuple[Arithmetic, Number]] = []
    sign: Arithmetic = operator.add
    factor, factors = first, list[tuple[Arithmetic, Number]]()
    for operation, operand in rest:
        if operation in (operator.mul, operator.truediv):
            factors.append((operation, operand))
        else:
            terms.append((sign, _chain(factor, factors)))
            sign, factor, factors = operation, operand, []
    terms.append((sign, _chain(factor, factors)))
    return _chain(terms[0][1], terms[1:])


def _chain(first: Number, rest: Sequence[tuple[Arithmetic, Number]]) -> Number:
    """Chain of operators of one precedence, from left to right."""
    if not rest:
        return first

    def run(headers: Headers) -> int | float | None:
        value = first(headers)
        # One loop and no nested closures: a chain is as long as the selector, and Python's calls are limited.
        for operation, read in rest:
            other = read(headers)
            if value is None or other is None:
                return None
            try:
                value = in_range(operation(value, other))
            # Unknown, as is a result out of range: nothing may raise here, while the frame of the sender is at work.
            except ZeroDivisionError:
                return None
        return value

    return run
