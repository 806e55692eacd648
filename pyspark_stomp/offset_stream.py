"""The streaming source of mode offset: offsets are numbers of messages in streams that the server keeps.

Offset: {"v": 1, "mode": "offset", "at": {destination: the number of its next message}}.

`offset` explains what such a stream is and how it is read.  A batch is one range of numbers per destination, cut into
up to `numPartitions` tasks; each has a connection of its own.  `maxBytesPerTrigger` has no effect, because the size of
unread messages is not known.

**Where a query begins.**  Spark does not write down the initial offset, and asks for it again when the first batch has
to be run again.  So the initial offset is always the same: no destination has a number.  The first batch reads nothing;
its end, which is written down, is the meaning of `startingOffsets` at that moment.  A stream that is still empty gets
`EMPTY`, and its first number by another such batch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from .errors import OptionError
from .offset import EMPTY, OffsetRange, Probe, read_range
from .options import Options

_VERSION = 1
_POLL = 0.1  # seconds between two questions for the end of a stream, at least
_LEAST = 2_000  # a task is not worth its start below so many messages


def split(destination: str, start: int, end: int, count: int) -> list[OffsetRange]:
    """The numbers from start up to end in at most so many parts; always the same ones."""
    count = max(1, min(count, (end - start) // _LEAST))
    borders = [start + (end - start) * part // count for part in range(count + 1)]
    return [OffsetRange(destination, first, last) for first, last in itertools.pairwise(borders) if first < last]


def starts(options: Options, probe: Probe, names: list[str]) -> dict[str, int]:
    """The numbers with which reading begins; `EMPTY`: the stream is empty.

    Number 0 of `startingOffsets` is the beginning, whichever number that has.

    `OptionError`: `startingOffsets` leaves a destination out.
    """
    told = options.starting
    if isinstance(told, dict):
        if missing := [name for name in names if name not in told]:
            raise OptionError(f"option startingOffsets has no number for {', '.join(missing)}")
        zero = {name: EMPTY for name in names if not told[name]}
        first = probe.first(zero) if zero else {}
        return {name: told[name] or first.get(name, EMPTY) for name in names}
    nowhere = dict.fromkeys(names, EMPTY)
    if told == "earliest":
        return nowhere | probe.first(nowhere)
    return nowhere | {name: seq + 1 for name, seq in probe.last(tuple(names)).items()}


class OffsetStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query.

    Args:
        options: checked for streams.
        columns: of the query.
    """

    def __init__(self, options: Options, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._probe = Probe(options)
        self._target: dict[str, int] | None = None
        self._asked = 0.0

    def _offset(self, at: dict[str, int]) -> dict[str, Any]:
        return {"v": _VERSION, "mode": "offset", "at": at}

    def _at(self, offset: dict[str, Any]) -> dict[str, int]:
        if offset.get("v") != _VERSION or offset.get("mode") != "offset":
            raise OptionError(f"the checkpoint is not one of mode offset: its offset is {offset}")
        at = {str(name): int(seq) for name, seq in offset["at"].items()}
        if gone := set(at) - set(self._options.destination):
            raise OptionError(f"option destination lacks {', '.join(sorted(gone))}, which the checkpoint has")
        return at

    def initialOffset(self) -> dict[str, Any]:
        """The beginning of a query without a checkpoint: no number yet."""
        return self._offset({})

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._probe.last(self._options.destination)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; the start if there is nothing for it."""
        at = self._at(start)
        if unknown := [name for name in self._options.destination if name not in at]:
            return self._offset(at | starts(self._options, self._probe, unknown))
        last = self._target if self._target is not None else self._last(at)
        if begun := {name: seq for name, seq in at.items() if seq == EMPTY and name in last}:
            return self._offset(at | self._probe.first(begun))
        ends = {name: max(seq, last.get(name, seq - 1) + 1) for name, seq in at.items()}
        ahead = {name: seq for name, seq in at.items() if ends[name] > seq}
        if not ahead:
            return start
        if not isinstance(limit, ReadAllAvailable):
            rows = self._options.max_rows
            if isinstance(limit, ReadMaxRows):
                rows = min(rows, limit.max_rows)
            self._limit(ahead, ends, max(1, rows // len(ahead)))
        return self._offset(ends)

    def _last(self, at: dict[str, int]) -> dict[str, int]:
        time.sleep(max(0.0, self._asked + _POLL - time.monotonic()))
        self._asked = time.monotonic()
        return self._probe.last(self._options.destination, at)

    def _limit(self, ahead: dict[str, int], ends: dict[str, int], rows: int) -> None:
        """Move ends back.  Numbers that were left out do not count, or many batches would be empty."""
        far = {name: seq for name, seq in ahead.items() if ends[name] - seq > rows}
        firsts = self._probe.first(far) if far else {}
        for name, seq in far.items():
            ends[name] = min(ends[name], max(seq, firsts.get(name, seq)) + rows)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a batch; the same when it is run again."""
        begins, ends = self._at(start), self._at(end)
        count = max(1, self._options.partitions // max(1, len(begins)))
        return [part for name, seq in begins.items() if seq != EMPTY for part in split(name, seq, ends[name], count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(self._options, partition, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the server keeps the stream."""

    def stop(self) -> None:
        self._probe.close()

    def __getstate__(self) -> dict[str, Any]:
        """The state for the tasks, which only read."""
        return self.__dict__ | {"_probe": None}
