"""Reference page of the headers that the gateway knows.

    python -m docs.generate.headers > docs/headers.md

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

Clients of RabbitMQ, ActiveMQ, Artemis, Apollo and Spring use other names and units for the same options. The gateway
reads them all. Each header has one canonical name and aliases; an alias keeps the unit of its broker. **If a frame has
several names of one header, the first in the order of these tables counts**: the canonical name before its aliases.

Each header has a treatment:

| Treatment | Meaning |
| --- | --- |
| honoured | The gateway does what the header says. Values outside of the table are an ERROR that lists the allowed. |
| passed on | The gateway does not use the header. Subscribers get it unchanged. |
| refused | The gateway cannot fulfil the request: an ERROR says so. Values that ask for nothing are accepted. |
| without effect | The request makes no difference here; the table says why. |

A header that is not on this page is the user's own: subscribers get that of a SEND unchanged, and other frames ignore
it. **Letter case counts in names**, and so does every hyphen: `X-Delay`, `Priority`, `Expires`, `delay` or `x-ttl` on a
SEND are the user's own headers, without effect. Only 1.0 reads STOMP's standard headers in any case. Write numbers in
the digits 0 to 9, without spaces, points or a plus. `true`, `false`, `set` and `remove` may have capital letters.
"""

_NEAR_MISSES = (
    "Other headers of a SUBSCRIBE have no effect and are no ERROR. A name that differs from one of these only in "
    f"capitals, `-` or `_`, or that is {' or '.join(f'`{word}`' for word in OTHER_WORDS)}, gets a line in the log with "
    "the right name, unless the frame has that as well."
)

_COLUMNS = ("Header", "Values", "Aliases", "Treatment", "Meaning")
_OF_SEND = ("Header", "Values", "Aliases", "Treatment", "Subscribers see it", "Meaning")


def page() -> str:
    """The reference page, in Markdown."""
    parts = [HEAD]
    for title, command, note in (
        ("CONNECT and STOMP", "CONNECT", ""),
        ("SEND", "SEND", "A SEND may have queue arguments as well: see below."),
        ("SUBSCRIBE", "SUBSCRIBE", f"A SUBSCRIBE may have queue arguments as well: see below. {_NEAR_MISSES}"),
    ):
        parts.append(_section(title, note, _rows(command), command == "SEND"))
    parts.append(
        _section(
            "Queue arguments on SEND and SUBSCRIBE",
            "They change the policy of the queue; a limit is only ever lowered. They count in the frame that creates "
            "the queue; for an existing queue they change nothing. With `client_queue_arguments = false`, a frame "
            "whose arguments would change the policy gets an ERROR. On a subscription to a topic they apply to the "
            "messages that wait for it. Subscribers never see them.",
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


def _section(title: str, note: str, rows: Iterable[HeaderRow], of_send: bool = False) -> str:
    columns = _OF_SEND if of_send else _COLUMNS
    lines = [f"## {title}", "", *([note, ""] if note else []), _line(columns), _line(["---"] * len(columns))]
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
    return f"{passing} is accepted" if passing else "none"


def _aliases(row: HeaderRow) -> str:
    """The other names, each with its values if they differ from those of the canonical name."""
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
        return f"yes; an alias as `{row.name}` as well"
    return "yes" if row.visible else "no"


if __name__ == "__main__":
    sys.stdout.write(page())
