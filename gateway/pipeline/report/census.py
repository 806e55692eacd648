"""How often each event happened, and what is worth to be told apart of it.

Spark keeps the counts, for clients make as many reasons, destinations and sessions as they like: what comes from there
to the driver is small, whatever they do.

    traffic     by step, and by destination
    totals      by gateway, process, event, transport and time: of these there are few
    reasons     of each event the most frequent ones
    depths      of the destinations that are shown
    suspects    sessions that may have an alarm, as many as anybody wants to look up
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from .counts import DESTINATIONS, EVENTS, REASONED, STEPS
from .figures import Counts, Reason

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

MOST_REASONS = 1000
"""Of an event, with their destinations."""


class Census:
    """The counts, which Spark keeps until `close`.

    Args:
        counted: partial rows that are merged.

    Attributes:
        totals: dicts of `gateway`, `epoch`, `event`, `transport`, `at` (the time of a gap, the minute of a dead
            letter), `gap` (its reason), `count`, `first`, `last`, `dropped_rows`, and `suspects`: how many
            subscriptions had a delivery that was too old, at two looks or more.
    """

    def __init__(self, counted: DataFrame) -> None:
        from pyspark.sql import functions as f

        # The first of two looks raises no alarm.
        self._is_suspect = f.col("session").isNotNull() & (f.col("count") > 1)
        self._all = counted.persist()
        self._counted = self._all.where(f.col("of") == EVENTS)
        gap = f.when(f.col("event") == "journal_dropped", f.col("reason")).alias("gap")
        self.totals: list[dict[str, Any]] = (
            self._counted.groupBy("gateway", "epoch", "event", "transport", "at", gap)
            .agg(
                f.sum("count").alias("count"),
                f.min("first").alias("first"),
                f.max("last").alias("last"),
                f.sum("dropped_rows").alias("dropped_rows"),
                f.count_if(self._is_suspect).alias("suspects"),
            )
            .toArrow()
            .to_pylist()
        )
        self._events = {each["event"] for each in self.totals}

    def close(self) -> None:
        """Let Spark forget the counts."""
        self._all.unpersist()

    def traffic(self) -> tuple[pyarrow.Table, pyarrow.Table]:
        """The table of `metrics`, added up by step, and by destination."""
        import pyarrow.compute as pc

        names = ("of", "at", "destination", "event", "bucket", "count", "octets")
        found = self._all.where(self._all["of"] != EVENTS).select(*names).withColumnRenamed("at", "minute").toArrow()
        of_step, of_destination = [found.filter(pc.equal(found["of"], each)) for each in (STEPS, DESTINATIONS)]
        return of_step, of_destination

    def reasons(self) -> tuple[tuple[Reason, ...], Counts]:
        """Of all gateways together, the most frequent first; and by event how many more there are."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        if self._events.isdisjoint(REASONED):
            return (), {}
        keys = ("event", "destination", "reason")
        summed = (
            self._counted.where(f.col("event").isin(*REASONED))
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
        """Sessions that may have an alarm; one more than `most`, where there are more."""
        if not any(each["suspects"] for each in self.totals):
            return ()
        named = self._counted.where(self._is_suspect).select("session")
        return [session for (session,) in named.distinct().limit(most + 1).collect()]
