"""The moments at which a query is most easily killed in the wrong way, each with a name.

In mode spool, from the message to the row that is done with:

    written    half of a segment is on the disk, under the name that does not count
    kept       the segment is there, its ACKs are not sent
    acked      the ACKs are sent, nothing is confirmed, no batch has the rows
    state      the state says that rows are done with, their segments are still there

In mode ack:

    due        Spark has committed rows, their ACKs are not sent
    half       half of the bytes of these ACKs are sent

In mode offset, and of the sink:

    planned    the range of a batch is written down, nothing is read
    read       a task has the first rows of its range
    sent       a task has sent all messages of a transaction, not its COMMIT
    committed  the server has confirmed the COMMIT, the task has not ended

And of every query:

    done       the sink has all of a batch, Spark has not written that down

A process that gets there leaves a file, its marker, and stops itself (SIGSTOP), in the middle of whatever its threads
do; it waits to be killed.  The moments are reached by wrapping methods of the connector in that process.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from gateway.client import Client
from pyspark_stomp import DefaultSource
from pyspark_stomp.offset import _Reading
from pyspark_stomp.offset_stream import OffsetStreamReader
from pyspark_stomp.receiver import Receiver
from pyspark_stomp.sink import StreamWriter, Written
from pyspark_stomp.spool import Spool

WINDOWS = {
    "spool": ("written", "kept", "acked", "state", "done"),
    "ack": ("due", "half", "done"),
    "offset": ("planned", "read", "sent", "committed", "done"),
}


@dataclass
class Window:
    """A moment, and how often it passes before the process stops."""

    name: str
    marker: Path  # the file that says that it is reached
    after: int = 1
    installed: bool = field(default=False, compare=False)

    def reach(self) -> None:
        self.after -= 1
        if self.after == 0:
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    def install(self) -> None:
        if not self.installed:
            self.installed = True
            _INSTALLS.get(self.name, _nothing)(self)


def _nothing(window: Window) -> None:
    """Window `done`, which the sink reaches by itself."""


def _replace(owner: type[Any], name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def _written(window: Window) -> None:
    original = Spool._write

    def write(spool: Spool, path: Path, data: bytes) -> None:
        if path.suffix == ".arrow":
            path.with_name("_" + path.name).write_bytes(data[: len(data) // 2])
            window.reach()
        original(spool, path, data)

    _replace(Spool, "_write", write)


def _state(window: Window) -> None:
    original = Spool._write

    def write(spool: Spool, path: Path, data: bytes) -> None:
        original(spool, path, data)
        if path.suffix == ".json" and spool.first:
            window.reach()

    _replace(Spool, "_write", write)


def _at_acknowledging(window: Window, *, behind: bool) -> None:
    original = Receiver._acknowledge

    def acknowledge(receiver: Receiver, client: Client, handles: list[tuple[str, str]], end: int) -> None:
        if handles and not behind:
            window.reach()
        original(receiver, client, handles, end)
        if handles and behind:
            window.reach()

    _replace(Receiver, "_acknowledge", acknowledge)


def _half(window: Window) -> None:
    original = Client.send

    def send(client: Client, data: bytes) -> None:
        if data.startswith(b"ACK") and data.count(b"\0") > 1:
            original(client, data[: len(data) // 2])
            window.reach()
            data = data[len(data) // 2 :]
        original(client, data)

    _replace(Client, "send", send)


def _planned(window: Window) -> None:
    original = OffsetStreamReader.partitions

    def partitions(reader: OffsetStreamReader, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if parts := original(reader, start, end):
            window.reach()
        return parts

    _replace(OffsetStreamReader, "partitions", partitions)


def _read(window: Window) -> None:
    original = _Reading.batches

    def batches(reading: _Reading, client: Client) -> Iterator[pa.RecordBatch]:
        for batch in original(reading, client):
            yield batch
            window.reach()

    _replace(_Reading, "batches", batches)


def _at_commit(window: Window, *, behind: bool) -> None:
    original = Client.request

    def request(client: Client, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        if command == "COMMIT" and not behind:
            window.reach()
        original(client, command, headers, body)
        if command == "COMMIT" and behind:
            window.reach()

    _replace(Client, "request", request)


_INSTALLS: dict[str, Callable[[Window], None]] = {
    "written": _written,
    "kept": functools.partial(_at_acknowledging, behind=False),
    "acked": functools.partial(_at_acknowledging, behind=True),
    "state": _state,
    "due": functools.partial(_at_acknowledging, behind=False),
    "half": _half,
    "planned": _planned,
    "read": _read,
    "sent": functools.partial(_at_commit, behind=False),
    "committed": functools.partial(_at_commit, behind=True),
}


# The last moment in Spark, whose writers run in processes of their own.


class DyingWriter(StreamWriter):
    """A writer that stops the process of the driver's part."""

    window: Window

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.window.name == "done" and any(isinstance(each, Written) and each.rows for each in messages):
            self.window.reach()


class Dying(DefaultSource):
    """`format("dying")`: a sink with the options `window` and `marker`."""

    def __init__(self, options: dict[str, str]) -> None:
        self.window = Window(options.pop("window"), Path(options.pop("marker")))
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        plain = super().streamWriter(schema, overwrite)
        assert isinstance(plain, StreamWriter)
        writer = DyingWriter(plain._plan)
        writer.window = self.window
        return writer
