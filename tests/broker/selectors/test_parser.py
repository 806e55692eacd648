"""What parses, what does not, and what the error says."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.selectors import MAX_DEPTH, MAX_LENGTH, parse
from gateway.broker.selectors.refusal import quoted, refusal

HYPHEN = 'a header name (one with a hyphen is written in double quotes, like "content-type")'
VALUE = "a header name, a literal or '('"


def refused(text: str) -> str:
    with pytest.raises(NotAllowed, match=r"^selector does not parse$") as caught:
        parse(text)
    return caught.value.detail


def test_an_empty_selector_takes_every_message() -> None:
    for text in ["", " ", "\t\r\n", "hyphenated_props:", "convert_string_expressions: "]:
        assert parse(text)({}) is True
        assert parse(text)({"a": "1"}) is True


def test_what_does_not_parse() -> None:
    for text, column, found, expected in [
        # Values.
        ("a = = 1", 5, "'='", VALUE),
        ("a = 1 AND AND b", 11, "'AND'", VALUE + ' (a header of that name is "AND", in double quotes)'),
        ("a = NULL", 5, "'NULL'", VALUE + " (write IS NULL to test for a missing header)"),
        ("()", 2, "')'", VALUE),
        # Behind a value or a condition.
        ("a 'red'", 3, "\"'red'\"", "a comparison such as = or IN, AND, OR or the end"),
        ("a = 1 = 2", 7, "'='", "AND, OR or the end"),
        ("(a = 1", 7, "the end", "AND, OR or ')'"),
        ("(a + 1", 7, "the end", "a comparison such as = or IN, AND, OR or ')'"),
        # Predicates.
        ("a NOT = 1", 7, "'='", "BETWEEN, IN or LIKE"),
        ("a IS 5", 6, "'5'", "NULL or NOT NULL"),
        ("a IS NOT 5", 10, "'5'", "NULL"),
        ("a BETWEEN 1 OR 2", 13, "'OR'", "AND and the upper end of BETWEEN"),
        ("a IN 'x'", 6, "\"'x'\"", "'(' and the list of IN"),
        ("a IN ()", 7, "')'", "a string or a number"),
        ("a IN (b)", 7, "'b'", "a string or a number"),
        ("a IN (-'x')", 8, "\"'x'\"", "a number"),
        ("a IN ('x' 'y')", 11, "\"'y'\"", "',' or ')'"),
        ("a LIKE b", 8, "'b'", "a pattern in single quotes"),
        ("a LIKE 'x' ESCAPE", 18, "the end", "one character in single quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "\"'ab'\"", "one character in single quotes"),
        # What does not go together.
        ("5", 1, "a number", "a condition, such as a comparison"),
        ("a AND 'x'", 7, "a string", "a condition, such as a comparison"),
        ("a OR b + 1", 6, "the result of arithmetic", "a condition, such as a comparison"),
        ("'x' + 1 = 2", 1, "a string", "a number or a header, for arithmetic"),
        ("2 * TRUE = 2", 5, "a condition", "a number or a header, for arithmetic"),
        ("a < TRUE", 5, "a condition", "a number, a string or a header, for conditions have no order"),
        ("a BETWEEN 1 AND TRUE", 17, "a condition", "a number, a string or a header, for conditions have no order"),
        # A hyphen that was meant as part of a name.
        ("content-type = 'x'", 1, "the result of arithmetic", HYPHEN + ", to compare with a string"),
        ("'x' <> content-type", 8, "the result of arithmetic", HYPHEN + ", to compare with a string"),
        ("user-id BETWEEN 'a' AND 'b'", 1, "the result of arithmetic", HYPHEN + ", to compare with a string"),
        ("content-type LIKE 'text/%'", 1, "the result of arithmetic", HYPHEN + " in front of LIKE"),
        ("correlation-id IS NULL", 1, "the result of arithmetic", HYPHEN + " in front of IS"),
        ("'x' LIKE 'x'", 1, "a string", HYPHEN + " in front of LIKE"),
    ]:
        excerpt = text[: column - 1] + "[here]" + text[column - 1 :]
        assert refused(text) == f"column {column}: found {found}, expected {expected}: {excerpt}"


def nested(head: str, core: str, depth: int) -> str:
    """Parentheses inside each other; `head` ends with one that opens."""
    return head * depth + core + ")" * depth


def test_parentheses_nest_to_a_depth() -> None:
    assert parse(nested("(", "a = 1", MAX_DEPTH))({"a": "1"})
    excerpt = f"...{'(' * 32}[here](a = 1{')' * 26}..."
    assert refused(nested("(", "a = 1", MAX_DEPTH + 1)) == (
        f"column 65: found one '(' too many, expected at most 64 inside each other: {excerpt}"
    )


@pytest.fixture
def small_stack() -> Iterator[None]:
    """Room for nine calls for each parenthesis, and a few."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 9 * MAX_DEPTH + 30)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("small_stack")
