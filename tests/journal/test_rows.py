"""What the broker asks for and tells, and what is read of it."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.core.ports import Recorder
from gateway.journal import ALL, NONE, Journal, schema
from tests.journal.desk import GATEWAY, START, Clock, opened, rows_of

TEXTS = st.text(max_size=12)
TOLD = [event for event in schema.EVENTS if event.name != "journal_dropped"]
SESSION = ("transport", "peer", "principal", "session")


def draw(data: st.DataObject, event: schema.Event) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in event.columns:
        kind = schema.COLUMNS[schema.INDEX[name]].type
        if name in ("ack_mode", "destination") or (name in ("transaction", "reason") and event.name.startswith("tx")):
            values[name] = data.draw(TEXTS)
        elif name == "message_id":
            values[name] = data.draw(st.integers(0, 2**64 - 1))
        elif kind == schema.INT:
            values[name] = data.draw(st.integers(0, 2**31 - 1))
        elif kind == schema.BIGINT:
            values[name] = data.draw(st.integers(-1, 2**63 - 1))
        elif kind == schema.MAP:
            values[name] = data.draw(st.dictionaries(TEXTS, TEXTS))
        elif kind == schema.BINARY:
            values[name] = data.draw(st.binary())
        else:
            optional = name != "reason" or event.name in ("nacked", "unsubscribed", "disconnected")
            values[name] = data.draw(st.none() | TEXTS if optional else TEXTS)
    return values


def tell(recorder: Recorder, event: str, now: int, values: dict[str, Any]) -> None:
    """Tell an event: the three of the hot path by their methods, all others by the table."""
    columns = dict(values)
    given: dict[str, Any] = {"now": now, "number": values.get("message_id")}
    if "session" in values:
        given["names"] = recorder.names_of_session(*[columns.pop(name) for name in SESSION])
    if "ack_mode" in values:
        given["names"] = recorder.names_of_subscription(
            given["names"], *[columns.pop(name) for name in ("subscription", "ack_mode", "destination")]
        )
    if "names" not in given:
        given["names"] = recorder.names_of_destination(columns.pop("destination")) if "destination" in columns else b""
    if method := getattr(recorder, event, None):
        method(**{name: (values | given)[name] for name in inspect.signature(method).parameters})
    else:
        recorder.record(event, now, given["names"], **columns)


@pytest.mark.parametrize("event", TOLD, ids=lambda event: event.name)
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_every_event(event: schema.Event, data: st.DataObject) -> None:
    """All columns of each are read back."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        journal = opened(Path(folder), clock)
        told = [draw(data, event) for _ in range(2)]
        for values in told:
            clock.go(0.001)
            tell(journal, event.name, clock(), values)
        assert journal.close() == 0
        rows = rows_of(Path(folder))
    for number, (values, row) in enumerate(zip(told, rows, strict=True), 1):
        wanted = {name: value for name, value in values.items() if value is not None and value != -1}
        if "message_id" in wanted:
            wanted["message_id"] = f"r-{wanted['message_id']}"
        if "body" in wanted:
            wanted["size"] = len(wanted["body"])
        if "headers" in wanted:
            wanted["headers"] = {name: text for name, text in wanted["headers"].items() if name.lower() != "passcode"}
        facts = {"gateway": GATEWAY, "epoch": START, "seq": number, "ts": START + number * 1000, "event": event.name}
        assert row == facts | wanted


def bodies_of(folder: Path, **options: Any) -> list[dict[str, object]]:
    """Rows of four messages to two destinations, one of them large."""
    journal = opened(folder, **options)
    names = journal.names_of_session("tcp", "here", "me", "s")
    for destination, body in (("/queue/a", b"0123456789"), ("/queue/b", b"0123456789"), ("/queue/a", b"x" * 100_000)):
        journal.accepted(journal.clock(), names, destination, 1, {"a": "b"}, body)
        journal.accepted(journal.clock(), names, destination, 1, {"a": "b"}, body, "t")
    assert journal.close() == 0
    rows = rows_of(folder)
    assert [row.get("transaction") for row in rows] == [None, "t"] * 3
    assert [row["size"] for row in rows] == [10] * 4 + [100_000] * 2
    assert all(row["headers"] == {"a": "b"} and row["session"] == "s" for row in rows)
    return rows[::2]


class TestBodies:
    @pytest.mark.parametrize(
        ("kept", "bodies"),
        [
            ({"/queue/a": ALL, "/queue/b": ALL}, [b"0123456789", b"0123456789", b"x" * 100_000]),
            ({"/queue/a": 4, "/queue/b": NONE}, [b"0123", None, b"xxxx"]),
            ({"/queue/a": 0, "/queue/b": 0}, [b"", b"", b""]),
        ],
    )
    def test_all_or_some_bytes_of_some(self, tmp_path: Path, kept: dict[str, int], bodies: list[bytes | None]) -> None:
        assert [row.get("body") for row in bodies_of(tmp_path, bodies=kept.__getitem__)] == bodies

    def test_larger_than_the_queue(self, tmp_path: Path) -> None:
        journal = opened(tmp_path, limit=64 * 1024)
        journal.accepted(journal.clock(), journal.names_of_session("tcp", "x"), "/queue/a", 1, {}, b"x" * 70_000)
        assert journal.rows_dropped == 1
        assert journal.queued == 0
        assert journal.close() == 0
        (row,) = rows_of(tmp_path)
        assert (row["event"], row["dropped_rows"]) == ("journal_dropped", 1)
        assert row["reason"] == "a body is larger than the queue may be"


class TestRemembering:
    def test_headers_by_identity(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Headers that are other ones are never taken for those that were at their address before."""
        monkeypatch.setattr("gateway.journal.rows.MOST_BLOCKS", 3)
        journal = opened(tmp_path)
        names = journal.names_of_session("tcp", "x")
        shared = {"shared": "yes"}
        for number in range(100):
            journal.accepted(0, names, "/queue/a", number, {"number": str(number)}, b"")
            journal.accepted(0, names, "/queue/a", number, shared, b"")
            journal.accepted(0, names, "/queue/a", number, {"number": "x" * 2000}, b"")
        assert len(journal._blocks) <= 3
        journal.close()
        assert [row["headers"] for row in rows_of(tmp_path)] == [
            headers for number in range(100) for headers in ({"number": str(number)}, shared, {"number": "x" * 2000})
        ]


def test_a_journal_is_a_recorder(tmp_path: Path) -> None:
    recorder: Recorder = opened(tmp_path)
    assert recorder.clock() > 0
    assert recorder.is_behind is False
    assert isinstance(recorder, Journal)
    recorder.close()


def test_parameters_have_the_same_names() -> None:
    for name, method in inspect.getmembers(Recorder, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method) == inspect.signature(getattr(Journal, name)), name
