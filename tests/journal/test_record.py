"""Bytes of records and back, in memory and in segments, and the table of the schema."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.archive.columns import table_of
from gateway.journal import RecordError, schema
from gateway.journal.record import (
    LAYOUTS,
    RecordFacts,
    bodies,
    headers_of,
    record,
    string,
    strings,
)
from tests.journal.reading import Row, rows_in

FACTS = RecordFacts("g1", "r", 1_700_000_000_000_000, 999)
TEXTS = st.text(max_size=20)


def body_of(*rows: bytes, first_seq: int = 1, facts: RecordFacts = FACTS) -> bytes:
    return b"".join(record(facts, first_seq, len(rows), rows))[8:]


def rows_of(body: bytes) -> list[Row]:
    return rows_in(table_of(body)[0])


def connected(names: bytes = b"", behind: bytes = b"", code: int = 14) -> bytes:
    """A row without numbers and payload."""
    layout = LAYOUTS["connected"]
    names = names or strings("tcp", "here", "me", "s")
    return layout.pack(layout.rest + len(names) + len(behind), code, len(names), 1000, *[]) + names + behind


def headers_in(block: bytes) -> object:
    """What a header block says, read as a dead letter's."""
    layout = LAYOUTS["dead_lettered"]
    names, payload = string("/queue/a"), string("expired") + block
    row = layout.pack(layout.rest + len(names) + len(payload), 7, len(names), 1, 1, 0, 0, 0) + names + payload
    return rows_of(body_of(row))[0][schema.INDEX["headers"]]


class TestHeaders:
    @given(st.dictionaries(TEXTS, TEXTS))
    def test_round_trip(self, headers: dict[str, str]) -> None:
        wanted = {name: value for name, value in headers.items() if name.lower() != "passcode"}
        assert headers_in(headers_of(headers)) == wanted

    @pytest.mark.parametrize("name", ["passcode", "PassCode", "PASSCODE"])
    def test_never_a_passcode(self, name: str) -> None:
        assert headers_in(headers_of({"a": "b", name: "secret", "c": "the passcode"})) == {
            "a": "b",
            "c": "the passcode",
        }
        assert headers_in(headers_of({name: "secret"})) == {}

    def test_what_is_no_unicode(self) -> None:
        assert headers_in(headers_of({"a\ud800": "\udfff"})) == {"a?": "?"}


class TestFile:
    @given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.integers(0, 255))
    @settings(max_examples=25)
    def test_torn_at_every_octet(self, pieces: list[bytes], garbage: int) -> None:
        """What is left are all records that are whole; bytes that are not what they were are no record."""
        records = [b"".join(record(FACTS, 1, 1, [piece])) for piece in pieces]
        data = b"".join(records)
        ends = [sum(map(len, records[:count])) for count in range(len(records) + 1)]
        for cut in range(len(data)):
            whole = max([place for place, end in enumerate(ends) if end <= cut])
            left = [each[8:] for each in records[:whole]]
            assert list(bodies(io.BytesIO(data[:cut]), cut)) == left
            if data[cut] != garbage:
                damaged = data[:cut] + bytes([garbage]) + data[cut + 1 :]
                assert list(bodies(io.BytesIO(damaged), len(damaged))) == left


class TestRows:
    def test_facts(self) -> None:
        rows = rows_of(body_of(connected(), connected(), first_seq=7))
        assert [row[:5] for row in rows] == [("g1", 1_700_000_000_000_000, seq, 1, "connected") for seq in (7, 8)]


class TestOthers:
    """What another version of this program wrote."""

    def test_another_version(self) -> None:
        body = b"\2" + body_of(connected())[1:]
        with pytest.raises(RecordError, match="the record has version 2, and this gateway reads 1 only"):
            table_of(body)

    def test_an_unknown_event(self) -> None:
        table, unknown = table_of(body_of(connected(), connected(code=99), connected()))
        assert [row[2] for row in rows_in(table)] == [1, 3]
        assert unknown == 1

    def test_more_columns(self) -> None:
        first, second = rows_of(body_of(connected(behind=string("more")), connected()))
        assert first[5:] == second[5:]

    def test_fewer_columns(self) -> None:
        layout = LAYOUTS["disconnected"]
        names = strings("tcp", "here", "me", "s")
        (row,) = rows_of(body_of(layout.pack(layout.rest + len(names), 15, len(names), 1) + names))
        assert row[schema.INDEX["reason"]] is None


def test_codes_never_change() -> None:
    """They are in files."""
    names = (
        "accepted delivered redelivered acked nacked expired dead_lettered dropped tx_begun tx_committed tx_aborted "
    )
    names += "subscribed unsubscribed connected disconnected error heartbeat_missed gauge_subscription "
    names += "gauge_destination journal_dropped became_primary stepped_down"
    assert {event.code: event.name for event in schema.EVENTS} == dict(enumerate(names.split(), 1))


@pytest.mark.parametrize("event", schema.EVENTS, ids=lambda event: event.name)
def test_events_have_columns(event: schema.Event) -> None:
    assert set(event.columns) <= set(schema.INDEX) - set(schema.OF_EVERY_ROW)
    assert len(set(event.columns)) == len(event.columns)


def test_every_column_is_used() -> None:
    used = {name for event in schema.EVENTS for name in event.columns}
    assert used | set(schema.OF_EVERY_ROW) == set(schema.INDEX)
    assert {column.name for column in schema.COLUMNS if not column.nullable} == set(schema.OF_EVERY_ROW)