@pytest.mark.parametrize("head", ["(", "NOT (", "TRUE = (", "(a) = (", "FALSE OR TRUE AND NOT TRUE = ("])
def test_the_deepest_conditions_fit_the_stack(head: str) -> None:
    assert parse(nested(head, "a", MAX_DEPTH - 1))({"a": "true"}) in (True, False)


@pytest.mark.usefixtures("small_stack")
def test_the_deepest_arithmetic_fits_the_stack() -> None:
    assert parse(nested("1 + 1 * -(", "a", MAX_DEPTH) + " = 1")({"a": "1"}) is True
    assert parse("1 = " + nested("1 + 1 * -(", "a", MAX_DEPTH))({"a": "1"}) is True
    assert "conditions have no order" in refused(nested("1 NOT BETWEEN 0 AND (", "a", MAX_DEPTH))


def test_a_long_selector_is_not_a_deep_one() -> None:
    for text in [
        " OR ".join(["a = 1"] * 450),
        "a = " + "+".join(["a"] * 2040),
        "a = " + "-" * 4000 + "a",
        "NOT " * 1000 + "a",
        "a IN (" + ",".join(["1"] * 2000) + ")",
        "a = " + "*".join(["a"] * 2040),
    ]:
        assert len(text) <= MAX_LENGTH
        assert parse(text)({"a": "1"}) in (True, False)
        assert parse(text)({"a": "9" * 100}) in (True, False, None)


def test_no_selector_takes_long() -> None:
    """The worst that we know of, on large headers: milliseconds, where a naive reading takes minutes or for ever."""
    worst = [
        " OR ".join(["a LIKE '%aab%'"] * 200),
        "a LIKE '%" + "a_" * 400 + "b%'",
        "a LIKE '" + "%a" * 1000 + "%_b%'",
        "b > " + "*".join(["b"] * 2000),
        " OR ".join(["a = c"] * 400),
    ]
    message = {"a": "a" * 65_536, "b": "9" * 100, "c": "a" * 65_535}
    selectors = [parse(text) for text in worst]
    start = time.process_time()
    assert not any(selector(message) for selector in selectors)
    # Generous: machines differ, and exponents do not care.
    assert time.process_time() - start < 2


def test_a_long_selector_is_cut_around_the_place() -> None:
    error = refusal("a" * 100 + "b" * 100, 101, "'b'", "a value")
    assert error.detail.endswith(": ..." + "a" * 32 + "[here]" + "b" * 32 + "...")


def test_what_does_not_print_is_shown_as_a_question_mark() -> None:
    assert refusal("a\n\ud800\x1b[1m é", 2, "it", "more").detail.endswith(": a[here]???[1m é")


def test_long_words_are_cut() -> None:
    assert quoted("a" * 40) == repr("a" * 40)
    assert quoted("a" * 41) == repr("a" * 40 + "...")
    assert quoted("\ud800\n") == r"'\ud800\n'"
