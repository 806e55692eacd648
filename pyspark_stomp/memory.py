"""Rows in memory, whose messages stay unacknowledged until Spark has committed them: the store of mode ack.

Nothing survives the process.  The server still has every message that is not acknowledged and sends it again, to the
next process or, after a broken connection, to this one.  Then the message is known by its key: its row stays where it
is, and only the handle that acknowledges it is exchanged.

Rows are numbered on from the offset that the query starts with.  A range below that belongs to a process that is gone:
it has no rows here, because its messages come again.  So the rows of a batch that ran and was not committed may come
twice, and none is ever missing.
"""

from __future__ import annotations

import bisect
import threading
from dataclasses import dataclass
from itertools import islice

from .rows import Block
from .spool import Piece, cut

Handle = tuple[str, str]


@dataclass(slots=True)
class _Held:
    first: int
    block: Block
    handles: list[Handle | None]

    @property
    def end(self) -> int:
        return self.first + self.block.rows


class Memory:
    """Rows that are received and not committed.  A receiver keeps blocks, Spark's thread reads and releases them.

    Args:
        first: the number of the first row.
        remembered: keys of released rows that are kept, because their ACKs may be lost.
    """

    def __init__(self, first: int, remembered: int) -> None:
        self.first = self._end = first
        self._remembered = remembered
        self._guard = threading.Lock()
        self._held: list[_Held] = []
        self._places: dict[str, int] = {}  # the numbers of the rows that are held, by their keys
        self._done: dict[str, None] = {}  # in the order of their release
        self._due: list[Handle] = []

    @property
    def end(self) -> int:
        return self._end

    # Called by the receiver.

    def knows(self, key: str) -> bool:
        """True if a message with that key is held, or was lately."""
        return key in self._places or key in self._done

    def exchange(self, key: str, handle: Handle) -> None:
        """A known message has come again, with another handle.

        On the connection of its row it is a copy that the publisher made: its row is not needed.
        """
        with self._guard:
            row = self._places.get(key)
            if row is not None:
                held = self._held[bisect.bisect_right(self._held, row, key=lambda held: held.end)]
                if held.handles[row - held.first] is None:
                    held.handles[row - held.first] = handle
                    return
            self._due.append(handle)

    def full(self) -> bool:
        """Never: the server limits unacknowledged messages."""
        return False

    def keep(self, block: Block) -> None:
        held = _Held(self._end, block, list(block.handles))
        with self._guard:
            self._held.append(held)
            self._places.update({key: row for row, key in enumerate(block.keys, held.first) if key})
            self._end = held.end

    def disconnected(self) -> None:
        with self._guard:
            self._due = []
            for held in self._held:
                held.handles = [None] * held.block.rows

    def due(self) -> list[Handle]:
        """The handles to acknowledge now; each is returned once."""
        with self._guard:
            due, self._due = self._due, []
            return due

    def has_due(self) -> bool:
        return bool(self._due)

    # Called by Spark's thread.

    def cut(self, start: int, rows: int, size: int) -> int:
        """The end of a batch that begins at a row: at most so many rows, and bytes unless one block has more."""
        with self._guard:
            sizes = [(held.end, len(held.block.data)) for held in self._held if held.end > start]
        return cut(sizes, start, rows, size)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The rows from start up to end, without those of another process."""
        found = []
        with self._guard:
            for held in self._held:
                skip = max(0, start - held.first)
                take = min(end, held.end) - held.first - skip
                if take > 0:
                    found.append(Piece(held.block.data, skip, take))
        return found

    def release(self, end: int) -> None:
        """All rows before that one are committed: their messages may be acknowledged."""
        with self._guard:
            for held in self._held:
                if held.first >= end:
                    break
                rows = slice(max(0, self.first - held.first), min(end, held.end) - held.first)
                self._due += [handle for handle in held.handles[rows] if handle is not None]
                for key in filter(None, held.block.keys[rows]):
                    del self._places[key]
                    self._done[key] = None
            self.first = max(self.first, end)
            self._held = [held for held in self._held if held.end > end]
            surplus = max(0, len(self._done) - self._remembered)
            for key in [*islice(self._done, surplus)]:
                del self._done[key]
