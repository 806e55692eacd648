"""Many patterns and one name, many names and one pattern: what is found, in which order, at what cost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.model.patterns import Pattern, has_wildcard
from gateway.broker.model.trie import NameTree, PatternTrie

from .pattern_cases import calls, is_match, names, patterns, words_of

Tree = PatternTrie[int] | NameTree[int]

LONG = "/topic" + ".a" * 30_000


def trie_of(texts: Iterable[str]) -> PatternTrie[str]:
    """A trie whose values are the patterns themselves."""
    trie: PatternTrie[str] = PatternTrie()
    for text in texts:
        trie.add(text, text)
    return trie


def tree_of(texts: Iterable[str]) -> NameTree[str]:
    """A tree whose values are the names themselves."""
    tree: NameTree[str] = NameTree()
    for text in texts:
        tree.add(text, text)
    return tree


def nodes_for(paths: Iterable[tuple[str, ...]]) -> int:
    """How many nodes a tree of these words needs: one for each beginning."""
    return len({path[: end + 1] for path in paths for end in range(len(path))})


class TestBoth:
    @pytest.fixture(params=[PatternTrie, NameTree])
    def tree(self, request: pytest.FixtureRequest) -> Tree:
        tree: Tree = request.param()
        return tree

    @pytest.mark.parametrize("text", [LONG + ".*", "*." * 30_000, "#.a." * 15_000])
    def test_very_long_texts_come_and_go(self, tree: Tree, text: str) -> None:
        tree.add(text, 1)
        assert tree.nodes > 30_000 - 2
        tree.remove(text)
        assert tree.nodes == 0


class TestPatternTrie:
    @settings(max_examples=300)
    @given(
        st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), patterns)),
        st.lists(names, min_size=1, max_size=4),
        st.integers(0, 3),
    )
    def test_finds_what_a_list_of_patterns_finds(
        self, steps: list[tuple[str, str]], asked: list[str], cached: int
    ) -> None:
        trie: PatternTrie[int] = PatternTrie(cached)
        model: dict[str, int] = {}
        for number, (step, text) in enumerate(steps):
            if step == "add":
                trie.add(text, number)
                model[text] = number
            else:
                trie.remove(text)
                model.pop(text, None)
            for name in asked:
                assert list(trie.match(name)) == [value for each, value in model.items() if is_match(each, name)]
            assert len(trie) == len(model)
            assert trie.nodes == nodes_for(Pattern(each).words for each in model if has_wildcard(each))
        for text in model:
            assert trie.get(text) == model[text]
            trie.remove(text)
        assert (len(trie), trie.nodes) == (0, 0)
        assert trie.match(asked[0]) == ()


class TestCache:
    """What is remembered is the same tuple as before; no other test can tell, nor need anybody else."""

    def test_remembers_until_patterns_change(self) -> None:
        trie = trie_of(["/topic/*", "/topic/b.*"])
        before = trie.match("/topic/a")
        assert trie.match("/topic/a") is before
        trie.add("/topic/#", "/topic/#")
        assert trie.match("/topic/a") == ("/topic/*", "/topic/#")
        trie.remove("/topic/*")
        assert trie.match("/topic/a") == ("/topic/#",)

    def test_a_text_without_wildcards_changes_its_own_name_only(self) -> None:
        trie = trie_of(["/topic/*"])
        before = [trie.match(name) for name in ("/topic/a", "/topic/b")]
        trie.add("/topic/b", "/topic/b")
        trie.add("/topic/never.asked", "")
        assert trie.match("/topic/a") is before[0]
        assert trie.match("/topic/b") == ("/topic/*", "/topic/b")
        trie.remove("/topic/b")
        assert trie.match("/topic/a") is before[0]
        assert trie.match("/topic/b") == before[1]

    def test_forgets_the_oldest_names(self) -> None:
        trie: PatternTrie[int] = PatternTrie(cached_names=2)
        trie.add("#", 1)
        a, b, c = (trie.match(name) for name in "abc")
        assert trie.match("c") is c
        assert trie.match("b") is b
        assert trie.match("a") is not a
        assert trie.match("b") is not b

    def test_long_names_and_results_do_not_add_up(self) -> None:
        trie: PatternTrie[int] = PatternTrie(cached_bytes=1_000)
        trie.add("#", 1)
        trie.add("/topic/b", 1)
        small = trie.match("a")
        half = trie.match("h" * 120)
        assert trie.match("h" * 120) is half
        assert trie.match("a") is small
        other = trie.match("o" * 125)
        assert trie.match("o" * 125) is other
        assert trie.match("a") is not small, "the oldest went"
        huge = trie.match("x" * 250)
        assert trie.match("x" * 250) is not huge, "what alone is too much is not kept"
        assert trie.match("a") is trie.match("a")
        for _ in range(100):  # what is forgotten one by one is counted out
            trie.match("/topic/b")
            trie.add("/topic/b", 1)
        assert trie.match("h" * 120) is trie.match("h" * 120)
        for _ in range(100):  # and what is forgotten all at once, too
            trie.match("h" * 120)
            trie.add("#", 1)
        assert trie.match("h" * 120) is trie.match("h" * 120)


class TestNameTree:
    @settings(max_examples=300)
    @given(
        st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), names)),
        st.lists(patterns, min_size=1, max_size=4),
    )
    def test_finds_what_a_list_of_names_finds(self, steps: list[tuple[str, str]], asked: list[str]) -> None:
        tree: NameTree[int] = NameTree()
        model: dict[str, int] = {}
        for number, (step, name) in enumerate(steps):
            if step == "add":
                tree.add(name, number)
                model[name] = number
            else:
                tree.remove(name)
                model.pop(name, None)
        for text in asked:
            assert tree.matching(text) == [value for name, value in model.items() if is_match(text, name)]
        assert len(tree) == len(model)
        assert tree.nodes == nodes_for(tuple(words_of(name)) for name in model)
        for name in model:
            tree.remove(name)
        assert (len(tree), tree.nodes) == (0, 0)


class TestCosts:
    """Counted in calls (`patterns.calls`); a search makes at most this many for a node that a word reaches."""

    A_NODE = 5

    def test_patterns_of_other_words_cost_nothing(self) -> None:
        for name in ["/topic/sensor.3.t", "/topic/other.t"]:
            for pattern in ["/topic/sensor.{}.*", "/topic/*.{}.*", "/topic/sensor.{}.#", "#.{}.t", "{}.#"]:
                few, many = (trie_of(pattern.format(number) for number in range(count)) for count in (10, 1_000))
                assert calls(many.match, name) == calls(few.match, name)
                assert many.match(name) == few.match(name)

    def test_a_name_that_is_remembered_costs_one_look_up(self) -> None:
        trie = trie_of(["/topic/#"])
        trie.match(LONG)
        assert calls(trie.match, LONG) == calls(len, "") + 1  # `match` and `dict.get`

    def test_hostile_patterns_cost_their_words_for_each_word(self) -> None:
        for text in [
            "#.a" * 40,
            "#.a" * 40 + ".b",
            "#" + ".a" * 80,
            "#.*" * 40,
            "#.a" + ".*" * 80,
            "*.#.a.#.*" * 8 + ".b",
        ]:
            name = ".".join("a" * 120)
            trie, tree = trie_of([text]), tree_of([name[: 2 * end + 1] for end in range(120)])
            found = [text] if Pattern(text).matches(name) else []
            assert list(trie.match(name)) == found
            trie.add("#.other", "")  # else it is remembered
            assert calls(trie.match, name) < self.A_NODE * trie.nodes * 121
            assert (name in tree.matching(text)) is bool(found)
            assert calls(tree.matching, text) < 2 * self.A_NODE * tree.nodes * len(Pattern(text).words)

    def test_a_search_ends_with_the_rest_or_with_the_last_word_that_can_match(self) -> None:
        for text in ("/topic/#", "/topic/a.*"):
            assert calls(trie_of([text]).match, LONG) < 50

    def test_very_long_names_are_searched_word_by_word(self) -> None:
        trie = trie_of(["/topic/#.b", "/topic/#.a"])
        assert calls(trie.match, LONG) < self.A_NODE * 4 * 30_001
        assert trie.match(LONG) == ("/topic/#.a",)
        tree = tree_of([LONG, LONG + ".b"])
        assert tree.matching("/topic/#.b") == [LONG + ".b"]
        assert tree.matching("/topic/**/a") == [LONG]
        assert tree.matching("*." * 30_000 + "*") == [LONG]

    def test_names_of_other_words_cost_nothing(self) -> None:
        for text in ["/topic/prices.*", "/topic/prices.#", "/topic/prices.*.x", "/topic/prices.3"]:
            prices = [f"/topic/prices.{number}" for number in range(10)]
            few, many = tree_of(prices), tree_of(prices + [f"/topic/x{number}.y" for number in range(2_000)])
            assert calls(many.matching, text) == calls(few.matching, text)
            assert many.matching(text) == few.matching(text)


def test_names_are_found_one_by_one_while_the_tree_changes() -> None:
    tree: NameTree[int] = NameTree()
    for number in range(9):
        tree.add(f"/topic/{number}", number)
    found = tree.each("/topic/*")
    first = next(found)
    for number in range(9):
        tree.remove(f"/topic/{number}")
    tree.add("/topic/new", 10)
    assert {first, *found} <= set(range(9))
