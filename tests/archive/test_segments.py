"""Segments and their records as the archiver reads them, whatever rows they have."""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.archive.columns import table_of
from gateway.archive.parquet_files import SCHEMA
from gateway.archive.segments import SegmentError, Tables, began, groups
from gateway.journal import RecordError, schema
from gateway.journal.record import (
    LAYOUTS,
    RecordFacts,
    bodies,
    counted,
    headers_of,
    length_of,
    record,
    size_of,
    string,
    strings,
)
from tests.archive.desk import BEGIN, Writer
from tests.journal import reading


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment of two records, with five rows each."""
    return Writer(tmp_path).records(5, 5)


def test_unknown_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        first, second = bodies(file, len(data))
    place = size_of(first) + 8
    data[place] = 9
    data[place - 4 : place] = zlib.crc32(data[place : place + len(second)]).to_bytes(4, "little")
    path.write_bytes(data)
    tables = iter(Tables(path))
    assert len(next(tables)) == 5
    with pytest.raises(SegmentError, match=f"byte {size_of(first)}: the record has version 9") as caught:
        next(tables)
    assert caught.value.is_unusable


def test_began(path: Path, tmp_path: Path) -> None:
    assert began(path) == pytest.approx(BEGIN, abs=1)
    assert began(tmp_path / "1-1.seg") is None
    with pytest.raises(SegmentError, match="No such file") as caught:
        list(Tables(tmp_path / "1-1.seg"))
    assert not caught.value.is_unusable
    path.write_bytes(b"")
    assert began(path) is None


EPOCH = 1_700_000_000_000_000
TIME = 1_700_000_000  # twenty minutes before an hour ends


@pytest.mark.parametrize(
    ("segments", "ranges"),
    [
        ([], []),
        ([(1, 40), (2, 40), (3, 40), (4, 40), (5, 40)], [(1, 2, True), (3, 4, True), (5, 5, False)]),
        ([(1, 500)], [(1, 1, True)]),
        ([(1, 10), (2, 10), (4, 10), (5, 10)], [(1, 2, True), (4, 5, False)]),  # number 3 may still come
        ([(1, 10), (2, 10), (3, 10, EPOCH + 1)], [(1, 2, True), (3, 3, False)]),
        ([(1, 10, EPOCH, 1000), (2, 10, EPOCH, 2000), (3, 10, EPOCH, 3000)], [(1, 2, True), (3, 3, False)]),
    ],
)
def test_groups(tmp_path: Path, segments: list[tuple[int, ...]], ranges: list[tuple[int, int, bool]]) -> None:
    """Number, size, epoch and seconds of each segment; at most 100 bytes of them are a group."""
    paths = []
    for number, size, *more in segments:
        epoch, later = (*more, EPOCH, 0)[:2] if more else (EPOCH, 0)
        paths.append(tmp_path / f"{epoch}-{number:06d}.seg")
        paths[-1].write_bytes(bytes(size))
        os.utime(paths[-1], (TIME + (later if len(more) == 2 else 0),) * 2)
    found = groups(paths, 100)
    assert [(each.range.first, each.range.last, each.is_closed) for each in found] == ranges
    assert [path for each in found for path in each.paths] == paths


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
        connected(strings("tcp", "here", "me", "s", "more")),
        connected(NAMES, time=2**63 - 1),
        length_of(0),
        dead_lettered(length_of(2) + b"x"),
        dead_lettered(string("full") + counted(b"name\0value")),
    ],
)
def test_invalid_text(row: bytes) -> None:
    with pytest.raises(RecordError, match="its rows are not as version 1 has them"):
        table_of(body_of(row))


def test_numbers_that_no_column_holds() -> None:
    with pytest.raises(RecordError, match="its rows are not as version 1 has them"):
        table_of(body_of(connected(NAMES), first_seq=2**63))


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
