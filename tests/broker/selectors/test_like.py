"""LIKE: the wildcards, the escape, and that no pattern is slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.selectors.like import matcher

from .reference import alike


def test_patterns() -> None:
    for pattern, escape, like, unlike in [
        ("l_se", "", ["lose", "l\nse", "l😀se"], ["loose", "lse", "LOSE"]),
        ("", "", [""], ["a"]),
        ("_%_", "", ["ab", "abc"], ["", "a"]),
        ("a_%_b", "", ["axxb", "axyzb"], ["axb", "ab"]),
        ("%ab%ab%", "", ["abab", "xabxabx"], ["aba", "ab"]),
        (".*", "", [".*"], ["", "aa"]),
        ("[a]+%", "", ["[a]+", "[a]+b"], ["a", "aa"]),
        ("a!!b", "!", ["a!b"], ["a!!b"]),
        ("a!b", "!", ["a!b"], ["ab"]),
        ("%!_%", "!", ["_", "a_b"], ["a", ""]),
        ("%%%", "%", ["%", "%x"], ["", "x%"]),
    ]:
        is_like = matcher(pattern, escape)
        assert [is_like(value) for value in like] == [True] * len(like)
        assert [is_like(value) for value in unlike] == [False] * len(unlike)


@given(st.text("ab%_e", max_size=8), st.sampled_from(["", "e", "%", "_"]), st.text("ab%e", max_size=8))
def test_a_second_reading_says_the_same(pattern: str, escape: str, value: str) -> None:
    assert matcher(pattern, escape)(value) is alike(value, pattern, escape)


def test_no_pattern_takes_more_than_a_walk_along_the_value() -> None:
    """Tried in all combinations, these would not end."""
    for pattern in ["%a" * 2000 + "%b", "a%" * 2000 + "b", "%" + "a" * 2000 + "b%", "%" * 4000 + "b"]:
        assert matcher(pattern)("a" * 65_536) is False
        assert matcher(pattern.replace("b", "%"))("a" * 65_536) is True


def test_between_two_percents_an_underscore_is_looked_for_in_1024_characters() -> None:
    is_like = matcher("%a_c%")
    assert is_like("x" * 1021 + "abc") is True
    assert is_like("x" * 1024) is False
    assert is_like("x" * 1022 + "abc") is None
    assert matcher("a_c%")("abc" + "x" * 2000) is True
    assert matcher("%a_c")("x" * 2000 + "abc") is True
