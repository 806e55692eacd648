"""Counts of the rows of a span, made where they are read: Arrow goes over each file once, at a tenth of Spark's CPU.

Spark's workers call `of_files`, or `of_rows` if only Spark can read the archive.  They return partial rows, of three
kinds, by `of`:

    STEPS           by step, event and bucket: count, and bytes
    DESTINATIONS    by destination, event and bucket: the same two
    EVENTS          by gateway, process and event; the rare ones also by the columns that a report tells apart: count,
                    first, last, dropped_rows, depth

Columns that such a row does not have are null.  Rows with equal `KEYS` are merged as `MERGES` says, in any order.  A
worker holds at most some batches and `_HELD` partial rows, however many names clients make up.

This module goes to the workers by value, so they need pyarrow and no package of ours: it uses only constants of our
other modules.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from gateway.archive.parquet_files import SCHEMA
from gateway.broker.model.destinations import REPLY_QUEUE as _REPLY_QUEUE
from gateway.broker.model.destinations import REPLY_TOPIC as _REPLY_TOPIC

from ..jobs.figures import EVENTS as _COUNTED
from ..jobs.latency import STARTS as _STARTS

PLENTIFUL = ("accepted", "delivered", "redelivered", "acked")  # events that are only counted: nine of ten rows
REASONED = ("nacked", "dead_lettered", "dropped", "disconnected", "error", "tx_aborted")
"""Events that are counted by reason and destination, as far as they have them."""

STEPS, DESTINATIONS, EVENTS = "steps", "destinations", "events"

_TEXT, _NUMBER, _TIME = pa.string(), pa.int64(), SCHEMA.field("ts").type
_TEXTS = ("of", "event", "destination", "gateway", "transport", "reason", "session", "subscription")
_KEYS = {**dict.fromkeys(_TEXTS, _TEXT), "epoch": _NUMBER, "at": _TIME, "bucket": pa.int32()}
KEYS = tuple(_KEYS)
MERGES = {"count": "sum", "octets": "sum", "first": "min", "last": "max", "dropped_rows": "sum", "depth": "max"}
PARTIAL = pa.schema(_KEYS | dict.fromkeys(MERGES, _NUMBER) | dict.fromkeys(("first", "last"), _TIME))
"""A partial row: its keys, and the merged columns."""
_SQL = {_TEXT: "string", _NUMBER: "bigint", _TIME: "timestamp", pa.int32(): "int"}
DDL = ", ".join([f"{field.name} {_SQL[field.type]}" for field in PARTIAL])

READ = (
    *("gateway", "epoch", "ts", "event", "transport", "session", "subscription", "destination", "size"),
    *("delivery_count", "queue_us", "ack_us", "depth", "oldest_us", "reason", "dropped_rows"),
)
"""The columns that are read."""
_PROCESS = ["gateway", "epoch", "event", "ts"]
_TRAFFIC = ["ts", "event", "destination", "size", "queue_us", "ack_us"]

# A text as its number among those of a batch.
_REPEATED = [name for name in READ if SCHEMA.field(name).type == _TEXT]
_FORMAT = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=_REPEATED))
_AS_READ = pa.schema(
    {name: SCHEMA.field(name).type for name in READ} | dict.fromkeys(_REPEATED, pa.dictionary(pa.int32(), _TEXT))
)
_TEMPORARY = f"(?s)^({_REPLY_QUEUE}|{_REPLY_TOPIC}).*"
# Characters of a reason.  A client may write anything at its end, which would make each reason another one.
_LONGEST_REASON = 300
_ROWS = 128 * 1024  # rows counted at once
_HELD = 500_000  # partial rows that a worker holds, at most


def of_files(
    batches: Iterable[pa.RecordBatch], since: datetime, until: datetime, seconds: int, limit: int
) -> Iterator[pa.RecordBatch]:
    """The partial rows of the files in column `path`.  `ValueError`: a file cannot be read.

    A step has so many `seconds`; a delivery older than `limit` microseconds is too old.
    """
    wanted = (pc.field("ts") >= pa.scalar(since, _TIME)) & (pc.field("ts") < pa.scalar(until, _TIME))
    paths = [path for batch in batches for path in batch.column("path").to_pylist()]
    return _merged(_partial(table, seconds, limit) for path in paths for table in _read(path, wanted))


def of_rows(
    batches: Iterable[pa.RecordBatch], seconds: int, limit: int, *, at_once: int = _ROWS, held: int = _HELD
) -> Iterator[pa.RecordBatch]:
    """The partial rows of rows of the span, which have the columns `READ`."""
    return _merged((_partial(table, seconds, limit) for table in _gathered(batches, at_once)), held)


def _read(path: str, wanted: pc.Expression) -> Iterator[pa.Table]:
    """The wanted rows of a file; columns that are newer than the file are null."""
    try:
        file = ds.dataset(path, _AS_READ, _FORMAT, partitioning=None)
        for batch in file.to_batches(filter=wanted, batch_size=_ROWS, batch_readahead=2):
            yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(f"{said}\nwhile reading file {path}\n") from None  # as Spark words it; `errors` knows


def _gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Tables of so many rows, or some more."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum([each.num_rows for each in held]) >= rows:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _merged(tables: Iterable[pa.Table], most: int = _HELD) -> Iterator[pa.RecordBatch]:
    """Partial rows, with few equal keys among them."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum([each.num_rows for each in held]) > most:
            held = [_summed(pa.concat_tables(held), KEYS)]
            if held[0].num_rows > most // 2:
                yield from held.pop().to_batches()
    if held:
        yield from _summed(pa.concat_tables(held), KEYS).to_batches()


