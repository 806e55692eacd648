"""The headers that the gateway knows as text: the reference page.

    python -m gateway.dictionary_reference > docs/headers.md

Everything comes from the one table in `gateway/broker/headers`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from gateway.broker.headers.row import OTHER_WORDS, HeaderRow, Spelling, Treatment
from gateway.broker.headers.table import TABLE

HEAD = """\
# Headers

Written by `make docs` from `gateway/broker/headers`; change them there.

Clients that were written for RabbitMQ, ActiveMQ, Artemis, Apollo or Spring say the same things by other names and in
other units. The gateway reads them all. Each header has one canonical name; the others are its aliases, each with the
unit that it has at the broker it comes from. **Where a frame has several names of one header, the first in the order of
these tables counts**: the canonical name before its aliases.

What becomes of a header:

| Fate | What it means |
| --- | --- |
| honoured | The gateway does what it says. A value that is not among those in the table is an ERROR that names them. |
| passed on | The gateway has no business with it. Subscribers get it as it is. |
| refused | The gateway knows what it asks, and does not do that: an ERROR says so. Values that ask for nothing pass. |
| without effect | It asks for something that makes no difference here, on purpose; the table says why. |

A header that is not on this page is the user's own: subscribers get that of a SEND as it is, and on other frames it
means nothing. **Letter case counts in names**, and so does every hyphen: a SEND's `X-Delay`, `Priority` or `Expires` is
the user's own header, which delays and orders nothing, and so is `delay` or `x-ttl`. Only 1.0 reads STOMP's standard
headers in any case. Numbers are written in the digits 0 to 9, without spaces, points or a plus. `true`, `false`, `set`
and `remove` may have capital letters.
"""

_SLIPS = (
    "Other headers of a SUBSCRIBE have no effect and are no ERROR. A name that would be one of these but for capitals, "
    f"`-` or `_`, or that is {' or '.join(f'`{word}`' for word in OTHER_WORDS)}, is a line of the log that tells the "
    "right one, unless the frame has that, too."
)

_COLUMNS = ("Header", "Values", "Also read", "Fate", "Meaning")
_OF_SEND = ("Header", "Values", "Also read", "Fate", "Subscribers see it", "Meaning")


def page() -> str:
    """The reference page, in Markdown."""
    parts = [HEAD]
    for title, command, remark in (
        ("CONNECT and STOMP", "CONNECT", ""),
        ("SEND", "SEND", "A SEND may have queue arguments, too: see below."),
        ("SUBSCRIBE", "SUBSCRIBE", f"A SUBSCRIBE may have queue arguments, too: see below. {_SLIPS}"),
    ):
        parts.append(_section(title, remark, _rows(command), command == "SEND"))
    parts.append(
        _section(
            "Queue arguments on SEND and SUBSCRIBE",
            "They narrow what the queue's policy says, and never widen it. Those of the frame that creates the queue "
            "count; to a queue that is there they change nothing, and nobody is refused because of a difference, "
            "unless the setting `client_queue_arguments` says so. Of a topic's subscription they count for what waits "
            "for it alone. Subscribers never see them.",
            [row for row in TABLE if row.argument],
        )
    )
    for title, command in (
        ("UNSUBSCRIBE", "UNSUBSCRIBE"),
        ("ACK", "ACK"),
        ("NACK", "NACK"),
        ("BEGIN, COMMIT and ABORT", "BEGIN"),
        ("DISCONNECT", "DISCONNECT"),
    ):
        parts.append(_section(title, "", _rows(command)))
    return "\n".join(parts)


def _rows(command: str) -> list[HeaderRow]:
    return [row for row in TABLE if command in row.frames and not row.argument]


def _section(title: str, remark: str, rows: Iterable[HeaderRow], of_send: bool = False) -> str:
    columns = _OF_SEND if of_send else _COLUMNS
    lines = [f"## {title}", "", *([remark, ""] if remark else []), _line(columns), _line(["---"] * len(columns))]
    for row in rows:
        cells = [_name(row.spellings[0]), _values(row, row.spellings[0]), _aliases(row), row.treatment.value]
        if of_send:
            cells.append(_seen(row))
        lines.append(_line([*cells, row.meaning]))
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(spelling: Spelling) -> str:
    return f"`{spelling.name}`" + (f" ({spelling.broker})" if spelling.broker else "")


def _values(row: HeaderRow, spelling: Spelling) -> str:
    if row.treatment is not Treatment.REFUSED:
        return spelling.values.allowed
    passing = " or ".join(f"`{word}`" if word else "an empty value" for word in spelling.passes)
    return f"{passing} passes" if passing else "none"


def _aliases(row: HeaderRow) -> str:
    """The other names, each with its values where those are not the canonical name's."""
    first, *others = row.spellings
    texts = []
    for each in others:
        values = _values(row, each)
        texts.append(_name(each) + ("" if values == _values(row, first) else f": {values}"))
    return "<br>".join(texts)


def _seen(row: HeaderRow) -> str:
    if row.treatment is Treatment.REFUSED:
        return "no"
    if row.also_canonical:
        return f"yes; by an alias, as `{row.name}`, too"
    return "yes" if row.visible else "no"


if __name__ == "__main__":
    sys.stdout.write(page())
