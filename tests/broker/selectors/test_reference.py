"""Random selectors mean what the plain reading of the rules says, and nothing makes one raise."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.broker.errors import NotAllowed
from gateway.broker.selectors import parse

from . import reference
from .reference import And, Between, Calculation, Comparison, Header, In, IsNull, Like, Literal, Negative, Not, Or
from .reference import Parentheses as Parens

NAMES = ["a", "b", "c_1", "$d", "content-type", "in", 'quo"te', "JMSPriority", "JMSType", "JMSDeliveryMode"]
FIELDS = [*NAMES, "priority", "type", "persistent"]
STRINGS = ["", "1", "1.0", "2", "-3", "1e1", "red", "blue", "true", "FALSE", "it's", "nan", "1_0", " 1", "10%", "aab"]

headers = st.dictionaries(
    st.sampled_from(FIELDS), st.sampled_from(STRINGS) | st.integers(-12, 12).map(str) | st.text("ab%_1.", max_size=5)
)
strings = st.sampled_from(STRINGS) | st.text("ab'%_1", max_size=4)
numbers = st.integers(0, 12) | st.sampled_from([0.5, 1.0, 2.5, 1e3, 1e17, 1e-7, 10**17 + 1, 10**60])
signed = st.integers(-12, 12) | st.sampled_from([0.5, -2.5, 1e3])
names = st.builds(Header, st.sampled_from(NAMES))
denied = st.booleans()


def padded(trees: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The same, sometimes in parentheses."""
    return trees | st.builds(Parens, trees)


operands = st.recursive(
    padded(names | st.builds(Literal, numbers)),
    lambda inner: padded(st.builds(Negative, inner) | st.builds(Calculation, st.sampled_from("+-*/"), inner, inner)),
    max_leaves=5,
)
quoted = padded(st.builds(Literal, strings))
# With a string, only what is no arithmetic may be compared.
plain = padded(names | st.builds(Literal, numbers))
signs = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
predicates = (
    names
    | st.builds(Literal, st.booleans())
    | st.builds(Comparison, signs, operands, operands)
    | st.builds(Comparison, signs, plain, quoted)
    | st.builds(Comparison, signs, quoted, plain | quoted)
    | st.builds(Between, denied, operands, operands, operands)
    | st.builds(Between, denied, names, quoted, quoted | plain)
    | st.builds(In, denied, names, st.lists(strings | signed, min_size=1, max_size=4).map(tuple))
    | st.builds(Like, denied, names, st.text("ab%_e", max_size=6), st.sampled_from(["", "", "e", "%", "'"]))
    | st.builds(IsNull, denied, names)
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    booleans = names | quoted | st.builds(Literal, numbers)
    # As a side of a comparison a condition is in parentheses, which the writing sees to.
    equated = st.builds(Comparison, st.sampled_from(["=", "<>"]), inner, inner | booleans)
    return padded(st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner) | equated)


conditions = st.recursive(padded(predicates), combined, max_leaves=8)


@settings(max_examples=500, deadline=None)
@given(conditions, st.lists(headers, min_size=1, max_size=4))
def test_a_selector_means_what_the_rules_say(tree: reference.Tree, messages: list[dict[str, str]]) -> None:
    text, _ = reference.written(tree)
    selector, opposite = parse(text), parse(f"NOT ({text})")
    for message in messages:
        expected = reference.truth(tree, message)
        assert selector(message) is expected, text
        assert opposite(message) is (None if expected is None else not expected), text


@given(conditions, headers)
def test_case_of_keywords_and_white_space_make_no_difference(tree: reference.Tree, message: dict[str, str]) -> None:
    text, _ = reference.written(tree)
    spread = text
    for word in ("NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL"):
        spread = spread.replace(f" {word} ", f"\t{word.title()}\n\r\f ")
    assert parse(f"  {spread}\n")(message) == parse(text)(message)


FRAGMENTS = [
    *"NOT AND OR BETWEEN LIKE ESCAPE IN IS TRUE FALSE NULL = <> != < <= > >= + - * / ( ) ( ) , ' \" . ; %".split(),
    *("a", "b.c", "'x'", "'a%_'", "'\\'", '"content-type"', "1", "2.5", "1e300", "5L", "0x1", "\ud800", "ſ", "é"),
    *("a = 1", "a IN ('x')", "a LIKE 'x%'", "a BETWEEN 1 AND 2", "b IS NULL", "a / 0 = 1", "-a > 1e299 * 100"),
]


@settings(max_examples=500, deadline=None)
@given(
    st.text(st.characters(), max_size=30) | st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(" ".join),
    st.dictionaries(
        st.sampled_from(["a", "b", "b.c", "content-type"]), st.text(st.characters()) | st.floats().map(str)
    ),
)
@example("a = 1", {"a": "9" * 5000})
@example("a > 1", {"a": "9" * 100})
@example("a * a * a * a > 1 OR a + 1 > 2", {"a": "9" * 100})
@example("a * 1e299 > 1", {"a": "1e299"})
@example("a - a = 0", {"a": "inf"})
@example("a / b > 0", {"a": "1e299", "b": "1e-299"})
@example("a / b > 0", {"a": "9" * 100, "b": "0.0"})
@example("a = 'x\ud800'", {"a": "\ud800"})
def test_nothing_raises_but_the_refusal(text: str, message: dict[str, str]) -> None:
    refused = None
    try:
        assert parse(text)(message) in (True, False, None)
    except NotAllowed as error:
        refused = error
    if refused is not None:
        assert str(refused) == "selector does not parse"
        assert refused.detail.startswith("column ")
        assert refused.detail.isprintable()
        assert len(refused.detail) < 500
