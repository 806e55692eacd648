"""What the sections of the page are made of.

Each figure carries its exact value for programs: an element with `data-figure` (what it is) and `data-value` (a plain
number; microseconds, octets or a count).  Inside a table the row says what it belongs to (`data-destination`,
`data-time` and the like).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from . import values
from .markup import Markup, element, number

LONGEST = 160
"""Characters shown of a text that a client chose."""


def clipped(text: str, most: int = LONGEST) -> str:
    """Its beginning, when it is too long to be shown."""
    return text if len(text) <= most else f"{text[:most]}…"


def name(text: str | None) -> Markup:
    """A text that a client chose: set apart, so that its direction ends with it."""
    return element("bdi", clipped(text), class_="name") if text else Markup(values.NONE)


def section(key: str, title: str, *content: str, class_: str | None = None) -> Markup:
    """A card with a heading; `key` is its id."""
    heading = f"{key}-heading"
    return element(
        "section", element("h2", title, id=heading), *content, id=key, class_=class_, aria_labelledby=heading
    )


def quiet(*content: str) -> Markup:
    """A remark."""
    return element("p", *content, class_="quiet")


def headline(key: str, label: str, value: float | None, text: str, remark: str = "") -> Markup:
    """A figure with its name above and a remark below."""
    figure = element("dd", text, data_figure=key, data_value="none" if value is None else number(value))
    return element("div", element("dt", label), figure, *([element("dd", remark)] if remark else []))


def headlines(figures: Sequence[Markup], kind: str = "") -> Markup:
    """Figures beside each other; `small` ones, or `three` that always are in one line."""
    return element("dl", *figures, class_=f"figures {kind}".strip())


def counted(key: str, label: str, value: int) -> Markup:
    """A cell with a count."""
    return cell(key, label, value, values.count(value))


def took(key: str, label: str, us: float | None) -> Markup:
    """A cell with a latency."""
    return cell(key, label, us, values.latency(us))


def cell(key: str, label: str, value: float | None, text: str) -> Markup:
    """A cell with a figure."""
    return element(
        "td",
        text,
        class_="number" if value else "number zero",
        role="cell",
        data_label=label,
        data_figure=key,
        data_value="none" if value is None else number(value),
    )


def said(label: str, *content: str, full: bool = False) -> Markup:
    """A cell with words; on a phone a full one has a line for itself."""
    return element("td", *content, role="cell", data_label=label, class_="full" if full else None)


def timed(label: str, when: datetime | None, otherwise: str = values.NONE) -> Markup:
    """A cell with a moment."""
    told = element("time", values.moment(when.replace(microsecond=0)), datetime=values.iso(when)) if when else otherwise
    return element("td", told, role="cell", class_="time", data_label=label)


def head(*content: str) -> Markup:
    """The cell that a row is named by."""
    return element("th", *content, scope="row", role="rowheader")


def row(*cells: str, **data: str | float | None) -> Markup:
    """A row; what it belongs to as `data_...`."""
    return element("tr", *cells, role="row", **data)


def table(caption: str, columns: Sequence[str], rows: Sequence[Markup], *, cards: bool = False) -> Markup:
    """A table, whose columns are numbers where their name begins with `#`.

    Args:
        caption: read aloud, not shown: the heading above says it.
        cards: on a phone each row is a card.  The roles are written out, since such a style takes them away.
    """
    heads = [
        element(
            "th",
            column.removeprefix("#"),
            scope="col",
            role="columnheader",
            class_="number" if column.startswith("#") else None,
        )
        for column in columns
    ]
    return element(
        "table",
        element("thead", element("tr", *heads, role="row"), role="rowgroup"),
        element("tbody", *rows, role="rowgroup"),
        role="table",
        aria_label=caption,
        class_="cards" if cards else None,
    )


def behind(key: str, summary: str, content: Markup) -> Markup:
    """A table behind a chart, opened by a click; long ones scroll in their place."""
    place = element("div", content, class_="scroll", role="region", tabindex=0, aria_label=summary)
    return element("details", element("summary", summary), place, id=key)
