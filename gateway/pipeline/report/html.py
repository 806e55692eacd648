"""HTML and SVG elements in which text cannot become markup, and the cells and tables of the page.

`element` escapes each child and each attribute that is not `Markup` itself, so a text that a client chose stays text.
Escaped text also shows characters that would be invisible (`\\x00`, `\\u202e`).

Each figure carries its exact value for programs: `data-figure` names it, `data-value` is a plain number (microseconds,
bytes or a count).  The row of a table says what it belongs to (`data-destination`, `data-time` and the like).
"""

import html
from collections.abc import Iterable, Sequence
from datetime import datetime

from gateway.text import visible

from . import formats

LONGEST = 160  # characters shown of a text that a client chose
_VOID = frozenset({"meta", "link"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """The text as HTML, for content and for attributes in quotes."""
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text)))


def element(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """An element; `children` are text, or `Markup` that stays as it is; `class_` is written `class`.

    `None` leaves an attribute out, an empty text leaves its value out; other underscores become hyphens.
    """
    opening = "".join([_attribute(key, value) for key, value in attributes.items() if value is not None])
    if name in _VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{join(children)}</{name}>")


def _attribute(key: str, value: str | float) -> str:
    name = key.rstrip("_").replace("_", "-")
    text = value if isinstance(value, str) else number(value)
    return f" {name}" if text == "" else f' {name}="{escape(text)}"'


def number(value: float) -> str:
    """A number, exact to a thousandth and as short as possible."""
    return str(value) if isinstance(value, int) else f"{value:.3f}".rstrip("0").rstrip(".")


def join(parts: Iterable[str]) -> Markup:
    return Markup("".join([escape(part) for part in parts]))


# texts


def clipped(text: str, most: int = LONGEST) -> str:
    """The beginning of a text that is too long to be shown."""
    return text if len(text) <= most else f"{text[:most]}…"


def name(text: str | None) -> Markup:
    """A text that a client chose: set apart, so that its direction ends with it."""
    return element("bdi", clipped(text), class_="name") if text else Markup(formats.NONE)


def quiet(*content: str) -> Markup:
    return element("p", *content, class_="quiet")


def section(key: str, title: str, *content: str, class_: str | None = None) -> Markup:
    """A card with a heading; `key` is its id."""
    heading = element("h2", title, id=f"{key}-heading")
    return element("section", heading, *content, id=key, class_=class_, aria_labelledby=f"{key}-heading")


# figures


def headline(key: str, label: str, value: float | None, text: str, remark: str = "") -> Markup:
    """A figure with its name above and a remark below."""
    figure = element("dd", text, **_figure(key, value))
    return element("div", element("dt", label), figure, *([element("dd", remark)] if remark else []))


def headlines(figures: Sequence[Markup], kind: str = "") -> Markup:
    """Figures beside each other; `small` ones, or `three` that always are in one line."""
    return element("dl", *figures, class_=f"figures {kind}".strip())


def cell(key: str, label: str, value: float | None, text: str) -> Markup:
    class_ = "number" if value else "number zero"
    return element("td", text, class_=class_, role="cell", data_label=label, **_figure(key, value))


def counted(key: str, label: str, value: int) -> Markup:
    return cell(key, label, value, formats.count(value))


def took(key: str, label: str, us: float | None) -> Markup:
    return cell(key, label, us, formats.latency(us))


def said(label: str, *content: str, full: bool = False) -> Markup:
    """A cell with words; on a phone a full one has a line for itself."""
    return element("td", *content, role="cell", data_label=label, class_="full" if full else None)


def timed(label: str, when: datetime | None, otherwise: str = formats.NONE) -> Markup:
    """A cell with a moment, to the second."""
    text = formats.moment(when.replace(microsecond=0)) if when else ""
    told = element("time", text, datetime=formats.iso(when)) if when else otherwise
    return element("td", told, role="cell", class_="time", data_label=label)


def _figure(key: str, value: float | None) -> dict[str, str]:
    return {"data_figure": key, "data_value": "none" if value is None else number(value)}


# tables


def head(*content: str) -> Markup:
    return element("th", *content, scope="row", role="rowheader")


def row(*cells: str, **data: str | float | None) -> Markup:
    """A row; `data_...` says what it belongs to."""
    return element("tr", *cells, role="row", **data)


def table(caption: str, columns: Sequence[str], rows: Sequence[Markup], *, cards: bool = False) -> Markup:
    """A table; a column whose name begins with `#` has numbers.  `caption` is read aloud, not shown.

    With `cards` each row is a card on a phone; the roles are written out, since such a style takes them away.
    """
    heads = [
        element("th", column.lstrip("#"), scope="col", role="columnheader", class_="number" if "#" in column else None)
        for column in columns
    ]
    headings = element("thead", element("tr", *heads, role="row"), role="rowgroup")
    body = element("tbody", *rows, role="rowgroup")
    return element("table", headings, body, role="table", aria_label=caption, class_="cards" if cards else None)


def behind(key: str, summary: str, content: Markup) -> Markup:
    """A table behind a chart, opened by a click; a long one scrolls in its place."""
    place = element("div", content, class_="scroll", role="region", tabindex=0, aria_label=summary)
    return element("details", element("summary", summary), place, id=key)
