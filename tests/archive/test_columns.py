"""Records to columns: the same rows as the reader of the journal has."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.archive.columns import table_of
from gateway.archive.schema import SCHEMA
from gateway.journal import RecordError, schema
from gateway.journal.record import (
    LAYOUTS,
    RecordFacts,
    RowDecoder,
    counted,
    headers_of,
    length_of,
    record,
    string,
    strings,
)

FACTS = RecordFacts("g1", "r", 1_700_000_000_000_000, 1_700_000_000_000_000_999)
TEXTS = st.text(max_size=10)
BLOCK_TEXTS = st.text("a\0\x01é", max_size=4)


def body_of(*rows: bytes, first_seq: int = 1, facts: RecordFacts = FACTS) -> bytes:
    return b"".join(record(facts, first_seq, len(rows), rows))[8:]


def rows_in(body: bytes) -> list[tuple[object, ...]]:
    table, _ = table_of(body)
    table.validate(full=True)
    assert table.schema.equals(SCHEMA, check_metadata=True)
    table = table.set_column(schema.INDEX["ts"], "ts", table["ts"].cast(pa.int64()))
    plain = [{**row, "headers": None if row["headers"] is None else dict(row["headers"])} for row in table.to_pylist()]
    return [tuple(row.values()) for row in plain]


@st.composite
def a_row(draw: st.DrawFn) -> bytes:
    """A row of any event, by the grammar; its payload may end early, or have more than this version knows."""
    event = draw(st.sampled_from(schema.EVENTS))
    layout = LAYOUTS[event.name]
    numbers = [
        draw(st.integers(0, 2**64 - 1) if name == "message_id" else st.integers(-1, 2**31 - 1))
        for name in layout.numbers
    ]
    names = strings(*[draw(st.none() | TEXTS) for _ in layout.names])
    payload = []
    for name in layout.payload:
        if name == "headers":
            payload.append(headers_of(draw(st.dictionaries(BLOCK_TEXTS, BLOCK_TEXTS, max_size=3))))
        elif name == "body":
            payload.append(draw(st.just(string(None)) | st.binary(max_size=9).map(counted)))
        else:
            payload.append(string(draw(st.none() | TEXTS)))
    payload = payload[: draw(st.integers(0, len(payload)))] if draw(st.booleans()) else [*payload, string("newer")]
    data = b"".join(payload)
    length = layout.rest + len(names) + len(data)
    return layout.pack(length, layout.code, len(names), draw(st.integers(0, 2**40)), *numbers) + names + data


@given(st.lists(a_row(), min_size=1, max_size=12), st.integers(0, 2**40))
@settings(max_examples=80, deadline=None)
def test_the_same_rows(rows: list[bytes], first_seq: int) -> None:
    body = body_of(*rows, first_seq=first_seq)
    assert rows_in(body) == RowDecoder().rows(body)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_the_same_errors(drawn: st.DataObject) -> None:
    """Whichever byte is changed: either one error, or the same rows."""
    data = bytearray(body_of(*drawn.draw(st.lists(a_row(), min_size=1, max_size=4))))
    place = drawn.draw(st.integers(0, len(data) - 1))
    data[place] = drawn.draw(st.integers(0, 255))
    with contextlib.suppress(RecordError):
        rows = rows_in(bytes(data))
        assert rows == RowDecoder().rows(bytes(data))


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
