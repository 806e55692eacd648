"""Templates: destinations with fields, which are the arguments of a function.

    template = "/app/" word *(separator word)
    word     = field / literal
    field    = "{" identifier "}"

A field is exactly one word of the name, and not an empty one.  Words and separators are those of patterns
(`broker.model.patterns`): `/app/greet/{name}` matches `/app/greet.bob`, too, and never `/app/greet/a.b`.  A template
without fields is one exact name.
"""

from __future__ import annotations

from gateway.broker.model.destinations import APP
from gateway.broker.model.patterns import MAX_WORDS, ONE, WILDCARDS, split


class Template:
    """One destination of a function.

    `shape`: the words of the pattern; templates of one shape match the same names.  Raises ValueError: it is no
    template; `str()` is a sentence.
    """

    __slots__ = ("_words", "fields", "pattern", "shape", "text")

    def __init__(self, text: str) -> None:
        self.text = text  # as the operator wrote it
        words = split(text)
        _check(text, words)
        self._words = tuple(_field(word) for word in words)
        self.fields = tuple(field for field in self._words if field)  # names of the fields, in order
        self.shape = tuple(ONE if field else word for word, field in zip(words, self._words, strict=True))
        self.pattern = "/" + "/".join(self.shape)  # the text with a wildcard for each field, for a trie of patterns
        if len(set(self.fields)) < len(self.fields):
            raise ValueError(f"{text!r} has two fields of one name")

    def values(self, name: str) -> dict[str, str]:
        """The fields' values in a name that the pattern matches."""
        return {field: word for field, word in zip(self._words, split(name), strict=True) if field}

    @property
    def places(self) -> tuple[bool, ...]:
        """The places of its fields.  Of templates that match one name, the least has the first literal word."""
        return tuple(bool(field) for field in self._words)


def _check(text: str, words: tuple[str, ...]) -> None:
    if not text.startswith(APP) or text == APP:
        raise ValueError(f"functions are for destinations like {APP}NAME, not for {text!r}")
    if "," in text:
        raise ValueError(f"{text!r} has a comma, which separates destinations")
    if not WILDCARDS.isdisjoint(words):
        raise ValueError(f"{text!r} has a wildcard; a field in braces, like {{name}}, stands for one word")
    if len(words) > MAX_WORDS:
        raise ValueError(f"{text[:80]!r} has {len(words)} words, and may have {MAX_WORDS}")


def _field(word: str) -> str:
    """The name of the field in a word; empty: the word is a literal.  Raises ValueError: its braces are no field."""
    if "{" not in word and "}" not in word:
        return ""
    field = word[1:-1]
    if word != f"{{{field}}}" or not field.isidentifier():
        raise ValueError(f"{word!r} is no field: write a Python name in braces as a whole word")
    return field
