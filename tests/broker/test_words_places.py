"""Patterns word by word: `behind` and `ends` say what `matches` says, and more words than a pattern names are one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.model.patterns import Pattern, split

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
