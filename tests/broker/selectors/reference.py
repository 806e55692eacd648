"""A second reading of the rules, for the tests to compare with: slow, plain, and without the first one's code.

A condition or a value is a tree of small classes.  `written` never evaluates, and `value_of` never looks at text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Headers = Mapping[str, str]

# How tightly what is written holds together; a part that holds less than its place wants gets parentheses.
OR, AND, NOT, PREDICATE, SUM, PRODUCT, SIGN, PRIMARY = range(8)

LARGEST = 1e300


class Unlike(Exception):
    """The values are of kinds that do not compare."""


def as_number(text: str) -> int | float | None:
    """Digit by digit."""
    if len(text) > 100:
        return None
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    mantissa, letter, exponent = unsigned.replace("E", "e").partition("e")
    whole, point, fraction = mantissa.partition(".")
    if exponent[:1] in ("+", "-"):
        exponent = exponent[1:]
    digits = whole + fraction + exponent
    if any(each not in "0123456789" for each in digits) or not whole + fraction or bool(letter) != bool(exponent):
        return None
    if not point and not letter:
        return int(text)
    return float(text) if abs(float(text)) < LARGEST else None


def as_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def header(headers: Headers, name: str) -> str | None:
    """The header of an identifier; the tests use few of the names of JMS here."""
    if name in headers:
        return headers[name]
    if name == "JMSPriority":
        return headers.get("priority", "4")
    if name == "JMSType":
        return headers.get("type")
    if name == "JMSDeliveryMode":
        return "PERSISTENT" if headers.get("persistent", "").lower() == "true" else "NON_PERSISTENT"
    return None


@dataclass(frozen=True)
class Header:
    name: str


@dataclass(frozen=True)
class Literal:
    value: str | int | float | bool


@dataclass(frozen=True)
class Parentheses:
    """More of them than needed."""

    inner: Tree


@dataclass(frozen=True)
class Negative:
    operand: Tree


@dataclass(frozen=True)
class Calculation:
    sign: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Comparison:
    sign: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Between:
    denied: bool
    value: Tree
    low: Tree
    high: Tree


@dataclass(frozen=True)
class In:
    denied: bool
    name: Tree
    literals: tuple[str | int | float, ...]


@dataclass(frozen=True)
class Like:
    denied: bool
    name: Tree
    pattern: str
    escape: str


@dataclass(frozen=True)
class IsNull:
    denied: bool
    name: Tree


@dataclass(frozen=True)
class Not:
    inner: Tree


@dataclass(frozen=True)
class And:
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Or:
    left: Tree
    right: Tree


Tree = (
    Header | Literal | Parentheses | Negative | Calculation | Comparison | Between | In | Like | IsNull | Not | And | Or
)
Scalar = str | int | float | bool


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def written(tree: Tree) -> tuple[str, int]:
    """A tree as text, and how tightly that holds together."""
    match tree:
        case Header(name):
            plain = name.replace("_", "a").replace("$", "a").isalnum() and name.upper() not in ("IN", "NOT")
            return (name if plain else '"' + name.replace('"', '""') + '"'), PRIMARY
        case Literal(value):
            return (quoted(value) if isinstance(value, str) else str(value)), PRIMARY
        case Parentheses(inner):
            return f"({written(inner)[0]})", PRIMARY
        case Negative(inner):
            return f"-{place(inner, SIGN)}", SIGN
        case Calculation(sign, left, right):
            level = SUM if sign in "+-" else PRODUCT
            return f"{place(left, level)} {sign} {place(right, level + 1)}", level
        case Comparison(sign, left, right):
            return f"{place(left, SUM)} {sign} {place(right, SUM)}", PREDICATE
        case Between(denied, value, low, high):
            word = "NOT BETWEEN" if denied else "BETWEEN"
            return f"{place(value, SUM)} {word} {place(low, SUM)} AND {place(high, SUM)}", PREDICATE
        case In(denied, name, literals):
            listed = ",".join(written(Literal(each))[0] for each in literals)
            return f"{place(name, SUM)} {'not in' if denied else 'in'} ({listed})", PREDICATE
        case Like(denied, name, pattern, escape):
            text = f"{place(name, SUM)} {'NOT LIKE' if denied else 'LIKE'} {quoted(pattern)}"
            return text + (f" ESCAPE {quoted(escape)}" if escape else ""), PREDICATE
        case IsNull(denied, name):
            return f"{place(name, SUM)} IS {'NOT ' if denied else ''}NULL", PREDICATE
        case Not(inner):
            return f"NOT {place(inner, NOT)}", NOT
        case And(left, right):
            return f"{place(left, AND)} AND {place(right, NOT)}", AND
        case Or(left, right):
            return f"{place(left, OR)} OR {place(right, AND)}", OR


def value_of(tree: Tree, headers: Headers) -> Scalar | None:
    """The value of a tree for a message."""
    match tree:
        case Header(name):
            return header(headers, name)
        case Literal(value):
            return value
        case Parentheses(inner):
            return value_of(inner, headers)
        case Negative(inner):
            number = operand(inner, headers)
            return None if number is None else -number
        case Calculation(sign, left, right):
            return calculated(sign, operand(left, headers), operand(right, headers))
        case Comparison(sign, left, right):
            return compared(sign, left, right, headers)
        case Between(denied, value, low, high):
            first, second = ("<", ">") if denied else (">=", "<=")
            ends = compared(first, value, low, headers), compared(second, value, high, headers)
            return either(*ends) if denied else both(*ends)
        case In(denied, name, literals):
            result: bool | None = False
            for each in literals:
                result = either(result, compared("=", name, Literal(each), headers))
            return opposite(result) if denied else result
        case Like(denied, name, pattern, escape):
            text = value_of(name, headers)
            return None if text is None else alike(str(text), pattern, escape) is not denied
        case IsNull(denied, name):
            return (value_of(name, headers) is None) is not denied
        case Not(inner):
            return opposite(truth(inner, headers))
        case And(left, right):
            return both(truth(left, headers), truth(right, headers))
        case Or(left, right):
            return either(truth(left, headers), truth(right, headers))


def calculated(sign: str, left: float | None, right: float | None) -> int | float | None:
    if left is None or right is None or (sign == "/" and right == 0):
        return None
    if sign in "+-":
        result = left + right if sign == "+" else left - right
    else:
        result = left * right if sign == "*" else left / right
    return result if abs(result) < LARGEST else None


def place(tree: Tree, level: int) -> str:
    """A part, in parentheses where it holds less tightly than its place wants."""
    text, own = written(tree)
    return text if own >= level else f"({text})"


def is_header(tree: Tree) -> bool:
    return isinstance(tree, Header) or (isinstance(tree, Parentheses) and is_header(tree.inner))


def operand(tree: Tree, headers: Headers) -> int | float | None:
    """A value as arithmetic takes it."""
    value = value_of(tree, headers)
    if isinstance(value, str):
        return as_number(value)
    assert not isinstance(value, bool)
    return value


def truth(tree: Tree, headers: Headers) -> bool | None:
    """A value as logic takes it."""
    value = value_of(tree, headers)
    if isinstance(value, str):
        return as_boolean(value) is True
    assert value is None or isinstance(value, bool)
    return value


def compared(sign: str, left: Tree, right: Tree, headers: Headers) -> bool | None:
    one, other = value_of(left, headers), value_of(right, headers)
    if one is None or other is None:
        return None
    try:
        one, other = on_one_scale(one, is_header(left), other, is_header(right))
    except Unlike:
        return sign in ("<>", "!=")
    order = (one > other) - (one < other)  # type: ignore[operator]
    wanted = {"=": (0,), "<>": (-1, 1), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
    return order in wanted[sign]


def on_one_scale(one: Scalar, one_header: bool, other: Scalar, other_header: bool) -> tuple[Scalar, Scalar]:
    """Both values as what they compare as."""
    if one_header and other_header:
        numbers = as_number(str(one)), as_number(str(other))
        return (one, other) if numbers[0] is None or numbers[1] is None else (numbers[0], numbers[1])
    if other_header:
        swapped = on_one_scale(other, True, one, False)
        return swapped[1], swapped[0]
    if one_header and not isinstance(other, str):
        read = as_boolean(str(one)) if isinstance(other, bool) else as_number(str(one))
        if read is None:
            raise Unlike
        return read, other
    kinds = [bool if isinstance(each, bool) else str if isinstance(each, str) else float for each in (one, other)]
    if kinds[0] is not kinds[1]:
        raise Unlike
    return one, other


def opposite(one: bool | None) -> bool | None:
    return {True: False, False: True, None: None}[one]


def both(one: bool | None, other: bool | None) -> bool | None:
    """The table of AND: false is stronger than unknown, unknown than true."""
    return sorted((one, other), key=(False, None, True).index)[0]


def either(one: bool | None, other: bool | None) -> bool | None:
    return opposite(both(opposite(one), opposite(other)))


def alike(value: str, pattern: str, escape: str = "") -> bool:
    """LIKE, by keeping all places of the value where the pattern so far may end."""
    places, rest = {0}, list(pattern)
    while rest:
        each = rest.pop(0)
        if escape and each == escape and rest and rest[0] in ("%", "_", escape):
            wanted = rest.pop(0)
            places = {place + 1 for place in places if value[place : place + 1] == wanted}
        elif each == "%":
            places = {end for place in places for end in range(place, len(value) + 1)}
        elif each == "_":
            places = {place + 1 for place in places if place < len(value)}
        else:
            places = {place + 1 for place in places if value[place : place + 1] == each}
    return len(value) in places
