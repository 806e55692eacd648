"""Reference page of the headers that the gateway knows.

    python -m docs.generate.headers > docs/headers.md

Everything comes from the one table in `gateway/broker/headers`; a test compares the committed page with it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from gateway.broker.headers.row import OTHER_WORDS, HeaderRow, Spelling, Treatment
from gateway.broker.headers.table import TABLE

HEAD = """\
# Headers

Written by `make docs` from `gateway/broker/headers`.

Clients of RabbitMQ, ActiveMQ, Artemis, Apollo and Spring use other names and units for the same options. The gateway
reads them all. **If a frame has several names of one header, the first here counts.** A value that is not allowed is an
ERROR that lists the allowed ones, here in italics. Numbers are whole, without spaces, points or a plus.

A header that is not on this page is the user's own: subscribers get that of a SEND unchanged, and other frames ignore
it. **Letter case and hyphens count**: `X-Delay`, `Priority` or `x-ttl` on a SEND are the user's own headers. Only 1.0
reads STOMP's standard headers in any case.

Every frame but CONNECT may have `receipt`, which asks for a RECEIPT when the frame is carried out. BEGIN, COMMIT and
ABORT have `transaction`, its name.

A header that is refused gets an ERROR; one without effect is accepted, because it makes no difference here.
"""

_NEAR_MISSES = (
    "Other headers have no effect. A name that differs only in capitals, `-` or `_`, or that is "
    f"{' or '.join(f'`{word}`' for word in OTHER_WORDS)}, gets a line in the log with the right name."
)
_ARGUMENTS = (
    "They [change the policy](policies.md#queue-arguments-of-clients) of the queue that the frame creates, or of the "
    "messages that wait for a topic's subscription. Subscribers never see them."
)


def page() -> str:
    """The reference page, in Markdown."""
    parts = [HEAD]
    for title, commands, note in (
        ("CONNECT and STOMP", ("CONNECT",), ""),
        ("SEND", ("SEND",), f"Subscribers do not see {_unseen()}. An alias of {_also()} comes as this name as well."),
        ("SUBSCRIBE", ("SUBSCRIBE",), _NEAR_MISSES),
    ):
        parts.append(_section(title, note, _rows(*commands)))
    parts.append(_section("Queue arguments on SEND and SUBSCRIBE", _ARGUMENTS, [row for row in TABLE if row.argument]))
    parts.append(_section("UNSUBSCRIBE", "", _rows("UNSUBSCRIBE")))
    parts.append(_section("ACK and NACK", "", _rows("ACK", "NACK")))
    return "\n".join(parts)


def _rows(*commands: str) -> list[HeaderRow]:
    """Rows of some frames, without those of the head."""
    rows = [row for row in TABLE if set(commands) & set(row.frames)]
    return [row for row in rows if not row.argument and row.name != "receipt"]


def _section(title: str, note: str, rows: list[HeaderRow]) -> str:
    parts = [f"## {title}", *([note] if note else [])]
    honoured = [row for row in rows if row.treatment is Treatment.HONOURED]
    parts.append("\n".join([" ".join(filter(None, (_names(row), _values(row), _meaning(row)))) for row in honoured]))
    others: dict[str, list[str]] = {}
    for names, treatment, meaning in _others(rows):
        others.setdefault(treatment, []).append(f"* {names}: {meaning}")
    parts += [f"{treatment.capitalize()}:\n\n" + "\n".join(lines) for treatment, lines in others.items()]
    return "\n\n".join(parts) + "\n"


def _others(rows: Iterable[HeaderRow]) -> Iterator[tuple[str, str, str]]:
    """Rows that are not honoured; those that say the same are one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.treatment is not Treatment.HONOURED:
            groups.setdefault((row.treatment.value, row.meaning), []).extend(_other(each) for each in row.spellings)
    for (treatment, meaning), names in groups.items():
        yield ", ".join(names), treatment, meaning


def _other(spelling: Spelling) -> str:
    passing = " or ".join(f"`{word}`" if word else "empty" for word in spelling.passes)
    return _name(spelling) + (f" unless {passing}" if passing else "")


def _name(spelling: Spelling) -> str:
    return f"`{spelling.name}`" + (f" ({spelling.broker})" if spelling.broker else "")


def _names(row: HeaderRow) -> str:
    return f"* {', '.join(_name(each) for each in row.spellings)}:"


def _values(row: HeaderRow) -> str:
    """The values of the canonical name, then those of aliases that differ."""
    texts: dict[str, list[str]] = {}
    for each in row.spellings:
        texts.setdefault(short(each.values.allowed), []).append(f"`{each.name}`")
    (first, _), *others = texts.items()
    shown = ". ".join([first, *(f"{', '.join(names)}: {text}" for text, names in others)])
    # "a destination" says no more than "The destination of the message."
    is_said = re.fullmatch(r"a (\w+)", shown) and f"The {shown[2:]}" in row.meaning
    return "" if shown == "anything" or is_said else f"*{shown}.*"


def short(allowed: str) -> str:
    """The values that a header allows, in fewer words than an ERROR has."""
    text = re.sub(r"a whole number (?:of (.+?) )?from (-?\d+) to (\d+)", _range, allowed)
    text = re.sub(r"^(\d+) to (\d+)", r"\1–\2", text)
    return text.replace("true or false", "`true`/`false`")


def _range(found: re.Match[str]) -> str:
    between = f"{found[2]} to {found[3]}" if found[2].startswith("-") else f"{found[2]}–{found[3]}"
    return f"{found[1]}, {between}" if found[1] else between


def _meaning(row: HeaderRow) -> str:
    return f"Of NACK alone. {row.meaning}" if row.frames == ("NACK",) else row.meaning


def _unseen() -> str:
    """Headers that do not reach subscribers, without those that say so, and those that end the SEND."""
    hidden = [row for row in TABLE if row.frames == ("SEND",) and not row.visible]
    hidden = [row for row in hidden if row.treatment is not Treatment.REFUSED and "do not see" not in row.meaning]
    return ", ".join(f"`{row.name}`" for row in hidden)


def _also() -> str:
    return ", ".join(f"`{row.name}`" for row in TABLE if row.also_canonical)


if __name__ == "__main__":
    sys.stdout.write(page())
