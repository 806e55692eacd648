"""What several jobs make of a row of the archive.

A temporary destination is there for one session, and has a name of its own: a table that has a row for each would grow
with the sessions.  So all that are of a kind are one, `/reply-queue/*` or `/reply-topic/*`.

What a browser got was shown to it, and delivered to nobody; its row says that it was delivered for the 0th time.
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
    """Whether a message was shown, and not delivered."""
    from pyspark.sql import functions as f

    return (f.col("event") == "delivered") & f.col("delivery_count").eqNullSafe(0)
