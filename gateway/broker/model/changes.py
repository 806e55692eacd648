"""What changed for good since the last group commit, as plain values: the broker fills it, the store writes it.

A store keeps messages in places.  A place is whatever holds messages: a queue, a durable subscription, the log of a
topic, and one each for retained and for delayed messages.  A message in a place is a row; its headers and body are its
content, which the rows of several durable subscriptions share.  What the broker knows of places and rows beside that
is in their facts, a JSON object each, of which the store understands nothing.

Numbers are the broker's: rows, contents and places are numbered by it, and rows of one place stand in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

# What a change costs in memory until it is written, beside bytes of bodies: measured.
CHANGE = 500


class Container(NamedTuple):
    """Where messages are kept.

    Attributes:
        kind: `queue`, `subscription`, `stream`, `retained` or `delayed`.
        name: of the destination, or of the durable subscription.
        facts: a JSON object.
    """

    number: int
    kind: str
    name: str
    facts: str = "{}"


class StoredRow(NamedTuple):
    """A message in a place.

    Attributes:
        row: unique in the store; of two in one place the later one has the higher.
        content: the number of its content; its own row where it shares with nobody.
        rank: 0 for the highest priority, 9 for the lowest.
        size: bytes that it costs in memory, nearly.
        transient: it is gone with the process: it stands here only because memory is short.
        facts: a JSON object; None: there is nothing to tell.
    """

    row: int
    place: int
    content: int
    rank: int
    size: int
    transient: bool = False
    facts: str | None = None


class Payload(NamedTuple):
    """What a client sent.

    Attributes:
        headers: name -> value.  Shared: do not change.
    """

    headers: dict[str, str]
    body: bytes


class Stored(NamedTuple):
    """A row with its content, as it is read back."""

    row: StoredRow
    content: Payload


@dataclass(slots=True, eq=False)
class Batch:
    """One group commit: all of it is in the store, or nothing.

    Attributes:
        number: 1 for the first; they are written in order.
        places: new ones, and those whose facts changed.
        contents: number -> new content.
        rows: row -> new row.
        facts: row -> changed facts of a row that is in the store.
        gone: rows that are no more, and with the last of them their content.
        emptied: places all of whose rows are no more, also those in this batch.
        dropped: places that are no more, nor their rows.
        seen: de-duplication ids, digest -> seconds since the epoch until which they count.
        nbytes: what it costs in memory until it is written.
    """

    number: int
    places: dict[int, Container] = field(default_factory=dict)
    contents: dict[int, Payload] = field(default_factory=dict)
    rows: dict[int, StoredRow] = field(default_factory=dict)
    facts: dict[int, str] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    seen: dict[bytes, float] = field(default_factory=dict)
    nbytes: int = 0

    def __bool__(self) -> bool:
        """There is something to write."""
        return bool(self.rows or self.gone or self.facts or self.places or self.emptied or self.dropped or self.seen)
