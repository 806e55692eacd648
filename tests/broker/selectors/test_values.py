"""Which strings read as numbers and as truth values."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.selectors.values import boolean_of, in_range, number_of

from .reference import as_number


def test_what_is_no_number() -> None:
    for text in [
        *("", "+", "-", ".", "e1", "1e", "1e+", "1.2.3", "--1", "+-1", " 1", "1 ", "1\n", "1_000", "1,5", "1L", "1f"),
        *("nan", "inf", "-Infinity", "0x10", "٣", "²", "1٣", "-٣", "1e300", "-1e999", "9" * 101, "9" * 5000, "true"),
    ]:
        assert number_of(text) is None


@given(st.text("0123456789+-.eE_ ", max_size=8) | st.floats().map(str) | st.integers().map(str))
def test_a_second_reading_says_the_same(text: str) -> None:
    assert number_of(text) == as_number(text)


def test_what_is_out_of_range() -> None:
    assert [in_range(each) for each in (1e300, -1e300, math.inf, -math.inf, math.nan, 10**301)] == [None] * 6
    assert in_range(10**299) == 10**299


def test_truth_values() -> None:
    for text, value in [
        *(("true", True), ("TRUE", True), ("True", True), ("false", False), ("False", False)),
        *(("", None), ("1", None), ("yes", None), (" true", None), ("true" * 9, None), ("falſe", None)),
    ]:
        assert boolean_of(text) is value
