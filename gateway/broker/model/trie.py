"""Trie of destination names and patterns.

`PatternTrie` finds the patterns that match a name: the subscriptions to the topic of a SEND.  `NameTree` finds the
names that match a pattern: the retained messages for a SUBSCRIBE.  Both keep a tree of words, one edge for each:

    /topic/a.*      root --topic--> . --a--> . --*--> (entry)
    /topic/a.#.b                              '--#--> . --b--> (entry)

A search costs at most its words times the nodes that it reaches, and it reaches only nodes whose words above them
match.

Known weakness: a word costs some 300 bytes, and patterns like `#.a.*.*.*` make each search reach many nodes.
`patterns.check_words` and `check_pattern` bound both.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

from .patterns import ONE, REST, WILDCARDS, has_wildcard, pattern_words, split

T = TypeVar("T")

CACHED_NAMES = 10_000
# Bytes of cached names and results: a name may fill a header line, and a result may hold all patterns.
CACHED_BYTES = 16 * 1024 * 1024


class _Entry(Generic[T]):
    """A value in a tree; serials give the order of insertion."""

    __slots__ = ("serial", "value")

    def __init__(self, serial: int, value: T) -> None:
        self.serial = serial
        self.value = value


class _Node(Generic[T]):
    """A node of a tree: the texts of its entries, and of all below, begin with the words on the path to it."""

    __slots__ = ("children", "entries")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        # A tuple, because the empty one costs nothing.  Few texts have equal words.
        self.entries: tuple[_Entry[T], ...] = ()


class _Tree(Generic[T]):
    """Texts with values, and the tree of their words."""

    def __init__(self) -> None:
        self.nodes = 0  # the number of nodes below the root
        self._root: _Node[T] = _Node()
        self._entries: dict[str, _Entry[T]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, text: str) -> T | None:
        """Value of exactly that text."""
        entry = self._entries.get(text)
        return None if entry is None else entry.value

    def values(self) -> Iterator[T]:
        """All values, in the order of insertion."""
        return (entry.value for entry in self._entries.values())

    def _put(self, text: str, words: Sequence[str], value: T) -> None:
        """Store or replace the value of a text; a text without words is not put into the tree."""
        entry = self._entries.get(text)
        if entry is not None:
            entry.value = value
            return
        self._serial += 1
        entry = self._entries[text] = _Entry(self._serial, value)
        if not words:
            return
        node = self._root
        for word in words:
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node()
                self.nodes += 1
            node = child
        node.entries += (entry,)

    def _take(self, text: str, words: Sequence[str]) -> None:
        """Remove a stored text, and the nodes that no other text needs."""
        entry = self._entries.pop(text)
        if not words:
            return
        path = [self._root]
        for word in words:
            path.append(path[-1].children[word])
        node = path.pop()
        node.entries = tuple(each for each in node.entries if each is not entry)
        # From the leaf to the root, up to the first node that another text needs.
        for word in reversed(words):
            if node.children or node.entries:
                break
            node = path.pop()
            del node.children[word]
            self.nodes -= 1


class PatternTrie(_Tree[T]):
    """Patterns with values, found by the names that they match.

    Texts without wildcards may be stored as well; they are not in the tree.

    `cached_names`: cached names at most; the oldest are dropped first.  `cached_bytes`: bytes of cached names and
    results at most.
    """

    def __init__(self, cached_names: int = CACHED_NAMES, cached_bytes: int = CACHED_BYTES) -> None:
        super().__init__()
        # Names are sent to again and again, so that most searches are one look-up.
        self._cache: dict[str, tuple[T, ...]] = {}
        self._bytes = 0
        self._max_names = cached_names
        self._max_bytes = cached_bytes

    def add(self, text: str, value: T) -> None:
        """Store or replace the value of a pattern."""
        self._put(text, self._prepare(text), value)

    def remove(self, text: str) -> None:
        """Remove a pattern, if it is stored."""
        if text in self._entries:
            self._take(text, self._prepare(text))

    def match(self, name: str) -> tuple[T, ...]:
        """Values of all patterns that match a name, each once, in the order of insertion."""
        found = self._cache.get(name)
        return self._learn(name) if found is None else found

    def known(self, name: str) -> bool:
        """True if the result for a name is cached."""
        return name in self._cache

    def _prepare(self, text: str) -> Sequence[str]:
        """Drop from the cache the results that a change of this pattern makes wrong; its words in the tree."""
        # Which cached names it matches is known only by matching each; the next searches fill the cache again.
        if has_wildcard(text):
            self._cache.clear()
            self._bytes = 0
            return pattern_words(text)
        if text in self._cache:
            self._forget(text)
        return ()

    def _learn(self, name: str) -> tuple[T, ...]:
        found = self._cache[name] = tuple(entry.value for entry in self._search(name))
        self._bytes += _cost(name, found)
        while len(self._cache) > self._max_names or self._bytes > self._max_bytes:
            self._forget(next(iter(self._cache)))
        return found

    def _forget(self, name: str) -> None:
        self._bytes -= _cost(name, self._cache.pop(name))

    def _search(self, name: str) -> list[_Entry[T]]:
        """Matching entries, in the order of insertion."""
        found: list[_Entry[T]] = []
        reached = [self._root]
        # A rest matches all further words: once reached, it stays to the end and is not entered again.
        rests: set[_Node[T]] = set()
        going_on: list[_Node[T]] = []  # rests that are followed by words
        words = iter(split(name))
        # All branches at once, one word after the other: without recursion, because a name may have as many words as a
        # header line has bytes, and without backtracking, which is exponential.
        while reached or going_on:
            for node in reached:
                rest = node.children.get(REST)
                if rest is not None and rest not in rests:
                    rests.add(rest)
                    found += rest.entries
                    if rest.children:
                        going_on.append(rest)
            word = next(words, None)
            if word is None:
                break
            # In a name the character of a wildcard is a word like others, and one that only `*` can match.
            edges = (ONE,) if word in WILDCARDS else (word, ONE)
            before, reached = reached + going_on, []
            for node in before:
                children = node.children
                reached += [children[edge] for edge in edges if edge in children]
        for node in reached:
            found += node.entries
        if name in self._entries and not has_wildcard(name):
            found.append(self._entries[name])
        return _in_order(found)


class NameTree(_Tree[T]):
    """Names with values, found by patterns that match them."""

    def add(self, name: str, value: T) -> None:
        """Store or replace the value of a name."""
        self._put(name, split(name), value)

    def remove(self, name: str) -> None:
        """Remove a name, if it is stored."""
        if name in self._entries:
            self._take(name, split(name))

    def each(self, text: str) -> Iterator[T]:
        """Values of all names that a pattern matches, in no order; those that come meanwhile may be left out."""
        return (entry.value for entry in self._search(text))

    def matching(self, text: str) -> list[T]:
        """Values of all names that a pattern matches, in the order of insertion."""
        return [entry.value for entry in _in_order(list(self._search(text)))]

    def _search(self, text: str) -> Iterator[_Entry[T]]:
        if not has_wildcard(text):
            yield from [self._entries[text]] if text in self._entries else []
            return
        words = pattern_words(text)
        pending = [(self._root, 0)]
        seen: set[tuple[int, int]] = set()
        while pending:
            node, place = pending.pop()
            # Several rests lead to one node in many ways; each is followed once.
            if (id(node), place) in seen:
                continue
            seen.add((id(node), place))
            if place == len(words):
                yield from node.entries
            elif words[place] == REST:
                pending.append((node, place + 1))
                pending += [(child, place) for child in node.children.values()]
            elif words[place] == ONE:
                pending += [(child, place + 1) for child in node.children.values()]
            elif (child := node.children.get(words[place])) is not None:
                pending.append((child, place + 1))


def _in_order(entries: list[_Entry[T]]) -> list[_Entry[T]]:
    entries.sort(key=attrgetter("serial"))
    return entries


def _cost(name: str, found: tuple[object, ...]) -> int:
    """Bytes of a name and its result, at most; the overhead of Python is bounded by `cached_names`."""
    return 4 * len(name) + 8 * len(found)
