"""How the pattern of a rule stands to the pattern that a client subscribes to: does it take all of it, or nothing?

Both are sequences of words, in which `*` is any word and `#` any number of them.  There are more words than any pattern
names, so one stands for all others.  A pattern without wildcards is a text, to the letter: `/topic/a.b`
takes only a part of what `/topic/a.*` matches, for that is `/topic/a/b`, too.

`overlap` is exact.  `covers` may say no where yes is right, when it would have to look at too many places: whoever asks
looks at each message then.
"""

from __future__ import annotations

from gateway.broker.model.patterns import ONE, REST, WILDCARDS, Pattern, has_wildcard, pattern_words, split

# Places that `covers` looks at; what clients and operators write has a few dozen.
_MOST_PLACES = 2_000


def heads_differ(text: str, other: str) -> bool:
    """Whether two patterns begin with different words, so that nothing can match both; most do."""
    for word, others in zip(split(text), split(other), strict=False):
        if word in WILDCARDS or others in WILDCARDS:
            return False
        if word != others:
            return True
    return False


def overlap(text: str, pattern: str) -> bool:
    """Whether some name is matched by both.

    Args:
        pattern: it has a wildcard.
    """
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


def covers(text: str, pattern: str) -> bool:
    """Whether all names that the pattern matches are matched by the text.

    Args:
        pattern: it has a wildcard.
    """
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
        if len(seen) > _MOST_PLACES:
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
