"""Columns that several jobs make of a row of the archive.

A temporary destination lasts for one session, and has a name of its own: a table with a row for each would grow with
the sessions.  So all of a kind are one, `/reply-queue/*` or `/reply-topic/*`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.model.destinations import REPLY_QUEUE, REPLY_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column


def destination() -> Column:
    """The destination, or the kind of temporary ones."""
    from pyspark.sql import functions as f

    name = f.col("destination")
    folded = name
    for start in (REPLY_QUEUE, REPLY_TOPIC):
        folded = f.when(f.startswith(name, f.lit(start)), f.lit(f"{start}*")).otherwise(folded)
    return folded.alias("destination")


def is_browsed() -> Column:
    """True for a message that was shown to a browser."""
    from pyspark.sql import functions as f

    return (f.col("event") == "delivered") & f.col("delivery_count").eqNullSafe(0)
