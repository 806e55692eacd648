"""A second reading of the rules, for the tests to compare with: slow, plain, and without the first one's code.

A condition or a value is a tree of small classes.  Each knows how it is written and what it is for a message, and the
two have nothing in common: `written` never evaluates, `of` never looks at text.
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

    def written(self) -> tuple[str, int]:
        plain = self.name.replace("_", "a").replace("$", "a").isalnum() and self.name.upper() not in ("IN", "NOT")
        return (self.name if plain else '"' + self.name.replace('"', '""') + '"'), PRIMARY

    def of(self, headers: Headers) -> str | None:
        return header(headers, self.name)


@dataclass(frozen=True)
class Literal:
    value: str | int | float | bool

    def written(self) -> tuple[str, int]:
        if isinstance(self.value, bool):
            return str(self.value), PRIMARY
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'", PRIMARY
        return repr(self.value), PRIMARY

    def of(self, headers: Headers) -> str | int | float | bool:
        return self.value


@dataclass(frozen=True)
class Parentheses:
    """More of them than needed."""

    inner: Tree

    def written(self) -> tuple[str, int]:
        return f"({self.inner.written()[0]})", PRIMARY

    def of(self, headers: Headers) -> str | int | float | bool | None:
        return self.inner.of(headers)


@dataclass(frozen=True)
class Negative:
    operand: Tree

    def written(self) -> tuple[str, int]:
        return f"-{place(self.operand, SIGN)}", SIGN

    def of(self, headers: Headers) -> int | float | None:
        value = operand(self.operand, headers)
        return None if value is None else -value


@dataclass(frozen=True)
class Calculation:
    sign: str
    left: Tree
    right: Tree

    def written(self) -> tuple[str, int]:
        level = SUM if self.sign in "+-" else PRODUCT
        return f"{place(self.left, level)} {self.sign} {place(self.right, level + 1)}", level

    def of(self, headers: Headers) -> int | float | None:
        left, right = operand(self.left, headers), operand(self.right, headers)
        if left is None or right is None or (self.sign == "/" and right == 0):
            return None
        if self.sign in "+-":
            result = left + right if self.sign == "+" else left - right
        else:
            result = left * right if self.sign == "*" else left / right
        return result if abs(result) < LARGEST else None


@dataclass(frozen=True)
class Comparison:
    sign: str
    left: Tree
    right: Tree

    def written(self) -> tuple[str, int]:
        return f"{place(self.left, SUM)} {self.sign} {place(self.right, SUM)}", PREDICATE

    def of(self, headers: Headers) -> bool | None:
        return compared(self.sign, self.left, self.right, headers)


@dataclass(frozen=True)
class Between:
    denied: bool
    value: Tree
    low: Tree
    high: Tree

    def written(self) -> tuple[str, int]:
        word = "NOT BETWEEN" if self.denied else "BETWEEN"
        return f"{place(self.value, SUM)} {word} {place(self.low, SUM)} AND {place(self.high, SUM)}", PREDICATE

    def of(self, headers: Headers) -> bool | None:
        first, second = ("<", ">") if self.denied else (">=", "<=")
        low = compared(first, self.value, self.low, headers)
        high = compared(second, self.value, self.high, headers)
        return either(low, high) if self.denied else both(low, high)


@dataclass(frozen=True)
class In:
    denied: bool
    name: Header
    literals: tuple[str | int | float, ...]

    def written(self) -> tuple[str, int]:
        listed = ",".join(Literal(each).written()[0] for each in self.literals)
        return f"{place(self.name, SUM)} {'not in' if self.denied else 'in'} ({listed})", PREDICATE

    def of(self, headers: Headers) -> bool | None:
        result: bool | None = False
        for each in self.literals:
            result = either(result, compared("=", self.name, Literal(each), headers))
        return opposite(result) if self.denied else result


@dataclass(frozen=True)
class Like:
    denied: bool
    name: Header
    pattern: str
    escape: str

    def written(self) -> tuple[str, int]:
        text = f"{place(self.name, SUM)} {'NOT LIKE' if self.denied else 'LIKE'} {Literal(self.pattern).written()[0]}"
        return text + (f" ESCAPE {Literal(self.escape).written()[0]}" if self.escape else ""), PREDICATE

    def of(self, headers: Headers) -> bool | None:
        value = self.name.of(headers)
        if value is None:
            return None
        return alike(value, self.pattern, self.escape) is not self.denied


@dataclass(frozen=True)
class IsNull:
    denied: bool
    name: Header

    def written(self) -> tuple[str, int]:
        return f"{place(self.name, SUM)} IS {'NOT ' if self.denied else ''}NULL", PREDICATE

    def of(self, headers: Headers) -> bool:
        return (self.name.of(headers) is None) is not self.denied


@dataclass(frozen=True)
class Not:
    inner: Tree

    def written(self) -> tuple[str, int]:
        return f"NOT {place(self.inner, NOT)}", NOT

    def of(self, headers: Headers) -> bool | None:
        return opposite(truth(self.inner, headers))


@dataclass(frozen=True)
class And:
    left: Tree
    right: Tree

    def written(self) -> tuple[str, int]:
        return f"{place(self.left, AND)} AND {place(self.right, NOT)}", AND

    def of(self, headers: Headers) -> bool | None:
        return both(truth(self.left, headers), truth(self.right, headers))


@dataclass(frozen=True)
class Or:
    left: Tree
    right: Tree

    def written(self) -> tuple[str, int]:
        return f"{place(self.left, OR)} OR {place(self.right, AND)}", OR

    def of(self, headers: Headers) -> bool | None:
        return either(truth(self.left, headers), truth(self.right, headers))


Tree = (
    Header | Literal | Parentheses | Negative | Calculation | Comparison | Between | In | Like | IsNull | Not | And | Or
)


def place(tree: Tree, level: int) -> str:
    """A part, in parentheses where it holds less tightly than its place wants."""
    text, own = tree.written()
    return text if own >= level else f"({text})"


def is_header(tree: Tree) -> bool:
    return isinstance(tree, Header) or (isinstance(tree, Parentheses) and is_header(tree.inner))


def operand(tree: Tree, headers: Headers) -> int | float | None:
    """A value as arithmetic takes it."""
    value = tree.of(headers)
    if isinstance(value, str):
        return as_number(value)
    assert not isinstance(value, bool)
    return value


def truth(tree: Tree, headers: Headers) -> bool | None:
    """A value as logic takes it."""
    value = tree.of(headers)
    if isinstance(value, str):
        return as_boolean(value) is True
    assert value is None or isinstance(value, bool)
    return value


def compared(sign: str, left: Tree, right: Tree, headers: Headers) -> bool | None:
    one, other = left.of(headers), right.of(headers)
    if one is None or other is None:
        return None
    try:
        one, other = on_one_scale(one, is_header(left), other, is_header(right))
    except Unlike:
        return sign in ("<>", "!=")
    order = (one > other) - (one < other)  # type: ignore[operator]
    wanted = {"=": (0,), "<>": (-1, 1), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
    return order in wanted[sign]


Scalar = str | int | float | bool


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
