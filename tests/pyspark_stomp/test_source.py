"""The data source and its reader without Spark: when they say what is wrong, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_stomp import DefaultSource, stream
from pyspark_stomp.errors import DataLost, OptionError, StompError
from pyspark_stomp.options import Options
from pyspark_stomp.rows import ddl
from pyspark_stomp.spool import Piece
from pyspark_stomp.stream import StoreStreamReader, read_pieces
from tests.pyspark_stomp.test_rows import block


def test_a_missing_destination_is_an_error_of_the_schema() -> None:
    with pytest.raises(OptionError, match="option destination is missing"):
        DefaultSource({}).schema()
    assert DefaultSource({"destination": "/queue/a"}).schema() == ddl(body=True)


def test_a_misspelt_option_is_an_error_at_once() -> None:
    with pytest.raises(OptionError, match=r"is destination meant\?"):
        DefaultSource({"destinatoin": "/queue/a"})


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.initialOffset(),
        lambda reader: reader.getDefaultReadLimit(),
        lambda reader: reader.prepareForTriggerAvailableNow(),
        lambda reader: reader.latestOffset({}, ReadAllAvailable()),
        lambda reader: reader.partitions({}, {}),
    ],
)
@pytest.mark.parametrize("told", [{}, {"destination": "/queue/a"}, {"destination": "/topic/a", "mode": "offset"}])
def test_a_stream_fails_at_its_first_call(told: dict[str, str], ask: Callable[[Any], object]) -> None:
    """Spark hides an exception of `streamReader`: it then stops a reader that it does not have."""
    schema = StructType().add("colour", "string") if "mode" in told else StructType()
    reader = DefaultSource(told).streamReader(schema)
    assert isinstance(reader, DataSourceStreamReader)
    assert isinstance(reader, SupportsTriggerAvailableNow)
    with pytest.raises(OptionError, match=r"option destination|option spoolDir|names a column colour"):
        ask(reader)
    reader.stop()


class NoReceiver:
    failure = None

    def __init__(self, options: Options, store: object) -> None:
        self.store = store

    def wait_beyond(self, row: int, timeout: float) -> bool:
        return False


@pytest.mark.parametrize("mode", ["spool", "ack"])
def test_ids_remembered_for_each_subscription(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sends `prefetch` messages ahead of their ACKs on each subscription, not in all."""
    monkeypatch.setattr(stream, "Receiver", NoReceiver)
    told = {"destination": "/queue/a,/queue/b,/queue/c", "prefetch": "2", "mode": mode, "spoolDir": str(tmp_path)}
    reader = StoreStreamReader(Options.of(told), ["body"])
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    store = reader._store
    assert store is not None
    store.keep(block(range(8)))
    if mode == "spool":
        reader._spool().confirmed(8)
    store.release(8)
    assert [number for number in range(8) if store.knows(f"/queue/a\nm{number}")] == [2, 3, 4, 5, 6, 7]


def test_a_segment_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("pyarrow.memory_map", refused)
    with pytest.raises(StompError, match=r"must run as the driver's user.*Permission denied") as caught:
        list(read_pieces([Piece(str(tmp_path / "a"), 0, 1)], ["body"]))
    assert not isinstance(caught.value, DataLost)


def test_a_spool_and_a_checkpoint_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "Receiver", NoReceiver)
    told = {"destination": "/queue/a"}
    one, other = [StoreStreamReader(Options.of(told | {"spoolDir": str(tmp_path / name)}), ["body"]) for name in "ab"]
    begun = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    assert one.partitions(begun, begun) == []
    with pytest.raises(DataLost, match="the checkpoint belongs to another spool"):
        other.partitions(begun, begun)
