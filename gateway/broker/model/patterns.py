"""Patterns of destination names, and names as words.

    name      = ["/"] word *(separator word)       /topic/a.b/c   -> topic, a, b, c
    separator = "." / "/"                          /topic/a..b    -> topic, a, (empty), b
    pattern   = a name that has a wildcard among its words
    wildcard  = "*"                                exactly one word, which may be empty
              / "#" / ">" / "**"                   the rest: zero or more words, at any place

A wildcard is a whole word: `#general` and `c#` are ordinary words.  Topics refuse `a*` (`check_wildcards`): its
subscriber surely wants a pattern, and would wait for ever.  A name without wildcards stands for itself alone, so
`/topic/a.b` and `/topic/a/b` are two destinations, though `/topic/a.*` matches both.
"""

from ..errors import NotAllowed

ONE = "*"
REST = "#"
"""Word for all three wildcards of the rest, in `pattern_words`."""

_RESTS = frozenset({REST, ">", "**"})
WILDCARDS = _RESTS | {ONE}

MAX_WORDS = 64
MAX_WILDCARDS = 6
"""Words and wildcards of a client's topic or pattern at most.  RabbitMQ's routing keys, of 255 bytes, have no more."""


def split(name: str) -> tuple[str, ...]:
    """Words of a name; there is at least one, and each may be empty."""
    return tuple(name.removeprefix("/").replace(".", "/").split("/"))


def has_wildcard(name: str) -> bool:
    """True if a name is a pattern."""
    # Most names have none of these characters, and then need not be split.
    return ("*" in name or "#" in name or ">" in name) and not WILDCARDS.isdisjoint(split(name))


def pattern_words(text: str) -> tuple[str, ...]:
    """Words of a pattern; each rest is `REST`, and of several side by side one remains, for they match alike."""
    words: list[str] = []
    for word in split(text):
        if word not in _RESTS:
            words.append(word)
        elif words[-1:] != [REST]:
            words.append(REST)
    return tuple(words)


def check_words(name: str, written: str) -> None:
    """Raise NotAllowed if a name has more than `MAX_WORDS` words.  `written`: the name as the client wrote it."""
    # A header line has room for 30,000 words; a tree of words (`trie`) needs some 300 bytes for each.
    words = len(split(name))
    if words > MAX_WORDS:
        raise NotAllowed(
            "too many words in a destination",
            f"{written[:80]!r} has {words} words between dots and slashes; at most {MAX_WORDS} are allowed",
        )


def check_wildcards(name: str, written: str) -> None:
    """Refuse a name or pattern with a `*` inside of a longer word.  Raises NotAllowed: a word has one."""
    if "*" not in name:
        return
    for word in split(name):
        if "*" in word and word not in WILDCARDS:
            raise NotAllowed(
                "a wildcard inside of a word",
                f"{written[:80]!r} has one in {word[:40]!r}; make it a whole word between dots or slashes",
            )


def check_pattern(text: str, written: str) -> None:
    """Raise NotAllowed if a pattern has more than `MAX_WILDCARDS`, or more than one rest before other words."""
    if not has_wildcard(text):
        return
    words = pattern_words(text)
    if sum(word in WILDCARDS for word in words) > MAX_WILDCARDS or words[:-1].count(REST) > 1:
        raise NotAllowed(
            "too many wildcards",
            f"{written[:80]!r} may have at most {MAX_WILDCARDS} wildcards, and one # before other words",
        )


class Pattern:
    """One pattern; a text without wildcards matches itself alone.

    A set of places in the pattern is an integer: bit `i` means that its first `i` words other than rests may have
    matched the words read so far (the shift-and algorithm).
    """

    __slots__ = ("_any", "_end", "_masks", "_stay", "text", "words")

    def __init__(self, text: str) -> None:
        self.text = text  # the text of the pattern
        self.words = pattern_words(text)  # its words, as `pattern_words` has them
        self._masks: dict[str, int] = {}  # word -> the places before it
        self._any = 0  # the places before `*`
        self._stay = 0  # the places of rests
        place = 1
        for word in self.words:
            if word == REST:
                self._stay |= place
                continue
            if word == ONE:
                self._any |= place
            else:
                self._masks[word] = self._masks.get(word, 0) | place
            place <<= 1
        self._end = place

    def matches(self, name: str) -> bool:
        """True if the pattern matches that name."""
        # Without wildcards the separators count: `/topic/a.b` and `/topic/a/b` are two destinations.
        if not self._any | self._stay:
            return name == self.text
        places = 1
        # All places at once: each word costs the same few operations, whatever the pattern is.
        for word in split(name):
            places = (places & (self._masks.get(word, 0) | self._any)) << 1 | places & self._stay
        return places & self._end != 0

    # Matching step by step, to compare patterns that have wildcards.

    @property
    def named(self) -> tuple[str, ...]:
        """Words of the pattern that are no wildcards."""
        return tuple(self._masks)

    def behind(self, places: int, word: str | None) -> int:
        """Places after one more word; None: any word that the pattern does not name.  The first place is 1."""
        named = 0 if word is None else self._masks.get(word, 0)
        return (places & (named | self._any)) << 1 | places & self._stay

    def ends(self, places: int) -> bool:
        """True if a matching name may end at one of these places."""
        return places & self._end != 0


def overlap(text: str, pattern: str) -> bool:
    """True if some name matches both.  `pattern`: it has a wildcard."""
    if not has_wildcard(text):
        return Pattern(pattern).matches(text)
    left, right = pattern_words(text), pattern_words(pattern)
    pending, seen = [(0, 0)], {(0, 0)}
    while pending:
        at, to = pending.pop()
        if at == len(left) and to == len(right):
            return True
        new = []
        word = left[at] if at < len(left) else None
        other = right[to] if to < len(right) else None
        if word == REST:
            new.append((at + 1, to))
            if other is not None:
                new.append((at, to + 1))
        elif other == REST:
            new.append((at, to + 1))
            if word is not None:
                new.append((at + 1, to))
        elif word is not None and other is not None and (word == other or ONE in (word, other)):
            new.append((at + 1, to + 1))
        pending += [each for each in new if each not in seen]
        seen.update(new)
    return False
