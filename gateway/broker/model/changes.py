"""Changes of one group commit: the broker fills a `Batch`, the store writes it.

A container holds messages: a queue, a durable subscription, the stream of a topic, the retained messages, the delayed
messages.  A message in a container is a row.  Its headers and body are its content; rows of several durable
subscriptions share one.  `facts` is a JSON object that only the broker reads.

The broker numbers rows, contents and containers; the rows of a container stand in order.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

# Bytes of memory of a change until it is written, beside its body: measured.
CHANGE = 500


class Container(NamedTuple):
    """A holder of messages."""

    number: int
    kind: str  # `queue`, `subscription`, `stream`, `retained` or `delayed`
    name: str  # the name of the destination or durable subscription
    facts: str = "{}"  # a JSON object


class StoredRow(NamedTuple):
    """A message in a container."""

    row: int  # unique in the store; later rows of a container have higher numbers
    place: int
    content: int  # the number of its content; equal to `row` where the content is not shared
    rank: int  # 0 for the highest priority, 9 for the lowest
    size: int  # bytes of memory, nearly
    transient: bool = False  # it ends with the process, and is stored only because memory is short
    facts: str | None = None  # a JSON object; None: empty


class Payload(NamedTuple):
    """Headers and body of a SEND."""

    headers: dict[str, str]  # name -> value.  Shared: do not change.
    body: bytes


class Stored(NamedTuple):
    """A row with its content, read back from the store."""

    row: StoredRow
    content: Payload


@dataclass(slots=True, eq=False)
class Batch:
    """One group commit: all of it is in the store, or nothing."""

    number: int  # 1 for the first; they are written in order
    places: dict[int, Container] = field(default_factory=dict)  # containers that are new or have changed facts
    contents: dict[int, Payload] = field(default_factory=dict)  # number -> new content
    rows: dict[int, StoredRow] = field(default_factory=dict)  # row -> new row
    facts: dict[int, str] = field(default_factory=dict)  # row -> changed facts of a stored row
    gone: list[int] = field(default_factory=list)  # rows to remove; a content goes with its last row
    # containers whose rows are all removed, those of this batch included
    emptied: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # containers that are removed with their rows
    # de-duplication ids, digest -> seconds since the epoch until which they count
    seen: dict[bytes, float] = field(default_factory=dict)
    nbytes: int = 0  # bytes of memory until it is written

    def __bool__(self) -> bool:
        """True if there is something to write."""
        return bool(self.rows or self.gone or self.facts or self.places or self.emptied or self.dropped or self.seen)
