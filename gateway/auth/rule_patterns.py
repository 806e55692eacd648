"""Rule patterns compared with the pattern of a SUBSCRIBE: does a rule take all of it, or nothing?

Both are sequences of words, in which `*` is any word and `#` any number of words.  Words that no pattern names are all
alike, so one word stands for them.  A pattern without wildcards is one exact name: `/topic/a.b` takes only a part of
`/topic/a.*`, which also matches `/topic/a/b`.

`covers` gives up, and says no, when it would have to look at too many places; `overlap` of `patterns` is exact.
"""

from __future__ import annotations

from gateway.broker.model.patterns import ONE, REST, WILDCARDS, Pattern, has_wildcard, pattern_words, split

MAX_PLACES = 2_000  # places that `covers` looks at; the patterns of clients and operators have a few dozen


def heads_differ(text: str, other: str) -> bool:
    """True if two patterns begin with different words, so that no name can match both; most do."""
    for word, others in zip(split(text), split(other), strict=False):
        if word in WILDCARDS or others in WILDCARDS:
            return False
        if word != others:
            return True
    return False


def covers(text: str, pattern: str, max_places: int = MAX_PLACES) -> bool:
    """True if the text matches all names that the pattern matches.  `pattern`: it has a wildcard."""
    if not has_wildcard(text):
        return False
    words = pattern_words(pattern)
    general = Pattern(text)
    every = (*general.named, None)
    # A place in the pattern, and all places in the text that the words before it may have led to.
    pending = [(0, 1)]
    seen = set(pending)
    while pending:
        at, reached = pending.pop()
        if at == len(words):
            if not general.ends(reached):
                return False
            continue
        if len(seen) > max_places:
            return False
        word = words[at]
        if word == REST:
            new = [(at + 1, reached), *[(at, general.behind(reached, each)) for each in every]]
        elif word == ONE:
            new = [(at + 1, general.behind(reached, each)) for each in every]
        else:
            new = [(at + 1, general.behind(reached, word))]
        pending += [each for each in new if each not in seen]
        seen.update(new)
    return True
