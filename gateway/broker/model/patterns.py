"""Destination names as words, and patterns of them.

    name      = ["/"] word *(separator word)       /topic/a.b/c   -> topic, a, b, c
    separator = "." / "/"                          /topic/a..b    -> topic, a, (empty), b
    pattern   = a name that has a wildcard among its words
    wildcard  = "*"                                exactly one word, which may be empty
              / "#" / ">" / "**"                   the rest: zero or more words, at any place

A wildcard is a whole word: `#general` and `c#` are ordinary words.  So would be `a*`, but in a topic that is a slip:
whoever subscribes to it waits for ever, and no topic has such a name (`check_wildcards`).  Names are opaque otherwise:
what has no wildcard stands for itself alone, so `/topic/a.b` and `/topic/a/b` are two destinations, though `/topic/a.*`
matches both.

A header line may hold 30,000 words.  Reading such a name here costs its length, but a tree of words (`trie`) costs more
memory than the bytes, and hostile patterns make it slow: `check_words` belongs before whatever a client puts in there.
"""

from __future__ import annotations

from ..errors import NotAllowed

ONE = "*"
REST = "#"
"""How `pattern_words` writes all three wildcards of the rest."""

_RESTS = frozenset({REST, ">", "**"})
WILDCARDS = _RESTS | {ONE}

MAX_WORDS = 64
MAX_WILDCARDS = 6
"""Words that a client's topic or pattern may have.  RabbitMQ's routing keys, of 255 bytes, have no more."""


def split(name: str) -> tuple[str, ...]:
    """The words of a name; there is at least one, and each may be empty."""
    return tuple(name.removeprefix("/").replace(".", "/").split("/"))


def has_wildcard(name: str) -> bool:
    """Whether a name is a pattern."""
    # Most names have none of these characters, and then need not be split.
    return ("*" in name or "#" in name or ">" in name) and not WILDCARDS.isdisjoint(split(name))


def pattern_words(text: str) -> tuple[str, ...]:
    """The words of a pattern; a rest is always `REST`, and one beside another is left out: it says nothing more."""
    words: list[str] = []
    for word in split(text):
        if word not in _RESTS:
            words.append(word)
        elif words[-1:] != [REST]:
            words.append(REST)
    return tuple(words)


def check_words(name: str, written: str) -> None:
    """Refuse a name or pattern of more words than may be searched for.

    Args:
        name: the canonical name.
        written: what the client wrote, for the ERROR; so in the checks below.

    Raises:
        NotAllowed: it has more than `MAX_WORDS`.
    """
    words = len(split(name))
    if words > MAX_WORDS:
        raise NotAllowed(
            "too many words in a destination",
            f"{written[:80]!r} goes on for {words} words between dots and slashes, and may have {MAX_WORDS}",
        )


def check_wildcards(name: str, written: str) -> None:
    """Refuse a name or pattern with a `*` inside of a longer word.

    Raises:
        NotAllowed: it has one.
    """
    if "*" not in name:
        return
    for word in split(name):
        if "*" in word and word not in WILDCARDS:
            raise NotAllowed(
                "a wildcard inside of a word",
                f"{written[:80]!r} has one in {word[:40]!r}; it must be a whole word between dots or slashes",
            )


def check_pattern(text: str, written: str) -> None:
    """Refuse a pattern that would make the search for all names slow.

    Raises:
        NotAllowed: it has more than `MAX_WILDCARDS` wildcards, or more than one rest in front of other words.
    """
    if not has_wildcard(text):
        return
    words = pattern_words(text)
    if sum(word in WILDCARDS for word in words) > MAX_WILDCARDS or words[:-1].count(REST) > 1:
        raise NotAllowed(
            "too many wildcards",
            f"{written[:80]!r} may have {MAX_WILDCARDS} words that are wildcards, and one # that is not the last word",
        )


class Pattern:
    """One pattern; a text without wildcards matches itself alone.

    A set of places in the pattern is an integer: bit `i` says that its first `i` words other than rests may have
    matched what was read (the shift-and algorithm).  So each word of a name costs the same few operations, whatever the
    pattern is.

    Attributes:
        text: as it was given.
        words: see `pattern_words`.
    """

    __slots__ = ("_any", "_end", "_masks", "_stay", "text", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = pattern_words(text)
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
        """Whether it matches that name."""
        if not self._any | self._stay:
            return name == self.text
        places = 1
        for word in split(name):
            places = (places & (self._masks.get(word, 0) | self._any)) << 1 | places & self._stay
        return places & self._end != 0

    # the same step by step, for whoever compares patterns; it is for those with wildcards only

    @property
    def named(self) -> tuple[str, ...]:
        """The words that it names."""
        return tuple(self._masks)

    def behind(self, places: int, word: str | None) -> int:
        """The places behind one more word; None: any that it does not name.  The first place is 1."""
        named = 0 if word is None else self._masks.get(word, 0)
        return (places & (named | self._any)) << 1 | places & self._stay

    def ends(self, places: int) -> bool:
        """Whether these are places at which a name that it matches may end."""
        return places & self._end != 0
