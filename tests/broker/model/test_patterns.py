"""Names into words, what is a wildcard, and which names a pattern matches."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.broker.errors import NotAllowed
from gateway.broker.model.patterns import (
    MAX_WORDS,
    Pattern,
    check_wildcards,
    check_words,
    has_wildcard,
    overlap,
    split,
)

from .pattern_cases import CASES, WILDCARDS, calls, is_match, names, patterns, words_of


class TestWords:
    @given(names)
    def test_which_names_have_such_words(self, name: str) -> None:
        slips = [word for word in words_of(name) if word not in WILDCARDS and "*" in word]
        if not slips:
            check_wildcards(name, "as written")
            return
        with pytest.raises(NotAllowed, match="a wildcard inside of a word") as caught:
            check_wildcards(name, "as written")
        assert caught.value.detail.startswith(f"'as written' has one in {slips[0][:40]!r}")

    @given(names)
    def test_words_of_any_name(self, name: str) -> None:
        assert split(name) == tuple(words_of(name))
        assert has_wildcard(name) is any(word in WILDCARDS for word in words_of(name))

    def test_most_names_are_seen_to_have_none_without_a_split(self) -> None:
        assert calls(has_wildcard, "/topic/a.b") == calls(len, "")  # itself

    def test_so_many_words_and_no_more(self) -> None:
        name = "/topic" + ".x" * (MAX_WORDS - 1)
        check_words(name, name)
        with pytest.raises(NotAllowed, match="too many words") as caught:
            check_words(name + "/", "/exchange/amq." + name[1:])
        assert "'/exchange/amq.topic.x" in caught.value.detail
        assert f"{MAX_WORDS + 1} words" in caught.value.detail
        assert f"at most {MAX_WORDS} are" in caught.value.detail
        assert len(caught.value.detail) < 200


class TestPattern:
    def test_cases(self) -> None:
        for text, name, expected in CASES:
            pattern = Pattern(text)
            assert pattern.matches(name) is expected
            assert pattern.text == text

    @given(patterns, names)
    def test_matches_what_the_slow_way_matches(self, text: str, name: str) -> None:
        assert Pattern(text).matches(name) is is_match(text, name)

    def test_rests_side_by_side_are_one(self) -> None:
        for text, words in [
            ("/topic/a.*", ("topic", "a", "*")),
            ("/topic/**/a/>", ("topic", "#", "a", "#")),
            ("#.>.**.a.#.#", ("#", "a", "#")),
            ("#.*.#", ("#", "*", "#")),
        ]:
            assert Pattern(text).words == words

    def test_hostile_patterns_cost_a_step_a_word(self) -> None:
        for text in ["#" + ".a.#" * 30 + ".b", "#" + ".a" * 100 + ".b", "#.*" * 50 + ".b", "#.b"]:
            for count in [10, 3_000]:
                pattern, name = Pattern(text), ".".join("a" * count)
                assert not pattern.matches(name)
                assert calls(pattern.matches, name) < count + 10

    def test_as_many_words_as_a_header_line_has_octets(self) -> None:
        name = ".".join("a" * 30_000)
        assert Pattern("#." + name).matches(name)
        assert not Pattern("#.*." + name).matches(name)


# Pattern by pattern: `behind` and `ends` say what `matches` says.

WORDS = st.sampled_from(["a", "b", "", "c"])
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#", "**", ""]), min_size=1, max_size=5).map(".".join)


def walk(pattern: Pattern, words: list[str | None]) -> bool:
    places = 1
    for word in words:
        places = pattern.behind(places, word)
    return pattern.ends(places)


@given(text=PATTERNS.filter(lambda text: not {"*", "#", "**"}.isdisjoint(text.split("."))), words=st.lists(WORDS))
def test_as_matches_says(text: str, words: list[str]) -> None:
    pattern, name = Pattern(text), ".".join(words)
    assert walk(pattern, list(split(name))) is pattern.matches(name)
    others = [word if word in pattern.named else None for word in split(name)]
    assert walk(pattern, others) is pattern.matches(name)


def test_the_words_that_it_names() -> None:
    assert Pattern("/topic/a.*.b.#").named == ("topic", "a", "b")


class TestOverlap:
    # `c` stands in no pattern, like every word that no pattern names.
    NAMES = ["/topic/" + ".".join(words) for length in range(6) for words in product("abc", repeat=length)] + ["/topic"]
    PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#", "**"]), min_size=1, max_size=3).map(
        lambda words: "/topic/" + ".".join(words)
    )

    @given(PATTERNS, PATTERNS)
    def test_of_all_names_of_a_small_language(self, text: str, pattern: str) -> None:
        assume(has_wildcard(pattern))
        matched = [name for name in self.NAMES if Pattern(text).matches(name) and Pattern(pattern).matches(name)]
        assert overlap(text, pattern) is bool(matched)

    def test_the_most_that_a_client_may_have_takes_no_time(self) -> None:
        pattern = "/topic/" + ".".join(["#", *["a"] * 55, *["*"] * 5])
        assert overlap("/topic/" + ".".join(["#", "a", *["*"] * 4]), pattern)
        assert not overlap("/topic/" + ".".join(["#", *["b"] * 60]), pattern)
