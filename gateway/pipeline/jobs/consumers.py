"""Consumers that were stuck or slow, and from when to when.

The gateway looks every few seconds at each subscription that has deliveries without ACK, and records the age of the
oldest: these are the looks (`gauge_subscription`).

    over        a look at which the oldest is older than the limit
    stuck       over, and since the look before, and the limit before that, nothing was settled
    slow        over, but something was: by ACK or NACK
    raised      at the second look in a row that is over
    cleared     at the second look in a row that is not, or at once when nothing is pending, or the subscription ended

A lasting alarm changes between stuck and slow, and is told again every few minutes (`held`).  If nothing is pending
there may be no looks: when three are missing, the alarm is over.  A new start of a gateway ends its alarms, too.  The
state of a `Suspect` depends on the order of its rows alone: the alarms and their times are the same however the rows
were split into batches.

Spark makes millions of rows few.  A partial row is one of these, by `what`:

| `what` | stands for | columns beside `gateway`, `epoch`, `what`, `first`, `last`, `ts` |
|---|---|---|
| `look` | a `gauge_subscription` | all |
| `settled` | all `acked` and `nacked` between two looks at it | `session`, `principal`, `peer`, `subscription` |
| `end` | an `unsubscribed` | the same, and `destination` |
| `gone` | a `disconnected` | `session`, `principal`, `peer` |
| `time` | all other rows: they tell that time has passed | |

`first` and `last` are the least and the greatest `seq` of its rows, `ts` their latest time in microseconds since 1970.
So it is known of two looks, five seconds apart or more, whether something was settled between them.  Settled rows are
matched by subscription: their destination is the message's, and not that of a pattern or a durable subscription.

The driver `fold`s: it goes through the rows of those subscriptions that have an alarm, or are over the limit, and keeps
the suspects for the next batch.  All others cost it nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from gateway.journal import schema

from .job import SIZE, AlarmLimits, Job, State, cut, fitting, iso, last_day

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

EVENTS = tuple([event.name for event in schema.EVENTS])
COLUMNS = (
    *("gateway", "epoch", "seq", "ts", "event", "session", "principal", "peer", "subscription", "destination"),
    *("pending", "oldest_us"),
)

_NAMES = ("session", "principal", "peer", "subscription")
_WHOSE = ("gateway", "epoch", "session", "subscription", "destination")
_SUMMED = ("first", "last", "ts", "pending", "oldest_us")
_TICK = 5

Span = tuple[int, int]  # first and last `seq`
# Alarms of a snapshot, at most, and rows that say that one was raised or cleared.
_MOST_RAISED = 1000
_MOST_CHANGES = 1000

STUCK, SLOW = "stuck", "slow"
RAISED, HELD, CLEARED = "raised", "held", "cleared"

# The expected pause between looks while it is not known, in microseconds, as all times here.
_SECOND = 1_000_000
_UNKNOWN = 200 * _SECOND
_MISSING = 3
_HOLD = 300 * _SECOND
_ENOUGH = 2

_OF_SUSPECT = (*_WHOSE, "principal", "peer")

_last = itemgetter(1)

Key = tuple[str, int, str, str | None, str]  # gateway, epoch, session, subscription, destination


@dataclass(slots=True)
class Look:
    seq: int  # of its row
    ts: int  # of its row
    pending: int = 0  # deliveries without ACK
    oldest_us: int = 0  # age of the oldest
    is_end: bool = False  # the subscription ended


@dataclass(slots=True)
class Suspect:
    """A subscription that was over at its last looks, or has an alarm."""

    gateway: str
    epoch: int
    session: str
    subscription: str | None
    destination: str
    principal: str | None
    peer: str | None
    seq: int  # of the last look
    ts: int  # of the last look
    pending: int  # of the last look
    oldest_us: int  # of the last look
    pause: int = 0  # time between the last two looks; 0: there was one
    settled: bool = False  # something was settled since the last look
    settled_at: int | None = None  # the last look that saw something settled since the look before; None: none has
    under: int = 0  # looks in a row, the last ones, that were not over
    kind: str | None = None  # of the alarm; None: there is none yet
    since: int = 0  # when it was raised
    told: int = 0  # time of the last row about it

    @property
    def key(self) -> Key:
        """Identifies the subscription."""
        return self.gateway, self.epoch, self.session, self.subscription, self.destination

    def suspect_of(self, look: Look) -> Suspect:
        whose: dict[str, Any] = {name: getattr(self, name) for name in _OF_SUSPECT}
        return Suspect(**whose, seq=look.seq, ts=look.ts, pending=look.pending, oldest_us=look.oldest_us)

    @property
    def expires(self) -> int:
        """The time at which so many looks are missing that the alarm is over."""
        return self.ts + _MISSING * (self.pause or _UNKNOWN)


Tell = Callable[[dict[str, Any]], None]


class Watch:
    """Goes through the looks of all suspects."""

    def __init__(self, suspects: Sequence[dict[str, Any]], limit: int, tell: Tell) -> None:
        self._limit = limit  # microseconds; an older delivery is over
        self._tell = tell  # called with the rows of the table, with times in microseconds since 1970
        self.suspects = {each.key: each for each in [Suspect(**values) for values in suspects]}

    def state(self) -> list[dict[str, Any]]:
        return [asdict(self.suspects[key]) for key in sorted(self.suspects, key=repr)]

    def is_over(self, look: Look) -> bool:
        return look.pending > 0 and look.oldest_us > self._limit

    def see(self, subject: Suspect, looks: Sequence[Look], settled: Sequence[tuple[int, int]]) -> None:
        """Go through the `looks` of a batch at the subscription of `subject`, in the order of `seq`.

        `settled` has the first and last `seq` of rows that say that something was settled.
        """
        key = subject.key
        for look in looks:
            suspect = self.suspects.get(key)
            if suspect is not None and look.ts > suspect.expires:
                self._clear(suspect, suspect.expires)
                suspect = None
            if suspect is None:
                if self.is_over(look):
                    self.suspects[key] = subject.suspect_of(look)
            elif look.is_end:
                self._clear(suspect, look.ts)
            else:
                behind = bisect_right(settled, suspect.seq, key=_last)
                suspect.settled |= behind < len(settled) and settled[behind][0] < look.seq
                self._look(suspect, look)
        suspect = self.suspects.get(key)
        if suspect is not None and settled:
            suspect.settled |= settled[-1][1] > suspect.seq

    def end(self, gateway: str, epoch: int) -> None:
        """A gateway has started anew: the alarms of its earlier processes are over."""
        for suspect in [each for each in self.suspects.values() if each.gateway == gateway and each.epoch < epoch]:
            self._clear(suspect, min(max(epoch, suspect.ts), suspect.expires))

    def pass_time(self, gateway: str, epoch: int, now: int) -> None:
        """The present time of a gateway's process."""
        for suspect in [each for each in self.suspects.values() if (each.gateway, each.epoch) == (gateway, epoch)]:
            if now > suspect.expires:
                self._clear(suspect, suspect.expires)

    def _look(self, suspect: Suspect, look: Look) -> None:
        suspect.pause = max(look.ts - suspect.ts, _SECOND)
        suspect.seq, suspect.ts = look.seq, look.ts
        suspect.pending, suspect.oldest_us = look.pending, look.oldest_us
        if suspect.settled:
            suspect.settled_at = look.ts
        suspect.settled = False
        if self.is_over(look):
            self._still(suspect)
            return
        suspect.under += 1
        if suspect.kind is None or suspect.under >= _ENOUGH or not look.pending:
            self._clear(suspect, look.ts)

    def _still(self, suspect: Suspect) -> None:
        """A suspect is over once more."""
        now = suspect.ts
        suspect.under = 0
        settles = suspect.settled_at is not None and now - suspect.settled_at <= self._limit
        kind = SLOW if settles else STUCK
        if suspect.kind == kind:
            if now - suspect.told >= _HOLD:
                self._say(suspect, HELD, now)
            return
        if suspect.kind is not None:
            self._say(suspect, CLEARED, now)
        suspect.kind, suspect.since = kind, now
        self._say(suspect, RAISED, now)

    def _clear(self, suspect: Suspect, at: int) -> None:
        if suspect.kind is not None:
            self._say(suspect, CLEARED, at)
        del self.suspects[suspect.key]

    def _say(self, suspect: Suspect, state: str, at: int) -> None:
        suspect.told = at
        told = {name: getattr(suspect, name) for name in (*_OF_SUSPECT, "kind", "since", "pending", "oldest_us")}
        self._tell({"ts": at, "state": state, **told})


