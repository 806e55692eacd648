"""Records to columns, whatever rows they have."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.archive.columns import table_of
from gateway.archive.parquet_files import SCHEMA
from gateway.journal import RecordError, schema
from gateway.journal.record import (
    LAYOUTS,
    RecordFacts,
    counted,
    headers_of,
    length_of,
    record,
    string,
    strings,
)
from tests.journal import reading

FACTS = RecordFacts("g1", "r", 1_700_000_000_000_000, 1_700_000_000_000_000_999)
TEXTS = st.text(max_size=10)
BLOCK_TEXTS = st.text("a\0\x01é", max_size=4)


def body_of(*rows: bytes, first_seq: int = 1, facts: RecordFacts = FACTS) -> bytes:
    return b"".join(record(facts, first_seq, len(rows), rows))[8:]


def rows_in(body: bytes) -> list[tuple[object, ...]]:
    table, _ = table_of(body)
    table.validate(full=True)
    assert table.schema.equals(SCHEMA, check_metadata=True)
    return reading.rows_in(table)


@st.composite
def a_row(draw: st.DrawFn) -> tuple[bytes, dict[str, object]]:
    """A row of any event, by the grammar, and its values; its payload may end early, or have more than is known."""
    event = draw(st.sampled_from(schema.EVENTS))
    layout = LAYOUTS[event.name]
    time = draw(st.integers(0, 2**40))
    values: dict[str, Any] = {"event": event.name, "ts": (time + FACTS.offset) // 1000}
    for name in layout.numbers:
        values[name] = draw(st.integers(0, 2**64 - 1) if name == "message_id" else st.integers(-1, 2**31 - 1))
    numbers = [values[name] for name in layout.numbers]
    values |= {name: None for name in layout.numbers if values[name] < 0}
    if "message_id" in values:
        values["message_id"] = f"{FACTS.run}-{values['message_id']}"
    values |= {name: draw(st.none() | TEXTS) for name in layout.names}
    names = strings(*[values[name] for name in layout.names])
    ends_early = draw(st.booleans())
    payload = b""
    for name in layout.payload[: draw(st.integers(0, len(layout.payload))) if ends_early else None]:
        if name == "headers":
            values[name] = draw(st.dictionaries(BLOCK_TEXTS, BLOCK_TEXTS, max_size=3))
            payload += headers_of(values[name])
        elif name == "body":
            values[name] = draw(st.none() | st.binary(max_size=9))
            payload += string(None) if values[name] is None else counted(values[name])
        else:
            values[name] = draw(st.none() | TEXTS)
            payload += string(values[name])
    if not ends_early:
        payload += string("newer")
    length = layout.rest + len(names) + len(payload)
    return layout.pack(length, layout.code, len(names), time, *numbers) + names + payload, values


@given(st.lists(a_row(), min_size=1, max_size=12), st.integers(0, 2**40))
@settings(max_examples=80, deadline=None)
def test_the_rows(rows: list[tuple[bytes, dict[str, object]]], first_seq: int) -> None:
    body = body_of(*[data for data, _ in rows], first_seq=first_seq)
    wanted = [
        {"gateway": FACTS.gateway, "epoch": FACTS.epoch, "seq": seq, **values}
        for seq, (_, values) in enumerate(rows, first_seq)
    ]
    assert rows_in(body) == [tuple([row.get(name) for name in SCHEMA.names]) for row in wanted]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_changed_byte(drawn: st.DataObject) -> None:
    """Whichever byte is changed: either the one error, or a table that makes sense."""
    rows = drawn.draw(st.lists(a_row(), min_size=1, max_size=4))
    data = bytearray(body_of(*[row for row, _ in rows]))
    place = drawn.draw(st.integers(0, len(data) - 1))
    data[place] = drawn.draw(st.integers(0, 255))
    with contextlib.suppress(RecordError):
        assert len(rows_in(bytes(data))) <= len(rows)


def connected(names: bytes, behind: bytes = b"", code: int = 14, time: int = 0) -> bytes:
    layout = LAYOUTS["connected"]
    return layout.pack(layout.rest + len(names) + len(behind), code, len(names), time) + names + behind


def dead_lettered(payload: bytes) -> bytes:
    layout = LAYOUTS["dead_lettered"]
    names = string("/queue/a")
    head = layout.pack(layout.rest + len(names) + len(payload), layout.code, len(names), 1, 1, 0, 0, 0)
    return head + names + payload


NAMES = strings("tcp", "here", "me", "s")


@pytest.mark.parametrize(
    "row",
    [
        connected(NAMES)[:-1],
        connected(NAMES) + b"x",
        connected(strings("tcp", "here", "me")),
        connected(strings("tcp", "here", "me", "s", "more")),
        connected(strings("tcp", "here", "me") + length_of(9) + b"s"),
        connected(strings("tcp", "here", "me") + counted(b"\xff")),
        connected(NAMES, time=-(2**62)),
        connected(NAMES, time=2**63 - 1),
        length_of(0),
        length_of(1) + bytes([14]),
        length_of(900),
        dead_lettered(length_of(2) + b"x"),
        dead_lettered(b"abc"),
        dead_lettered(counted(b"\xff")),
        dead_lettered(string("full") + counted(b"name\0")),
        dead_lettered(string("full") + counted(b"name\0value")),
        dead_lettered(string("full") + counted(b"\xff\0value\0")),
    ],
)
def test_invalid_text(row: bytes) -> None:
    with pytest.raises(RecordError, match="its rows are not as version 1 has them"):
        table_of(body_of(row))


def test_headers_that_straddle_two_rows() -> None:
    """Together they would make sense."""
    rows = [dead_lettered(string(None) + counted(block)) for block in (b"a\0b\0c\0", b"d\0")]
    with pytest.raises(RecordError):
        table_of(body_of(*rows))


def test_unknown_events() -> None:
    body = body_of(connected(NAMES), connected(NAMES, code=99), connected(NAMES))
    assert [row[2] for row in rows_in(body)] == [1, 3]
    assert table_of(body)[1] == 1
    table, unknown = table_of(body_of(connected(NAMES, code=99)))
    assert (len(table), unknown) == (0, 1)
