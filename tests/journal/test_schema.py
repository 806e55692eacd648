"""The table of the schema."""

from __future__ import annotations

import pytest

from gateway.journal import schema


def test_codes_never_change() -> None:
    """They are in files."""
    assert {event.code: event.name for event in schema.EVENTS} == {
        1: "accepted",
        2: "delivered",
        3: "redelivered",
        4: "acked",
        5: "nacked",
        6: "expired",
        7: "dead_lettered",
        8: "dropped",
        9: "tx_begun",
        10: "tx_committed",
        11: "tx_aborted",
        12: "subscribed",
        13: "unsubscribed",
        14: "connected",
        15: "disconnected",
        16: "error",
        17: "heartbeat_missed",
        18: "gauge_subscription",
        19: "gauge_destination",
        20: "journal_dropped",
    }


@pytest.mark.parametrize("event", schema.EVENTS, ids=lambda event: event.name)
def test_events_have_columns(event: schema.Event) -> None:
    assert set(event.columns) <= set(schema.INDEX) - set(schema.OF_EVERY_ROW)
    assert len(set(event.columns)) == len(event.columns)


def test_every_column_is_used() -> None:
    used = {name for event in schema.EVENTS for name in event.columns}
    assert used | set(schema.OF_EVERY_ROW) == set(schema.INDEX)
    assert {column.name for column in schema.COLUMNS if not column.nullable} == set(schema.OF_EVERY_ROW)