def transform(rows: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    event, seq = f.col("event"), f.col("seq")
    what = f.when(event == "gauge_subscription", "look").when(event.isin("acked", "nacked"), "settled")
    what = what.when(event == "unsubscribed", "end").when(event == "disconnected", "gone").otherwise("time")
    tick = f.expr(f"unix_seconds(ts) div {_TICK}")
    part = f.when(what == "time", f.lit(0)).when(what == "settled", tick).otherwise(seq)
    names = [f.when(what != "time", f.col(name)).alias(name) for name in _NAMES]
    names.append(f.when(what.isin("look", "end"), f.col("destination")).alias("destination"))
    near = rows.groupBy("gateway", "epoch", what.alias("what"), part.alias("part"), *names).agg(
        f.min("seq").alias("first"),
        f.max("seq").alias("last"),
        f.unix_micros(f.max("ts")).alias("ts"),
        f.max("pending").alias("pending"),
        f.max("oldest_us").alias("oldest_us"),
    )
    before = Window.partitionBy("gateway", "epoch", "session", "subscription").orderBy("last")
    looks = f.count(f.when(f.col("what") == "look", 1)).over(before)
    between = f.when(f.col("what") == "settled", looks).otherwise(f.col("last")).alias("between")
    kept = [name for name in near.columns if name not in ("part", *_SUMMED)]
    sums = [f.min("first").alias("first"), *[f.max(name).alias(name) for name in _SUMMED[1:]]]
    return near.select("*", between).groupBy(*kept, "between").agg(*sums).drop("between")


def fold(state: State, partial: pyarrow.Table, limits: AlarmLimits) -> tuple[State, pyarrow.Table]:
    """Add the partial rows of one more batch to the state; returns the new state, and rows of the table.

    The result does not depend on how rows are split, as long as those of a gateway come in the order of (epoch, seq).
    """
    told: list[dict[str, Any]] = []
    limit = round(limits.stuck_after * 1_000_000)
    watch = Watch(state.get("suspects", []), limit, told.append)
    newest: dict[str, int] = dict(state.get("epochs", {}))
    seen = _by_process(_relevant(partial, watch, limit))
    for (gateway, epoch), now in sorted(_clocks(partial).items()):
        watch.end(gateway, epoch)
        for subject, looks, settled in _subscriptions(seen.get((gateway, epoch), []), watch):
            watch.see(subject, looks, settled)
        watch.pass_time(gateway, epoch, now)
        newest[gateway] = max(epoch, newest.get(gateway, epoch))
        watch.end(gateway, newest[gateway])
    return {"epochs": newest, "suspects": watch.state()}, _table(told)


def _clocks(partial: pyarrow.Table) -> dict[tuple[str, int], int]:
    """The latest time of each process."""
    if not partial.num_rows:
        return {}
    found = partial.group_by(["gateway", "epoch"]).aggregate([("ts", "max")])
    return {(row["gateway"], row["epoch"]): row["ts_max"] for row in found.to_pylist()}


def _relevant(partial: pyarrow.Table, watch: Watch, limit: int) -> list[dict[str, Any]]:
    """The rows of sessions that have a suspect, or get one, in the order of `seq`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not partial.num_rows:
        return []
    over = pc.and_(pc.equal(partial["what"], "look"), pc.greater(partial["oldest_us"], limit))
    sessions = {key[2] for key in watch.suspects} | set(partial.filter(over)["session"].unique().to_pylist())
    wanted = pc.is_in(partial["session"], value_set=pa.array(sorted(sessions), pa.string()))
    rows: list[dict[str, Any]] = partial.filter(wanted).sort_by("last").to_pylist()
    return rows


def _by_process(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["gateway"], row["epoch"]), []).append(row)
    return found


def _subscriptions(rows: list[dict[str, Any]], watch: Watch) -> Iterable[tuple[Suspect, list[Look], list[Span]]]:
    """The looks and settled rows of each subscription of a process, with the end of its session."""
    gone: dict[str, list[Look]] = {}
    settled: dict[tuple[str, str | None], list[Span]] = {}
    found: dict[tuple[Any, ...], tuple[Suspect, list[Look]]] = {}
    if rows:
        process = rows[0]["gateway"], rows[0]["epoch"]
        found = {key: (each, []) for key, each in watch.suspects.items() if key[:2] == process}
    for row in rows:
        session, what = row["session"], row["what"]
        if what == "settled":
            settled.setdefault((session, row["subscription"]), []).append((row["first"], row["last"]))
            continue
        look = Look(row["last"], row["ts"], row["pending"] or 0, row["oldest_us"] or 0, what != "look")
        if what == "gone":
            gone.setdefault(session, []).append(look)
            continue
        key = tuple([row[name] for name in _WHOSE])
        if key not in found:
            names = {name: row[name] for name in (*_WHOSE, "principal", "peer")}
            found[key] = Suspect(**names, seq=0, ts=0, pending=0, oldest_us=0), []
        found[key][1].append(look)
    for subject, looks in found.values():
        ends = gone.get(subject.session, [])
        looks = sorted([*looks, *ends], key=lambda look: look.seq)
        yield subject, looks, settled.get((subject.session, subject.subscription), [])


def _table(rows: list[dict[str, Any]]) -> pyarrow.Table:
    import pyarrow as pa

    time = pa.timestamp("us", "UTC")
    names = {name: pa.string() for name in ("gateway", "session", "principal", "peer", "subscription", "destination")}
    fields = {"ts": time, "state": pa.string(), "kind": pa.string(), "since": time, **names}
    fields |= {"epoch": pa.int64(), "pending": pa.int64(), "oldest_us": pa.int64()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(fields.items()))).sort_by("ts")


def snapshot(table: pyarrow.Table, now: datetime, size: int = SIZE) -> dict[str, Any]:
    """What the console shows.

    stuck, slow                      number of present alarms
    raised, raised_left_out          these, the oldest delivery first, as last told; and how many more there are
    changes, changes_left_out        alarms that were raised and cleared, the latest first; and how many more there are
    """
    import pyarrow.compute as pc

    recent = last_day(table, JOB.time, now)
    if not recent.num_rows:
        empty: dict[str, Any] = {"raised": [], "raised_left_out": 0, "changes": [], "changes_left_out": 0}
        return {STUCK: 0, SLOW: 0, **empty}
    raised = _raised(recent)
    first = raised.sort_by([("oldest_us", "descending"), ("ts", "ascending")]).slice(0, _MOST_RAISED)
    shown, left = fitting(map(_shown, first.to_pylist()), raised.num_rows, size // 4)
    changes = recent.filter(pc.not_equal(recent["state"], HELD))
    last = changes.sort_by([("ts", "descending")]).slice(0, _MOST_CHANGES)
    listed, more = fitting(map(_shown, last.to_pylist()), changes.num_rows, size // 4)
    kinds = {kind: pc.sum(pc.equal(raised["kind"], kind), min_count=0).as_py() for kind in (STUCK, SLOW)}
    return {**kinds, "raised": shown, "raised_left_out": left, "changes": listed, "changes_left_out": more}


def _raised(table: pyarrow.Table) -> pyarrow.Table:
    """The last row of each alarm that was not cleared."""
    import pyarrow.compute as pc

    # Of rows with equal times the end is the last.
    ordered = table.append_column("is_end", pc.equal(table["state"], CLEARED))
    ordered = ordered.sort_by([("ts", "ascending"), ("is_end", "ascending")]).drop_columns(["is_end"])
    keys = [*_WHOSE, "kind"]
    others = [name for name in table.column_names if name not in keys]
    found = ordered.group_by(keys, use_threads=False).aggregate([(name, "last") for name in others])
    found = found.rename_columns([name.removesuffix("_last") for name in found.column_names])
    return found.filter(pc.not_equal(found["state"], CLEARED))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    texts = {name: cut(row[name]) for name in (*_NAMES, "destination")}
    return {**row, **texts, "ts": iso(row["ts"]), "since": iso(row["since"])}


JOB = Job("consumers", 1, EVENTS, COLUMNS, transform, time="ts", snapshot=snapshot, fold=fold)
