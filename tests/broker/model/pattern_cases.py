"""What the tests of `patterns` and `trie` measure by: patterns matched the slow and obvious way, and calls counted.

Costs are counted in calls of functions (Python's and built-in ones), not in time: each step of a search makes at least
one, so a search that walks too far is seen on any machine.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from types import FrameType

from hypothesis import strategies as st

WILDCARDS = ("*", "#", ">", "**")

# Pattern, name, whether they match.
CASES = [
    ("/topic/a.*", "/topic/a.b", True),
    ("/topic/a.*", "/topic/a/b", True),
    ("/topic/a/*", "/topic/a.b", True),
    ("/topic/a.*", "/topic/a", False),
    ("/topic/a.*", "/topic/a.", True),
    ("/topic/a.*", "/topic/a.b.c", False),
    ("/topic/a.*.b", "/topic/a..b", True),
    ("/topic/a.*.b", "/topic/a.b", False),
    ("/*/a", "/topic/a", True),
    ("*", "/topic", True),
    ("*", "/topic/a", False),
    *((f"/topic/a.{rest}", "/topic/a", True) for rest in WILDCARDS[1:]),
    *((f"/topic/a.{rest}", "/topic/a.b/c", True) for rest in WILDCARDS[1:]),
    ("/topic/a.#", "/topic/ab", False),
    ("/topic/a.#.b", "/topic/a.b", True),
    ("/topic/a.#.b", "/topic/a.x.y.b", True),
    ("/topic/a.#.b", "/topic/a.b.c", False),
    ("/topic/a.#.b", "/topic/a.b.b.c.b", True),
    ("/topic/#.*", "/topic", False),
    ("/topic/#.*", "/topic/a.b", True),
    ("/topic/#.>.**", "/topic", True),
    ("#", "", True),
    ("#.a.b.#.b", "a.b", False),
    ("#.a.b.#.b", "a.a.b.b", True),
    ("/topic/A.*", "/topic/a.b", False),
    ("/topic/*", "/topic/*", True),
    ("/topic/*.a", "/topic/#.a", True),
    ("/topic/a*.#", "/topic/ab", False),
    # without a wildcard a name is opaque
    ("/topic/a.b", "/topic/a.b", True),
    ("/topic/a.b", "/topic/a/b", False),
    ("/topic/a*", "/topic/ab", False),
]

# Few words, so that names match; some look like wildcards, and a name may have true ones as words, too.
_ORDINARY = ("a", "b", "", "a*", "##")


def words_of(name: str) -> list[str]:
    return re.split("[./]", re.sub("^/", "", name))


def _texts(words: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda slash, first, more: slash + first + "".join(more),
        st.sampled_from(["/", ""]),
        st.sampled_from(words),
        st.lists(st.builds(str.__add__, st.sampled_from("./"), st.sampled_from(words)), max_size=6),
    )


names = _texts(_ORDINARY + WILDCARDS)
# Mostly wildcards, and texts without any are patterns, too.
patterns = _texts(WILDCARDS + WILDCARDS + _ORDINARY) | _texts(_ORDINARY)


def is_match(pattern: str, name: str) -> bool:
    """Whether a pattern matches, tried in every way that there is."""
    words = words_of(pattern)
    return _try(words, words_of(name)) if set(words) & set(WILDCARDS) else pattern == name


def _try(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    first, more = pattern[0], pattern[1:]
    if first in WILDCARDS[1:]:
        return any(_try(more, words[count:]) for count in range(len(words) + 1))
    return bool(words) and first in ("*", words[0]) and _try(more, words[1:])


def calls(act: Callable[..., object], *arguments: object) -> int:
    """Number of calls that it makes, all in all."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # a collection has callbacks, and would be counted
    sys.setprofile(profile)
    try:
        act(*arguments)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
