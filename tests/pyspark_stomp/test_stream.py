"""The reader of modes spool and ack without a server and without Spark: what it remembers, what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_stomp import stream
from pyspark_stomp.errors import DataLost, StompError
from pyspark_stomp.options import Options
from pyspark_stomp.spool import Piece
from pyspark_stomp.stream import StoreStreamReader, read_pieces
from tests.pyspark_stomp.test_rows import block


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
