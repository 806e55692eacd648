"""Destinations with fields: which names a function is for, and what it is called with.

    template = "/app/" word *(separator word)
    word     = field / literal
    field    = "{" identifier "}"

A field is exactly one word of the name, and not an empty one.  Words and separators are those of patterns
(`broker.model.patterns`): so `/app/greet/{name}` is for `/app/greet.bob`, too, and never for `/app/greet/a.b`.  A
template without fields is one name, to the letter.
"""

from __future__ import annotations

from gateway.broker.model.destinations import APP
from gateway.broker.model.patterns import MAX_WORDS, ONE, WILDCARDS, split


class Template:
    """One destination of a function.

    Attributes:
        text: as the operator wrote it.
        fields: names of the fields, in order.
        pattern: the same with a wildcard for each field, for a trie of patterns.
        shape: the words of that; templates of one shape are for the same names.

    Raises:
        ValueError: it is no template; `str()` is a sentence.
    """

    __slots__ = ("_words", "fields", "pattern", "shape", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        words = split(text)
        _check(text, words)
        self._words = tuple(_field(word) for word in words)
        self.fields = tuple(field for field in self._words if field)
        self.shape = tuple(ONE if field else word for word, field in zip(words, self._words, strict=True))
        self.pattern = "/" + "/".join(self.shape)
        if len(set(self.fields)) < len(self.fields):
            raise ValueError(f"{text!r} has two fields of one name")

    def values(self, name: str) -> dict[str, str]:
        """The fields' values in a name that the pattern matches."""
        return {field: word for field, word in zip(self._words, split(name), strict=True) if field}

    @property
    def places(self) -> tuple[bool, ...]:
        """Where its fields are.  Of templates that match one name, the least is the one that says more at the start."""
        return tuple(bool(field) for field in self._words)


def _check(text: str, words: tuple[str, ...]) -> None:
    if not text.startswith(APP) or text == APP:
        raise ValueError(f"functions are for destinations like {APP}NAME, not for {text!r}")
    if "," in text:
        raise ValueError(f"{text!r} has a comma, which stands between two destinations")
    if not WILDCARDS.isdisjoint(words):
        raise ValueError(f"{text!r} has a wildcard; a field in braces, like {{name}}, stands for one word")
    if len(words) > MAX_WORDS:
        raise ValueError(f"{text[:80]!r} goes on for {len(words)} words, and may have {MAX_WORDS}")


def _field(word: str) -> str:
    """The name of the field that a word is; empty: it is none.

    Raises:
        ValueError: braces that make no field.
    """
    if "{" not in word and "}" not in word:
        return ""
    field = word[1:-1]
    if word != f"{{{field}}}" or not field.isidentifier():
        raise ValueError(f"{word!r} is no field: braces stand around a whole word, which is a name of Python")
    return field
