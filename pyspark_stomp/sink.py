"""`df.write` and `df.writeStream`: rows as messages, in transactions.

Columns: `body` (string or binary) is required; `destination`, `content_type`, `dedup_id` (strings) and `headers`
(map<string,string>) are optional.  The other columns of our own source are left out, so that rows that were read can be
written; any further column is refused.  An option counts for all rows and overrides the row: rows of our source carry
the destination that they came from, and would go back there.

A partition is a row of transactions: BEGIN, SENDs, COMMIT with a receipt, as many rows in each as `transactionRows` and
`transactionOctets` allow; our gateway holds 16 MiB.  The next begins when the receipt of the last has come.  If the
connection breaks, a transaction without its receipt is sent again.  With `maxRowsPerSecond` each task waits before a
transaction until its rows are due, and transactions are at most a tenth of a second's rows.

**Each message has an id that is the same whenever its row is written again**: `dedup-id`, by which our gateway drops
the second message, and `x-dedup-id`, for consumers behind other servers.  It is the value of `dedup_id` or of the
column that `dedupColumn` names, else `<query>-<batch>-<partition>-<row>`.  The latter repeats only what repeats: the
batch must consist of the same rows in the same partitions, so there must be no random repartition between a source and
this sink.  The first holds for the gateway's `dedup_window`, and a query must come back within it.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from gateway.client import Client
from gateway.codec import Version

from .errors import OptionError, StompError
from .offset import with_retries
from .options import Options
from .rows import COLUMNS

_KINDS = {
    "body": ("string", "binary"),
    "destination": ("string",),
    "content_type": ("string",),
    "dedup_id": ("string",),
    "headers": ("map<string,string>",),
}
_IGNORED = {name for name, _, _ in COLUMNS}
# Headers that the server sets for a delivery, or reads as a command in a SEND: no header of a row may set them.
_NOT_COPIED = frozenset(
    "ack browser content-length content-type dedup-id delivery-count destination first-seq gap heart-beat message-id "
    "receipt redelivered retained seq subscription transaction user-id x-dedup-id x-stream-offset".split()
)
_CONTROL = re.compile(r"[\x00-\x1f]")
_OVERHEAD = 150  # bytes of each header beside its value, in a held transaction; our gateway counts 100 and the name
_PARTS = 10  # transactions a second, if rows a second are limited


@dataclass(frozen=True)
class Plan:
    """What all tasks of a job or query share; `job` is an id, the same for all attempts."""

    options: Options
    columns: list[str]
    job: str

    @property
    def dedup(self) -> str:
        """The column with a message's id; "": there is none."""
        return self.options.dedup_column or ("dedup_id" if "dedup_id" in self.columns else "")

    @classmethod
    def of(cls, options: Options, schema: StructType, *, overwrite: bool) -> Plan:
        """Check options and columns before anything runs.  `OptionError`: one is wrong."""
        if overwrite:
            raise OptionError("mode overwrite has no meaning for messages; it must be append")
        if len(options.destination) > 1:
            raise OptionError("option destination of a sink must be one; a column destination names one for each row")
        if taken := sorted(_NOT_COPIED & set(options.send_headers)):
            raise OptionError(
                f"option sendHeaders cannot set {', '.join(taken)}, which the connector or the server sets"
            )
        kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
        for name, kind in kinds.items():
            if name == options.dedup_column:
                continue
            if name not in _KINDS and name not in _IGNORED:
                raise OptionError(f"there is no use for a column {name}; a sink has {', '.join(_KINDS)}")
            if kind not in _KINDS.get(name, (kind,)):
                raise OptionError(f"column {name} has the type {kind}; it must be {' or '.join(_KINDS[name])}")
        if "body" not in kinds:
            raise OptionError("there is no column body, which a sink must have")
        if options.dedup_column and options.dedup_column not in kinds:
            raise OptionError(f"option dedupColumn names {options.dedup_column}, which is no column")
        if not options.destination and "destination" not in kinds:
            raise OptionError("option destination is missing, and there is no column destination")
        return cls(options, list(kinds), uuid.uuid4().hex)


@dataclass
class Written(WriterCommitMessage):
    """The report of a task to the driver."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._plan, iterator, self._plan.job, "0")


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = context and context.getLocalProperty("sql.streaming.queryId")
        batch = context and context.getLocalProperty("streaming.sql.batchId")
        if not query or not batch:
            raise StompError("Spark gives no id of query and batch, without which rows cannot be written exactly once")
        return _write(self._plan, iterator, query, batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: the messages are sent."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: the batch is written again, and sent messages are known by their ids."""


def _write(plan: Plan, batches: Iterator[pa.RecordBatch], query: str, batch: str) -> Written:
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    sender = _Sender(plan, partition)
    try:
        encoder = _Encoder(plan, f"{query}-{batch}-{partition}")
        for each in batches:
            for row in encoder.rows(each):
                sender.add(row)
        sender.flush()
        return Written(encoder.row)
    finally:
        sender.close()


@dataclass(slots=True)
class _Row:
    """A message before its version is known; `number` is that of the row in its partition, from 0."""

    headers: dict[str, str]
    body: bytes
    number: int


