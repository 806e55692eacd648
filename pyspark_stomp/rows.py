"""A MESSAGE as a row, and many of them as one Arrow batch.

The columns stand in `COLUMNS`, once; the schema of Spark and that of Arrow are both made of them.  Spark takes a batch
only if its Arrow schema is exactly the one that Spark itself makes of the columns.

`headers` holds the headers without a column of their own, except `ack` and `content-length`, which belong to the
delivery and not to the message.  Of repeated headers the first counts, and names and values are unescaped by the codec.

A `Collector` makes arrays column by column, of a few hundred messages at a time: so their strings are still in the
processor's cache, and their memory serves the next ones.  The map is made of flat lists of names and values, at a third
of the cost of a list of dictionaries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate, chain

import pyarrow as pa

from gateway.codec import Frame

from .errors import OptionError

COLUMNS = (
    ("destination", "string", pa.string()),
    ("message_id", "string", pa.string()),
    ("subscription", "string", pa.string()),  # the destination as it was subscribed to
    ("redelivered", "boolean", pa.bool_()),
    ("content_type", "string", pa.string()),
    ("headers", "map<string,string>", pa.map_(pa.string(), pa.string())),
    ("body", "binary", pa.binary()),
    ("received_at", "timestamp", pa.timestamp("us", tz="UTC")),
    ("seq", "bigint", pa.int64()),
)
# Messages that become arrays together.
_TOGETHER = 512
SCHEMA = pa.schema([(name, kind) for name, _, kind in COLUMNS])


def ddl(*, body: bool) -> str:
    """The columns as Spark writes them."""
    return ", ".join([f"{name} {kind}" for name, kind, _ in COLUMNS if body or name != "body"])


def check_columns(asked: list[tuple[str, str]]) -> list[str]:
    """The names of the columns of a query, in its order.

    Args:
        asked: name and type of each, as Spark writes them.

    Raises:
        OptionError: there is no such column, or it has another type.
    """
    kinds = {name: kind for name, kind, _ in COLUMNS}
    for name, kind in asked:
        if name not in kinds:
            raise OptionError(f"the schema names a column {name}; there are {', '.join(kinds)}")
        if kind != kinds[name]:
            raise OptionError(f"the schema gives column {name} the type {kind}; it is {kinds[name]}")
    return [name for name, _ in asked]


def key_of(subscription: str, own: str) -> str:
    """The key by which a redelivered message is recognized; "": it has none.

    Args:
        own: its `message-id`, or the header that replaces it.
    """
    return f"{subscription}\n{own}" if own else ""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that travel together."""

    data: bytes  # an Arrow stream of one batch with all columns
    rows: int  # how many; `keys` and `handles` have one entry for each
    keys: list[str]
    handles: list[tuple[str, str]]


class Collector:
    """Rows that come in, until they are taken as an Arrow batch.

    Args:
        dedup_header: by which a redelivered message is recognized; its `message-id` if empty.
        body: bodies are kept.

    Attributes:
        size: bytes of bodies and headers, nearly.
        since: `time.monotonic()` of the oldest row.
        keys: of the rows.
    """

    def __init__(self, *, dedup_header: str = "", body: bool = True) -> None:
        self._id = dedup_header or "message-id"
        self._with_body = body
        self.clear()

    def clear(self) -> None:
        self.size = 0
        self.since = 0.0
        self.keys: list[str] = []
        self._handles: list[tuple[str, str]] = []
        self._waiting: list[Frame] = []
        self._batches: list[pa.RecordBatch] = []

    @property
    def rows(self) -> int:
        return len(self.keys)

    @property
    def handles(self) -> list[tuple[str, str]]:
        """Subscription and handle of each row's ACK, in the order in which they came; more may be appended."""
        self._fold()
        return self._handles

    def key(self, message: Frame) -> str:
        """The key of a message, before it is added."""
        headers = message.head.headers
        return key_of(headers.get("subscription", ""), headers.get(self._id, ""))

    def add(self, message: Frame, key: str = "") -> None:
        """Take a MESSAGE.  Its headers are consumed: the codec shares only those of SEND frames."""
        if not self.keys:
            self.since = time.monotonic()
        self.keys.append(key)
        self.size += len(message.body) + message.head.size
        self._waiting.append(message)
        if len(self._waiting) == _TOGETHER:
            self._fold()

    def _fold(self) -> None:
        """Make a batch of the waiting messages."""
        if not self._waiting:
            return
        headers = [message.head.headers for message in self._waiting]
        ids = [each.pop("message-id", "") for each in headers]
        subscriptions = [each.pop("subscription", "") for each in headers]
        handles = [each.pop("ack", own) for each, own in zip(headers, ids, strict=True)]
        self._handles += zip(subscriptions, handles, strict=True)
        for each in headers:
            each.pop("content-length", None)
        columns = {
            "destination": [each.pop("destination", None) for each in headers],
            "message_id": ids,
            "subscription": subscriptions,
            "redelivered": [each.pop("redelivered", "") == "true" for each in headers],
            "content_type": [each.pop("content-type", None) for each in headers],
            "body": [message.body if self._with_body else None for message in self._waiting],
            "received_at": [time.time_ns() // 1000] * len(headers),
            "seq": [pop_seq(each) for each in headers],
        }
        arrays = {name: pa.array(columns[name], type=kind) for name, _, kind in COLUMNS if name in columns}
        arrays["headers"] = pa.MapArray.from_arrays(
            pa.array([*accumulate(map(len, headers), initial=0)], pa.int32()),
            pa.array([*chain.from_iterable(headers)], pa.string()),
            pa.array([*chain.from_iterable(map(dict.values, headers))], pa.string()),
        )
        self._batches.append(pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA))
        self._waiting = []

    def batch(self) -> pa.RecordBatch:
        """All rows, of which there is at least one, as a batch; the collector is empty then."""
        self._fold()
        [batch] = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
        self.clear()
        return batch

    def take(self) -> Block:
        """All rows as a block; the collector is empty then."""
        rows, keys, handles = self.rows, self.keys, self.handles
        return Block(encode(self.batch()), rows, keys, handles)


def pop_seq(headers: dict[str, str]) -> int | None:
    """The number of a message in its stream, if the server sends it: ours as `seq`, RabbitMQ as `x-stream-offset`."""
    told = headers.pop("seq", None)
    other = headers.pop("x-stream-offset", None)
    if told is None and (told := other) is None:
        return None
    return int(told) if told.isdigit() else None


def encode(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # pyarrow has no types


def keys_of(batch: pa.RecordBatch, dedup_header: str) -> list[str]:
    """The keys of rows that were kept."""
    subscriptions = batch.column("subscription").to_pylist()
    if dedup_header:
        ids = [dict(each).get(dedup_header, "") for each in batch.column("headers").to_pylist()]
    else:
        ids = batch.column("message_id").to_pylist()
    return [key_of(subscription, own) for subscription, own in zip(subscriptions, ids, strict=True)]
