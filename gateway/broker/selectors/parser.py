"""Parser: tokens of a selector to closures, by recursive descent.

    selector    = [ condition ]                                 an empty one takes every message
    condition   = conjunction *( OR conjunction )
    conjunction = test *( AND test )
    test        = *NOT value [ predicate ]
    predicate   = ( "=" / "<>" / "!=" / "<" / "<=" / ">" / ">=" ) value
                / [ NOT ] BETWEEN value AND value
                / [ NOT ] IN "(" literal *( "," literal ) ")"   of a header; literals may be signed numbers
                / [ NOT ] LIKE string [ ESCAPE string ]         of a header; ESCAPE takes one character
                / IS [ NOT ] NULL                               of a header
    value       = product *( ( "+" / "-" ) product )
    product     = factor *( ( "*" / "/" ) factor )
    factor      = *( "+" / "-" ) primary
    primary     = name / string / number / TRUE / FALSE / "(" condition ")"

Conditions and values share one grammar, because a parenthesis may hold either; `Value.kind` tells them apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import NotAllowed
from . import evaluate
from .evaluate import ARITHMETIC, COMPARISONS, Arithmetic, Comparison, Condition, Kind, Number, Value
from .identifiers import Reader
from .lexer import KEYWORDS, Lexeme, Token, tokens
from .like import matcher
from .refusal import refusal

if TYPE_CHECKING:
    from ..model.options import Selector

# Each takes up to nine calls of the thousand that Python allows.
MAX_DEPTH = 64
"""Nested parentheses at most."""

_ESCAPE = "one character in single quotes"
_HYPHEN = 'a header name (one with a hyphen is written in double quotes, like "content-type")'


def parse(text: str) -> Selector:
    """Parse a selector into a closure that is True for the selected messages, else False or None (unknown).

    `text`: the selector; an empty or blank one selects all messages.  Raises NotAllowed: the selector does not parse;
    the detail names the column, the mistake and the right form.
    """
    return _Parser(text).selector()


class _Parser:
    """Parser of one selector, from left to right; each method is named after its rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = iter(tokens(text))
        self._depth = 0
        self._next = next(self._tokens)

    def _take(self, *kinds: str | Lexeme) -> Token | None:
        """Take the next token, if it is of one of these kinds."""
        token = self._next
        if token.kind not in kinds:
            return None
        # END stays the next one: each rule may look at it.
        if token.kind is not Lexeme.END:
            self._next = next(self._tokens)
        return token

    def _need(self, kind: str | Lexeme, expected: str) -> Token:
        """Take the next token, which must be of that kind."""
        token = self._take(kind)
        if token is None:
            raise self._unexpected(expected)
        return token

    def _unexpected(self, expected: str) -> NotAllowed:
        return refusal(self._text, self._next.column, self._next.shown, expected)

    def _wrong(self, value: Value, expected: str) -> NotAllowed:
        found = "the result of arithmetic" if value.computed else value.kind.value
        return refusal(self._text, value.column, found, expected)

    # Logic.

    def selector(self) -> Condition:
        # In JMS an empty selector is none.
        if self._take(Lexeme.END):
            return evaluate.constant(True)
        value = self._condition()
        if not self._take(Lexeme.END):
            raise self._unexpected(_going_on(value) + "the end")
        return self._truth(value)

    def _condition(self) -> Value:
        first = self._test()
        # It may be a value: the parenthesis around it may stand in arithmetic or before a comparison.
        if self._next.kind not in ("AND", "OR"):
            return first
        # Lists and no nesting, so that a long chain costs no depth; AND binds closer than OR.
        conjunctions = [[self._truth(first)]]
        while token := self._take("AND", "OR"):
            part = self._truth(self._test())
            if token.kind == "AND":
                conjunctions[-1].append(part)
            else:
                conjunctions.append([part])
        condition = evaluate.any_of([evaluate.all_of(parts) for parts in conjunctions])
        return Value(Kind.CONDITION, first.column, condition)

    def _test(self) -> Value:
        # NOT binds less than comparison, as in SQL: `NOT a = 1` is `NOT (a = 1)`.  ActiveMQ reads `(NOT a) = 1`.
        column, negations = self._next.column, 0
        # Counted and not nested: a selector has room for a thousand.
        while self._take("NOT"):
            negations += 1
        value = self._predicate(self._value())
        if not negations:
            return value
        condition = self._truth(value)
        return Value(Kind.CONDITION, column, evaluate.negation(condition) if negations % 2 else condition)

    def _truth(self, value: Value) -> Condition:
        """A value as a condition."""
        if value.kind is Kind.HEADER:
            return evaluate.truth(value.read)
        if value.kind is not Kind.CONDITION:
            raise self._wrong(value, "a condition, such as a comparison")
        return value.read

    # Predicates.

    def _predicate(self, value: Value) -> Value:
        """A value with its predicate, or the value itself, if none follows."""
        condition: Condition
        if token := self._take(*COMPARISONS):
            comparison, other = COMPARISONS[token.text], self._value()
            self._check_pair(comparison, value, other)
            condition = evaluate.compare(comparison, value, other)
        elif self._take("IS"):
            condition = self._is_null(value)
        elif self._next.kind in ("NOT", "BETWEEN", "IN", "LIKE"):
            condition = self._deniable(value)
        else:
            return value
        return Value(Kind.CONDITION, value.column, condition)

    def _check_pair(self, comparison: Comparison, left: Value, right: Value) -> None:
        """Refuse a comparison whose result no header can change: it is a mistake."""
        # JMS accepts it.  But `content-type = 'text/plain'` compares a difference of two headers with a string, and its
        # consumer would wait for ever.
        ordered = comparison not in (operator.eq, operator.ne)
        for one, other in ((left, right), (right, left)):
            if ordered and one.kind is Kind.CONDITION:
                raise self._wrong(one, "a number, a string or a header, for conditions have no order")
            if one.computed and other.kind is Kind.STRING:
                raise self._wrong(one, f"{_HYPHEN}, to compare with a string")

    def _is_null(self, value: Value) -> Condition:
        denied = self._take("NOT")
        self._need("NULL", "NULL" if denied else "NULL or NOT NULL")
        condition = evaluate.missing(self._header(value, "IS"))
        return evaluate.negation(condition) if denied else condition

    def _deniable(self, value: Value) -> Condition:
        """Predicates that NOT may precede."""
        denied = self._take("NOT")
        if self._take("BETWEEN"):
            return self._between(value, evaluate.not_between if denied else evaluate.between)
        if self._take("IN"):
            condition = evaluate.member(self._header(value, "IN"), self._literals())
        elif self._take("LIKE"):
            condition = self._like(self._header(value, "LIKE"))
        else:
            raise self._unexpected("BETWEEN, IN or LIKE")
        return evaluate.negation(condition) if denied else condition

    def _header(self, value: Value, word: str) -> Reader:
        # JMS 1.1, 3.8.1.1: an identifier.  A hyphen makes arithmetic of it, so the error names that.
        if value.kind is not Kind.HEADER:
            raise self._wrong(value, f"{_HYPHEN} in front of {word}")
        return value.read

    def _between(self, value: Value, build: Callable[[Value, Value, Value], Condition]) -> Condition:
        low = self._value()
        self._need("AND", "AND and the upper end of BETWEEN")
        high = self._value()
        # BETWEEN is two comparisons, so its mistakes are theirs.
        for end in (low, high):
            self._check_pair(operator.le, value, end)
        return build(value, low, high)

    def _literals(self) -> list[str | int | float]:
        self._need("(", "'(' and the list of IN")
        found = [self._literal()]
        while self._take(","):
            found.append(self._literal())
        self._need(")", "',' or ')'")
        return found

    def _literal(self) -> str | int | float:
        if token := self._take(Lexeme.STRING):
            return token.string
        sign = self._take("+", "-")
        value = self._need(Lexeme.NUMBER, "a number" if sign else "a string or a number").number
        return -value if sign and sign.kind == "-" else value

    def _like(self, header: Reader) -> Condition:
        pattern = self._need(Lexeme.STRING, "a pattern in single quotes")
        escape = ""
        if self._take("ESCAPE"):
            column = self._next.column
            token = self._need(Lexeme.STRING, _ESCAPE)
            escape = token.string
            if len(escape) != 1:
                raise refusal(self._text, column, token.shown, _ESCAPE)
        return evaluate.like(header, matcher(pattern.string, escape))

    # Values.

    def _value(self) -> Value:
        first = self._factor()
        if self._next.kind not in ARITHMETIC:
            return first
        start = self._number(first)
        rest: list[tuple[Arithmetic, Number]] = []
        while token := self._take(*ARITHMETIC):
            rest.append((ARITHMETIC[token.text], self._number(self._factor())))
        return Value(Kind.NUMBER, first.column, evaluate.arithmetic(start, rest), computed=True)

    def _factor(self) -> Value:
        # Counted, like NOT.
        column, signs, minuses = self._next.column, 0, 0
        while token := self._take("+", "-"):
            signs += 1
            minuses += token.kind == "-"
        value = self._primary()
        if not signs:
            return value
        read = self._number(value)
        return Value(Kind.NUMBER, column, evaluate.negative(read) if minuses % 2 else read, value.computed)

    def _number(self, value: Value) -> Number:
        """A value as a number."""
        if value.kind is Kind.HEADER:
            return evaluate.header_number(value.read)
        if value.kind is not Kind.NUMBER:
            raise self._wrong(value, "a number or a header, for arithmetic")
        return value.read

    def _primary(self) -> Value:
        column = self._next.column
        if token := self._take(Lexeme.NAME):
            return evaluate.header(column, token.string)
        if token := self._take(Lexeme.STRING):
            return evaluate.literal(Kind.STRING, column, token.string)
        if token := self._take(Lexeme.NUMBER):
            return evaluate.literal(Kind.NUMBER, column, token.number)
        if token := self._take("TRUE", "FALSE"):
            return evaluate.literal(Kind.CONDITION, column, token.kind == "TRUE")
        if self._take("("):
            return self._parenthesis(column)
        raise self._unexpected("a header name, a literal or '('" + _about(self._next))

    def _parenthesis(self, column: int) -> Value:
        self._depth += 1
        # Python's own limit would raise RecursionError in the middle, at a depth that depends on the caller.
        if self._depth > MAX_DEPTH:
            raise refusal(self._text, column, "one '(' too many", f"at most {MAX_DEPTH} inside each other")
        value = self._condition()
        # Often it is an operator that is missing, and not the parenthesis: the error names both.
        if not self._take(")"):
            raise self._unexpected(_going_on(value) + "')'")
        self._depth -= 1
        # An error about the whole points to its parenthesis.
        return replace(value, column=column)


def _going_on(value: Value) -> str:
    """Tokens that may follow a complete value or condition."""
    return "AND, OR or " if value.kind is Kind.CONDITION else "a comparison such as = or IN, AND, OR or "


def _about(token: Token) -> str:
    """Advice where a keyword stands in place of a value."""
    # Users of other languages write `a = NULL`.
    if token.kind == "NULL":
        return " (write IS NULL to test for a missing header)"
    return f' (a header of that name is "{token.text}", in double quotes)' if token.kind in KEYWORDS else ""
