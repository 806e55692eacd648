"""The error of a selector: one line that shows the place."""

from __future__ import annotations

from gateway.broker.errors import NotAllowed
from gateway.broker.selectors.refusal import quoted, refusal


def test_it_says_where_what_and_what_else() -> None:
    error = refusal("color = = 'red'", 9, "'='", "a value")
    assert isinstance(error, NotAllowed)
    assert str(error) == "selector does not parse"
    assert error.detail == "column 9: found '=', expected a value: color = [here]= 'red'"


def test_a_long_selector_is_cut_around_the_place() -> None:
    error = refusal("a" * 100 + "b" * 100, 101, "'b'", "a value")
    assert error.detail.endswith(": ..." + "a" * 32 + "[here]" + "b" * 32 + "...")


def test_what_does_not_print_is_shown_as_a_question_mark() -> None:
    assert refusal("a\n\ud800\x1b[1m é", 2, "it", "more").detail.endswith(": a[here]???[1m é")


def test_long_words_are_cut() -> None:
    assert quoted("a" * 40) == repr("a" * 40)
    assert quoted("a" * 41) == repr("a" * 40 + "...")
    assert quoted("\ud800\n") == r"'\ud800\n'"
