"""A MESSAGE as a row, and many of them as one Arrow batch.

The columns stand in `COLUMNS`, once; the schema of Spark and that of Arrow both come from there.  Spark takes a batch
only if its Arrow schema is to the letter the one that Spark itself makes of the columns.

`headers` holds what has no column of its own: not `ack` and `content-length`, which belong to the delivery, not to the
message.  Of repeated headers the first counts, and names and values are unescaped: that is the codec's work.

A `Collector` gathers columns as Python lists and makes arrays of them at once, the map of flat lists of names and
values: a third of what a list of dictionaries costs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

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
# Those that a message fills one value at a time, in the order in which `Collector.add` names them.
_PLAIN = ("destination", "message_id", "subscription", "redelivered", "content_type", "body", "seq")
SCHEMA = pa.schema([(name, kind) for name, _, kind in COLUMNS])


def ddl(*, body: bool) -> str:
    """The columns as Spark writes them."""
    return ", ".join([f"{name} {kind}" for name, kind, _ in COLUMNS if body or name != "body"])


def check_columns(asked: list[tuple[str, str]]) -> list[str]:
    """The names of the columns that a query wants, in its order.

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


def key_of(subscription: str, message_id: str, headers: dict[str, str], dedup_header: str) -> str:
    """By what a message is known again when it is redelivered; "": by nothing."""
    own = headers.get(dedup_header, "") if dedup_header else message_id
    return f"{subscription}\n{own}" if own else ""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that travel together.

    Attributes:
        octets: an Arrow stream of one batch with all columns.
        rows: how many; `keys` and `handles` have one entry for each.
    """

    octets: bytes
    rows: int
    keys: list[str]
    handles: list[tuple[str, str]]


class Collector:
    """Rows that come in, until they are taken as an Arrow batch.

    Args:
        dedup_header: see `key_of`.
        body: bodies are kept.

    Attributes:
        rows: gathered so far.
        octets: of their bodies and headers, nearly.
        since: `time.monotonic()` of the oldest row.
    """

    def __init__(self, *, dedup_header: str = "", body: bool = True) -> None:
        self._dedup_header = dedup_header
        self._with_body = body
        self.clear()

    def clear(self) -> None:
        """Forget what was gathered."""
        self.rows = self.octets = 0
        self.since = 0.0
        self.keys: list[str] = []
        self.handles: list[tuple[str, str]] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in _PLAIN}
        self._appends = tuple([column.append for column in self._columns.values()])
        self._names: list[str] = []
        self._values: list[str] = []
        self._offsets = [0]

    def key(self, message: Frame) -> str:
        """The key of a message, before it is added."""
        headers = message.head.headers
        return key_of(headers.get("subscription", ""), headers.get("message-id", ""), headers, self._dedup_header)

    def add(self, message: Frame, key: str = "") -> None:
        """Take a MESSAGE.  Its headers are used up: the codec shares only those of SEND frames."""
        if not self.rows:
            self.since = time.monotonic()
        destination, message_id, subscription, redelivered, content_type, body, seq = self._appends
        head = message.head
        headers = head.headers
        pop = headers.pop
        pop("content-length", None)
        own, subscribed = pop("message-id", ""), pop("subscription", "")
        self.keys.append(key)
        self.handles.append((subscribed, pop("ack", own)))
        destination(pop("destination", None))
        message_id(own)
        subscription(subscribed)
        redelivered(pop("redelivered", "") == "true")
        content_type(pop("content-type", None))
        body(message.body if self._with_body else None)
        seq(pop_seq(headers))
        self._names += headers
        self._values += headers.values()
        self._offsets.append(len(self._names))
        self.rows += 1
        self.octets += len(message.body) + head.size

    def batch(self) -> pa.RecordBatch:
        """All rows as a batch, which the collector forgets."""
        columns = self._columns | {"received_at": [time.time_ns() // 1000] * self.rows}
        arrays = {name: pa.array(columns[name], type=kind) for name, _, kind in COLUMNS if name in columns}
        arrays["headers"] = pa.MapArray.from_arrays(
            pa.array(self._offsets, pa.int32()), pa.array(self._names, pa.string()), pa.array(self._values, pa.string())
        )
        batch = pa.RecordBatch.from_arrays([arrays[name] for name, _, _ in COLUMNS], schema=SCHEMA)
        self.clear()
        return batch

    def take(self) -> Block:
        """All rows as a block, which the collector forgets."""
        rows, keys, handles = self.rows, self.keys, self.handles
        return Block(encode(self.batch()), rows, keys, handles)


def pop_seq(headers: dict[str, str]) -> int | None:
    """The number of a message in its log, where the server tells it: ours as `seq`, RabbitMQ as `x-stream-offset`."""
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
    if not dedup_header:
        ids = batch.column("message_id").to_pylist()
        return [key_of(one, own, {}, "") for one, own in zip(subscriptions, ids, strict=True)]
    headers = [dict(each) for each in batch.column("headers").to_pylist()]
    return [key_of(one, "", each, dedup_header) for one, each in zip(subscriptions, headers, strict=True)]
