"""The streaming source of modes spool and ack: offsets are numbers of rows in a store that a thread fills.

Offset: {"v": 1, "mode": "spool", "spool": identity, "n": number of the next row}; in mode ack without the identity.

**When a batch is committed.**  Spark calls `commit(end)` when it plans the next batch, and never for the last one.  It
asks `latestOffset(start)` first, and there `start` is the end of a batch whose commit is in the checkpoint: Spark plans
nothing while a batch is unfinished, and after a restart it runs that batch again before it asks.  So rows are released
there already.  An idle query acknowledges its last batch with the next trigger, and one with availableNow before it
ends, without the empty batch that a changed offset would cost.

**availableNow** ends when everything has been acknowledged and confirmed, and nothing has come for `idleTimeoutMs`: a
STOMP server does not say how many messages it has.  As long as messages keep coming, the query goes on.

Spark kills the process of a reader whenever it likes.  Nothing here relies on an orderly end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from .errors import DataLost, OptionError
from .memory import Memory
from .options import Options
from .receiver import Receiver
from .spool import Piece, Spool

_VERSION = 1
# Seconds that an idle query's trigger waits for messages, instead of asking a hundred times a second.
_POLL = 0.1
_NO_LIMIT = 2**62


class Pieces(InputPartition):
    """The rows of one task."""

    def __init__(self, pieces: list[Piece]) -> None:
        super().__init__(None)
        self.pieces = pieces


def deal(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Pieces in their order, in so many parts of nearly as many rows; fewer if there are not enough."""
    total = sum([piece.take for piece in pieces])
    parts: list[list[Piece]] = []
    rows = 0
    for piece in pieces:
        if not parts or rows * count >= total * len(parts):
            parts.append([])
        parts[-1].append(piece)
        rows += piece.take
    return parts


def read_pieces(pieces: Sequence[Piece], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of pieces, with the columns of the query.

    `DataLost`: a segment's file is not on this node.  `OptionError`: it belongs to another user.
    """
    for piece in pieces:
        try:
            source = pa.memory_map(piece.source) if isinstance(piece.source, str) else pa.py_buffer(piece.source)
            batch = pa.ipc.open_stream(source).read_next_batch()
        except FileNotFoundError as error:
            raise DataLost(f"a spool segment is not on this node, so sharedSpool must be false: {error}") from None
        except PermissionError as error:
            sentence = "only its owner may read a spool; with sharedSpool tasks must run as the driver's user"
            raise OptionError(f"{sentence}: {error}") from None
        yield batch.slice(piece.skip, piece.take).select(columns)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query.  It opens its store and its connection with the first question, not before.

    Args:
        options: checked for streams.
        columns: of the query.
    """

    def __init__(self, options: Options, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._store: Spool | Memory | None = None
        self._receiver: Receiver | None = None
        self._until_idle = False

    # Offsets.

    def _offset(self, row: int) -> dict[str, Any]:
        name = {"spool": self._spool().name} if self._options.mode == "spool" else {}
        return {"v": _VERSION, "mode": self._options.mode, **name, "n": row}

    def _row(self, offset: dict[str, Any]) -> int:
        mode = self._options.mode
        if offset.get("v") != _VERSION or offset.get("mode") != mode:
            raise OptionError(f"the checkpoint is not one of mode {mode}: its offset is {offset}")
        if mode == "spool" and offset["spool"] != self._spool().name:
            raise DataLost(
                f"the checkpoint belongs to another spool than {self._options.spool_dir}: the rows between them are "
                "missing. Give the query its own spool again, or a new checkpoint"
            )
        return int(offset["n"])

    def _spool(self) -> Spool:
        if self._store is None:
            options = self._options
            self._store = Spool(
                Path(options.spool_dir),
                options.in_flight,
                most=options.max_spool,
                dedup_header=options.dedup_header,
                shared=options.shared_spool,
            )
        assert isinstance(self._store, Spool)
        return self._store

    def _begin(self, row: int) -> tuple[Spool | Memory, Receiver]:
        """The store and the thread that fills it; mode ack begins to count at that row."""
        if self._options.mode == "spool":
            self._spool()
        elif self._store is None:
            self._store = Memory(row, self._options.in_flight)
        assert self._store is not None
        if self._receiver is None:
            self._receiver = Receiver(self._options, self._store)
        return self._store, self._receiver

    # What Spark asks.

    def initialOffset(self) -> dict[str, Any]:
        """The beginning of a query without a checkpoint: the first row of its spool."""
        return self._offset(self._spool().first if self._options.mode == "spool" else 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends when no more messages come."""
        self._until_idle = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; the start if there is nothing for it.  `StompError`: the receiver has given up."""
        row = self._row(start)
        store, receiver = self._begin(row)
        store.release(row)
        if not self._wait(receiver, row):
            return start
        rows, size = self._options.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = min(rows, limit.max_rows)
        elif isinstance(limit, ReadAllAvailable):
            rows = size = _NO_LIMIT
        return self._offset(store.cut(row, rows, size))

    def _wait(self, receiver: Receiver, row: int) -> bool:
        """Wait for rows beyond that one; True if there are some."""
        while not receiver.wait_beyond(row, _POLL):
            if receiver.failure is not None:
                raise receiver.failure
            if not self._until_idle or receiver.idle_for() * 1000 >= self._options.idle_timeout:
                return False
        return True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The rows of a batch.  `DataLost`: the spool does not have them."""
        first, last = self._row(start), self._row(end)
        if self._options.mode == "spool":
            pieces = self._spool().pieces(first, last)
        else:
            pieces = [] if self._store is None else self._store.pieces(first, last)
        return [Pieces(part) for part in deal(pieces, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        return read_pieces(partition.pieces, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """The rows of all batches up to there are committed."""
        if self._store is not None:
            self._store.release(self._row(end))

    def stop(self) -> None:
        """End the connection.  Spark seldom asks for it."""
        if self._receiver is not None:
            self._receiver.stop()
        if isinstance(self._store, Spool):
            self._store.close()

    def __getstate__(self) -> dict[str, Any]:
        """The state for the tasks, which only read."""
        return self.__dict__ | {"_store": None, "_receiver": None}
