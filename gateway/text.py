"""Text that clients chose, made visible for an operator on a page or on a terminal.

Characters that a terminal would obey, or that show nothing, become escapes as in Python's literals.
"""

import unicodedata

# Categories that show nothing: control, format, surrogate, unassigned, line and paragraph separator.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Format characters that scripts and emoji need.
_JOINERS = "\u200c\u200d"


def visible(text: str) -> str:
    """The text, with escapes in place of characters that show nothing."""
    if text.isprintable():
        return text
    return "".join([each.encode("unicode_escape").decode("ascii") if _is_unseen(each) else each for each in text])


def _is_unseen(character: str) -> bool:
    return character not in _JOINERS and unicodedata.category(character) in _UNSEEN
