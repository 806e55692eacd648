"""The rows that are not plentiful, counted by what is worth to be told apart of each event.

Spark counts once and keeps the counts, for clients make as many reasons, destinations and sessions as they like: what
comes from there to the driver is small, whatever they do.

    totals      by gateway, process, event, transport and time: of these there are few
    reasons     of each event the most frequent ones
    depths      of the destinations that are shown
    suspects    sessions that had a delivery which was too old, as many as anybody wants to look up
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ..jobs import Limits
from .figures import Counts, Reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLENTIFUL = ("accepted", "delivered", "redelivered", "acked")
"""Events that are not counted here: nine of ten rows, and `metrics` tells all that there is to be told of them."""

MOST_REASONS = 1000
"""Of an event, with their destinations."""

# Events that are counted by their reason and destination, as far as they have them.
_REASONED = ("nacked", "dead_lettered", "dropped", "disconnected", "error", "tx_aborted")
# Characters of a reason.  What a client made up at its end would make each reason another one.
_LONGEST_REASON = 300


class Census:
    """The counts, which Spark keeps until `close`.

    Attributes:
        totals: dicts of `gateway`, `epoch`, `event`, `transport`, `at` (the time of a gap, the minute of a dead
            letter), `gap` (its reason), `count`, `first`, `last`, `dropped_rows` and `too_old`, which counts looks at
            subscriptions with a delivery that was.
    """

    def __init__(self, rows: DataFrame, limits: Limits) -> None:
        from pyspark.sql import functions as f

        self._counted = _counted(rows, limits).persist()
        gap = f.when(f.col("event") == "journal_dropped", f.col("reason")).alias("gap")
        self.totals: list[dict[str, Any]] = (
            self._counted.groupBy("gateway", "epoch", "event", "transport", "at", gap)
            .agg(
                f.sum("count").alias("count"),
                f.min("first").alias("first"),
                f.max("last").alias("last"),
                f.sum("dropped_rows").alias("dropped_rows"),
                f.sum(f.when(f.col("session").isNotNull(), f.col("count")).otherwise(0)).alias("too_old"),
            )
            .toArrow()
            .to_pylist()
        )
        self._events = {each["event"] for each in self.totals}

    def close(self) -> None:
        """Let Spark forget the counts."""
        self._counted.unpersist()

    def reasons(self) -> tuple[tuple[Reason, ...], Counts]:
        """Of all gateways together, the most frequent first; and by event how many more there are."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        if self._events.isdisjoint(_REASONED):
            return (), {}
        keys = ("event", "destination", "reason")
        summed = (
            self._counted.where(f.col("event").isin(*_REASONED))
            .groupBy(*keys)
            .agg(f.sum("count").alias("count"), f.min("first").alias("first"), f.max("last").alias("last"))
        )
        of_event = Window.partitionBy("event")
        order = of_event.orderBy(f.desc("count"), f.asc("destination"), f.asc("reason"))
        ranked = summed.select(
            "*", f.row_number().over(order).alias("place"), f.count("*").over(of_event).alias("different")
        )
        found = ranked.where(f.col("place") <= MOST_REASONS).toArrow().to_pylist()
        names = (*keys, "count", "first", "last")
        reasons = [Reason(**{name: each[name] for name in names}) for each in found]
        beyond = {each["event"]: each["different"] - MOST_REASONS for each in found}
        return (
            tuple(sorted(reasons, key=lambda each: (-each.count, each.destination or "", each.reason or ""))),
            {event: many for event, many in beyond.items() if many > 0},
        )

    def depths(self, names: Sequence[str]) -> dict[str, int]:
        """How many messages waited at destinations, at the most; those where nothing lasts are not among them."""
        from pyspark.sql import functions as f

        if "gauge_destination" not in self._events or not names:
            return {}
        wanted = self._counted.where((f.col("event") == "gauge_destination") & f.col("destination").isin(list(names)))
        found = wanted.groupBy("destination").agg(f.max("depth")).collect()
        return {name: depth for name, depth in found if depth is not None}

    def suspects(self, most: int) -> Collection[str]:
        """Sessions that had a delivery which was too old; one more than `most`, where there are more."""
        if not any(each["too_old"] for each in self.totals):
            return ()
        named = self._counted.where(self._counted["session"].isNotNull()).select("session")
        return [session for (session,) in named.distinct().limit(most + 1).collect()]


def _counted(rows: DataFrame, limits: Limits) -> DataFrame:
    """All counts; keys that an event does not have, or that are not worth to be told apart, are null."""
    from pyspark.sql import functions as f

    event = f.col("event")
    reasoned = event.isin(*_REASONED)
    gap = event == "journal_dropped"
    too_old = (event == "gauge_subscription") & (f.col("oldest_us") > limits.stuck_after * 1_000_000)
    keys = {
        "gateway": f.col("gateway"),
        "epoch": f.col("epoch"),
        "event": event,
        "transport": f.when(event == "connected", f.col("transport")),
        "destination": f.when(reasoned | (event == "gauge_destination"), f.col("destination")),
        "reason": f.when(reasoned | gap, f.substring("reason", 1, _LONGEST_REASON)),
        "at": f.when(gap, f.col("ts")).when(event == "dead_lettered", f.date_trunc("minute", f.col("ts"))),
        "session": f.when(too_old, f.col("session")),
    }
    rows = rows.where(~event.isin(*PLENTIFUL))
    return rows.groupBy(*[column.alias(name) for name, column in keys.items()]).agg(
        f.count("*").alias("count"),
        f.min("ts").alias("first"),
        f.max("ts").alias("last"),
        f.sum("dropped_rows").alias("dropped_rows"),
        f.max(f.when(event == "gauge_destination", f.col("depth"))).alias("depth"),
    )