def _summed(table: pa.Table, keys: Sequence[str], **constants: str) -> pa.Table:
    """Partial rows, one for equal keys; missing columns are null."""
    values = {name: how for name, how in MERGES.items() if name in table.column_names}
    sums = table.group_by(list(keys)).aggregate(list(values.items()))
    columns = {name: sums[name] for name in keys}
    columns |= {name: sums[f"{name}_{how}"] for name, how in values.items()}
    columns |= {name: pa.repeat(value, len(sums)) for name, value in constants.items()}
    missing = [name for name in PARTIAL.names if name not in columns]
    columns |= {name: pa.nulls(len(sums)) for name in missing}
    return pa.table({name: columns[name] for name in PARTIAL.names}).cast(PARTIAL)


def _partial(table: pa.Table, seconds: int, limit: int) -> pa.Table:
    counted = _by_bucket(table, seconds)
    plentiful = _is(table["event"], PLENTIFUL)
    return pa.concat_tables(
        [
            _summed(counted, ("at", "event", "bucket"), of=STEPS),
            _summed(counted, ("destination", "event", "bucket"), of=DESTINATIONS),
            _summed(_seen(table.select(_PROCESS).filter(plentiful)), ("gateway", "epoch", "event"), of=EVENTS),
            _told_apart(table.filter(pc.invert(plentiful)), limit),
        ]
    )


def _by_bucket(table: pa.Table, seconds: int) -> pa.Table:
    """Counts and bytes by step, destination, event and bucket."""
    # A message that a browser got was shown, and not delivered.
    browsed = pc.and_(pc.equal(table["event"], "delivered"), pc.equal(pc.fill_null(table["delivery_count"], 1), 0))
    table = table.select(_TRAFFIC).filter(pc.and_(_is(table["event"], _COUNTED), pc.invert(browsed)))
    event, step = table["event"], seconds * 1_000_000
    acked = pc.if_else(_is(event, ("acked", "nacked")), table["ack_us"], None)
    took = pc.if_else(_is(event, ("delivered", "redelivered")), table["queue_us"], acked)
    buckets = np.searchsorted(_STARTS, pc.fill_null(took, -1).to_numpy(), "right") - 1
    columns = {
        "at": pc.multiply(pc.divide(pc.cast(table["ts"], _NUMBER), step), step),
        "destination": table["destination"],
        "event": event,
        "bucket": pa.array(buckets, pa.int32(), mask=buckets < 0),
        "count": pa.repeat(1, len(table)),
        "octets": pc.fill_null(table["size"], 0),
    }
    sums = _summed(pa.table(columns), ("at", "destination", "event", "bucket"))
    return sums.set_column(KEYS.index("destination"), "destination", _folded(sums["destination"]))


def _told_apart(table: pa.Table, limit: int) -> pa.Table:
    """Counts of the rare events; keys that an event does not have, or that are not told apart, are null."""
    event = table["event"]
    reasoned, gap = _is(event, REASONED), _is(event, ("journal_dropped",))
    old = pc.greater(pc.fill_null(table["oldest_us"], 0), limit)
    suspect = pc.and_(_is(event, ("gauge_subscription",)), old)
    placed = pc.or_(pc.or_(reasoned, _is(event, ("gauge_destination",))), suspect)
    minute = pc.if_else(_is(event, ("dead_lettered",)), pc.floor_temporal(table["ts"], unit="minute"), None)
    told = {
        "transport": _where(_is(event, ("connected",)), table["transport"]),
        "destination": _folded(_where(placed, table["destination"])),
        "reason": pc.utf8_slice_codeunits(_where(pc.or_(reasoned, gap), table["reason"]), 0, _LONGEST_REASON),
        "at": pc.if_else(gap, table["ts"], minute),
        "session": _where(suspect, table["session"]),
        "subscription": _where(suspect, table["subscription"]),
    }
    seen = _seen(table.select([*_PROCESS, "dropped_rows", "depth"]))
    for name, values in told.items():
        seen = seen.append_column(name, values)
    return _summed(seen, ("gateway", "epoch", "event", *told), of=EVENTS)


def _folded(destinations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Temporary destinations are one of a kind, as in `jobs.columns`."""
    return pc.replace_substring_regex(destinations.cast(_TEXT), _TEMPORARY, r"\1*")


def _seen(table: pa.Table) -> pa.Table:
    """The table with the merged columns of rows that are not merged yet."""
    seen = {"count": pa.repeat(1, len(table)), "first": table["ts"], "last": table["ts"]}
    for name, values in seen.items():
        table = table.append_column(name, values)
    return table


def _is(event: pa.ChunkedArray, names: Sequence[str]) -> pa.ChunkedArray:
    return pc.is_in(event, value_set=pa.array(names))


def _where(wanted: pa.ChunkedArray, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(wanted, texts.cast(_TEXT), None)
