"""Records come back as they were written; damage, versions and lost writers are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.model.changes import Batch, Container, Payload, StoredRow
from gateway.cluster import records
from gateway.cluster.records import FORM, Assembler, Kind, NewerForm, Record, RecordError, parse, parts_of

RECORDED = Path(__file__).with_name("form-1.hex")
RECORD = Record(Kind.BATCH, 3, 17, 1_795_271_857_627_686, b"payload")

numbers = st.integers(0, 2**53)
texts = st.text(st.characters(exclude_categories=["Cs"]))
batches = st.builds(
    Batch,
    st.integers(1, 99),
    st.dictionaries(st.integers(1, 9), st.tuples(st.just("queue"), texts, texts), max_size=3).map(
        lambda found: {number: Container(number, *rest) for number, rest in found.items()}
    ),
    st.dictionaries(numbers, st.builds(Payload, st.dictionaries(texts, texts, max_size=3), st.binary()), max_size=3),
    st.dictionaries(numbers, st.tuples(numbers, numbers, numbers, numbers, st.none() | texts), max_size=3).map(
        lambda found: {row: StoredRow(row, *four, False, facts) for row, (*four, facts) in found.items()}
    ),
    st.dictionaries(numbers, texts, max_size=3),
    st.lists(numbers, max_size=3),
    st.lists(numbers, max_size=3),
    st.lists(numbers, max_size=3),
    st.dictionaries(st.binary(min_size=1), st.floats(0, 2e9), max_size=3),
)


def same(one: Batch, other: Batch) -> bool:
    names = [name for name in Batch.__slots__ if name != "nbytes"]
    return all(getattr(one, name) == getattr(other, name) for name in names)


class TestBatches:
    @given(batches)
    def test_come_back(self, batch: Batch) -> None:
        payload = records.pack_batch(batch)
        if payload:
            assert same(records.unpack_batch(batch.number, payload), batch)
        else:
            assert not batch

    def test_leave_out_transient_rows_and_what_only_they_use(self) -> None:
        rows = {1: StoredRow(1, 1, 1, 5, 9, True), 2: StoredRow(2, 1, 7, 5, 9, True), 3: StoredRow(3, 1, 7, 5, 9)}
        contents = {1: Payload({}, b"gone"), 7: Payload({}, b"kept")}
        found = records.unpack_batch(1, records.pack_batch(Batch(1, rows=rows, contents=contents)))
        assert list(found.rows) == [3]
        assert list(found.contents) == [7]
        assert records.pack_batch(Batch(1, rows={1: rows[1]}, contents={1: contents[1]})) == b""

    @pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", b"\x98" + b"\x01" * 8, records.pack_map({})])
    def test_that_are_none_are_told(self, payload: bytes) -> None:
        with pytest.raises(RecordError, match="cannot be read"):
            records.unpack_batch(1, payload)


class TestMaps:
    def test_come_back(self) -> None:
        assert records.unpack_map(records.pack_map({"node": "a"})) == {"node": "a"}

    @pytest.mark.parametrize("payload", [b"", b"\x01"])
    def test_that_are_none_are_told(self, payload: bytes) -> None:
        with pytest.raises(RecordError, match="cannot be read"):
            records.unpack_map(payload)


class TestParts:
    @pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 1), (10, 1), (11, 2), (95, 10)])
    def test_of_any_length_make_the_record_again(self, size: int, count: int) -> None:
        record = Record(Kind.BATCH, 1, 2, 3, bytes(range(size)))
        parts = parts_of(record, 10)
        assert len(parts) == count
        assembler = Assembler()
        found = [assembler.add(parse(part)) for part in parts]
        assert found == [None] * (count - 1) + [record]
        assert assembler.is_between

    def test_have_a_limit(self) -> None:
        with pytest.raises(RecordError, match="is too long for the log"):
            parts_of(Record(Kind.BATCH, 1, 1, 1, bytes(70_000)), 1)

    @pytest.mark.parametrize("at", range(4, 45))
    def test_do_not_change_unseen(self, at: int) -> None:
        [part] = parts_of(RECORD)
        changed = bytearray(part)
        changed[at] ^= 0x10
        with pytest.raises(RecordError, match="checksum is wrong"):
            parse(bytes(changed))

    @pytest.mark.parametrize("data", [b"", b"GWR", b"{}" * 30])
    def test_of_others_are_told(self, data: bytes) -> None:
        with pytest.raises(RecordError, match="not a record"):
            parse(data)

    def test_of_a_newer_gateway_say_so(self) -> None:
        [part] = parts_of(replace(RECORD, form=FORM + 1))
        newer = f"wrote records of form {FORM + 1}, and this one reads up to form {FORM}; upgrade this node"
        with pytest.raises(NewerForm, match=newer):
            parse(part)
        assert Assembler().add(parse(part, FORM + 1)) == replace(RECORD, form=FORM + 1)


def test_records_of_form_1_as_they_were_recorded() -> None:
    """A later gateway reads them, too: `form-1.hex` never changes."""
    batch = Batch(
        2,
        {1: Container(1, "queue", "/queue/a", None), 2: Container(2, "queue", "/queue/\u00e9", "{}")},
        {7: Payload({"content-type": "text/plain"}, b"tea"), 8: Payload({}, bytes(range(256)))},
        {7: StoredRow(7, 1, 7, 5, 3), 8: StoredRow(8, 2, 8, 1 << 40, 256, False, '{"expires": 1.5}')},
        {5: '{"attempts": 2}'},
        [1, 2],
        [3],
        [4],
        {b"\x01\xff": 1_795_271_857.5},
    )
    facts = {"node": "a", "address": "host-a:61613", "token": "token", "version": "0.1.0"}
    recorded = [
        Record(Kind.EPOCH, 3, 0, 1_795_271_857_000_000, records.pack_map(facts), 1),
        Record(Kind.BATCH, 3, 2, 1_795_271_857_000_001, records.pack_batch(batch), 1),
        Record(Kind.END, 3, 0, 1_795_271_857_000_002, records.pack_map({}), 1),
    ]
    messages = [bytes.fromhex(line) for line in RECORDED.read_text().split()]
    assert messages == [part for each in recorded for part in parts_of(each, 300)]
    assembler = Assembler()
    found = [record for each in messages if (record := assembler.add(parse(each)))]
    assert found == recorded
    assert same(records.unpack_batch(2, found[1].payload), batch)


class TestALostWriter:
    """The parts of a record that was begun count for nothing, whatever comes behind them."""

    begun = parts_of(Record(Kind.BATCH, 1, 5, 1, bytes(25)), 10)

    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("size", [5, 25])
    def test_is_followed_by_another_record(self, count: int, size: int) -> None:
        behind = Record(Kind.EPOCH, 2, 0, 2, bytes(size))
        assembler = Assembler()
        found = [assembler.add(parse(part)) for part in [*self.begun[:count], *parts_of(behind, 10)]]
        assert [each for each in found if each] == [behind]

    def test_leaves_an_end_that_nothing_begins(self) -> None:
        assembler = Assembler()
        assert [assembler.add(parse(part)) for part in self.begun[1:]] == [None, None]
        assert assembler.is_between
