"""Patterns compared with each other, checked against all names of a small language."""

from __future__ import annotations

from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.auth.rule_index import covers, heads_differ
from gateway.broker.model.patterns import Pattern, has_wildcard, overlap

PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "**"]), min_size=1, max_size=3).map(
    lambda words: "/topic/" + ".".join(words)
)
# `c` stands in no pattern, like every word that no pattern names.
WORDS = ("a", "b", "c", "")
NAMES = ["/topic", *(f"/topic/{'.'.join(words)}" for length in range(1, 6) for words in product(WORDS, repeat=length))]


class TestAgainstNames:
    @given(text=PATTERNS, pattern=PATTERNS)
    def test_covers(self, text: str, pattern: str) -> None:
        assume(has_wildcard(pattern))
        general, special = Pattern(text), Pattern(pattern)
        rest = [name for name in NAMES if special.matches(name) and not general.matches(name)]
        if covers(text, pattern):
            assert not rest
        else:  # no pattern here is so large that it gives up
            assert rest or not has_wildcard(text)

    @given(text=PATTERNS, pattern=PATTERNS)
    def test_heads(self, text: str, pattern: str) -> None:
        assume(has_wildcard(pattern))
        if heads_differ(text, pattern):
            assert not overlap(text, pattern)


def test_it_gives_up() -> None:
    assert not covers("/topic/#.a.*.*.*.*", "/topic/#.a.*.*.*.*", max_places=3)


def test_hostile_patterns_are_compared_soon() -> None:
    """The most that a client's pattern may have, against the most of a rule."""
    pattern = "/topic/" + ".".join(["#", *["a"] * 55, *["*"] * 5])
    covers("/topic/" + ".".join(["#", "a", *["*"] * 4]), pattern)
