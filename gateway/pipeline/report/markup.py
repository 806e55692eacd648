"""HTML and SVG elements, where text cannot become markup.

`element` escapes every child and every attribute that is not `Markup` itself, so whatever a client chose (names of
destinations, reasons, headers) stays text.  Nothing else in this package makes angle brackets.

Escaped text also shows what would be invisible: control characters, direction overrides, lone surrogates and the like
are written as in Python's literals (`\\x00`, `\\u202e`), so that no name can look like another one or turn around the
text beside it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from gateway.text import visible


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """The text as HTML, for content and for attributes in quotes."""
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text)))


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element.

    Args:
        children: text, or `Markup` that stays as it is.
        attributes: `None` leaves one out, an empty text leaves its value out.  `class_` is written `class`, and other
            underscores become hyphens.
    """
    opening = "".join([_attribute(key, value) for key, value in attributes.items() if value is not None])
    if name in _VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{''.join([escape(child) for child in children])}</{name}>")


_VOID = frozenset({"meta", "link"})


def _attribute(key: str, value: str | float) -> str:
    name = key.rstrip("_").replace("_", "-")
    text = value if isinstance(value, str) else number(value)
    return f" {name}" if text == "" else f' {name}="{escape(text)}"'


def number(value: float) -> str:
    """As short as it is exact to a thousandth."""
    return str(value) if isinstance(value, int) else f"{value:.3f}".rstrip("0").rstrip(".")


def join(parts: Iterable[str]) -> Markup:
    """One after the other."""
    return Markup("".join([escape(part) for part in parts]))