class _Encoder:
    """Rows to headers and bodies; `row` counts them."""

    def __init__(self, plan: Plan, task: str) -> None:
        options = plan.options
        self._destination = options.destination[0] if options.destination else None
        self._content_type = options.content_type
        self._more = options.send_headers
        self._dedup = plan.dedup
        self._task = task
        self.row = 0

    def rows(self, batch: pa.RecordBatch) -> Iterator[_Row]:
        """The messages of a batch.  `OptionError`: a row has no destination or no id."""
        names = [name for name in batch.schema.names if name in _KINDS or name == self._dedup]
        columns = {name: batch.column(name).to_pylist() for name in names}
        for place in range(batch.num_rows):
            yield self._row({name: column[place] for name, column in columns.items()})
            self.row += 1

    def _row(self, row: dict[str, Any]) -> _Row:
        destination = self._destination or row.get("destination")
        if not destination:
            raise OptionError("a row has no destination, and option destination is missing")
        headers = {"destination": destination}
        if content_type := self._content_type or row.get("content_type"):
            headers["content-type"] = content_type
        if self._dedup:
            if (own := row[self._dedup]) is None:
                raise OptionError(f"a row has no id: its column {self._dedup} is null")
            dedup_id = str(own)
        else:
            dedup_id = f"{self._task}-{self.row}"  # without a colon, which would have to be escaped
        headers |= {"dedup-id": dedup_id, "x-dedup-id": dedup_id}
        for name, value in row.get("headers") or ():
            if value is not None and name not in _NOT_COPIED:
                headers[name] = value
        headers |= self._more
        body = row["body"]
        return _Row(headers, body.encode() if isinstance(body, str) else body or b"", self.row)


class _Sender:
    """Sends rows in transactions."""

    def __init__(self, plan: Plan, partition: int) -> None:
        self._options = options = plan.options
        self._partition = partition
        self._dedup = plan.dedup
        self._most = options.transaction_rows
        if options.max_rate:
            self._most = min(self._most, max(1, options.max_rate // _PARTS))
        self._due = time.monotonic()  # of the next transaction
        self._client: Client | None = None
        self._rows: list[_Row] = []
        self._size = 0
        self._transactions = 0

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()

    def add(self, row: _Row) -> None:
        """Take a row, and send those that fill a transaction."""
        size = len(row.body) + sum(map(len, row.headers.values())) + _OVERHEAD * (len(row.headers) + 1)
        if self._rows and self._size + size > self._options.transaction_bytes:
            self.flush()
        self._rows.append(row)
        self._size += size
        if len(self._rows) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Send the waiting rows; on return the server has them.  `StompError`: it does not."""
        if self._rows:
            self._wait()
            with_retries(self._options, self._attempt)
        self._rows = []
        self._size = 0

    def _wait(self) -> None:
        """Wait until these rows are due.  Delays of a slow server are not made up for."""
        if rate := self._options.max_rate:
            now = time.monotonic()
            time.sleep(max(0.0, self._due - now))
            self._due = max(self._due, now) + len(self._rows) / rate

    def _attempt(self) -> None:
        if self._client is None:
            self._client = Client(self._options.server())
        client = self._client
        self._transactions += 1
        name = f"t{self._transactions}"
        try:
            client.send(b"".join(self._frames(client, name)))
            client.request("COMMIT", {"transaction": name})
        except BaseException:
            self._client = None
            client.close()
            raise

    def _frames(self, client: Client, name: str) -> Iterator[bytes]:
        version = client.version
        yield client.encode("BEGIN", {"transaction": name})
        for row in self._rows:
            lines = "".join([f"{key}:{value}\n" for key, value in row.headers.items()])
            count = len(row.headers)
            plain = lines.count("\n") == lines.count(":") == count and "\\" not in lines
            if version.lenient or not plain or "\r" in lines or "\0" in lines or "" in row.headers:
                self._check(row, version)
                yield client.encode("SEND", {**row.headers, "transaction": name}, row.body)
                continue
            head = f"SEND\n{lines}transaction:{name}\ncontent-length:{len(row.body)}\n\n"
            yield b"%b%b\0" % (head.encode(), row.body)

    def _check(self, row: _Row, version: Version) -> None:
        """Refuse a header that the version cannot write: a server would drop it, cut it or end the connection.

        `OptionError`: names row and column.
        """
        for name, value in row.headers.items():
            if reason := _unspeakable(name, value, version):
                column = {"dedup-id": self._dedup, "content-type": "content_type", "destination": "destination"}
                place = (
                    f"row {row.number} of partition {self._partition}, column {column.get(name, f'headers, {name!r}')}"
                )
                raise OptionError(f"{place}: STOMP {version.name} has no way to write {reason}")


def _unspeakable(name: str, value: str, version: Version) -> str:
    """The part of a header that the version cannot write; "": it can write all of it."""
    text = name + value
    if not name:
        return "a header without a name"
    if "\0" in text:
        return "NUL in a header"
    if version.lenient:
        if ":" in name:
            return "a colon in a header's name"
        return "a control character in a header" if _CONTROL.search(text) else ""
    return "CR in a header" if "\r" in text and "\r" not in version.escapes else ""
