"""Stream page: reads some messages that a topic keeps for replay, the newest first, for an operator.

Messages at the stream's end are in memory; older ones are read from the store, in the turn of `Streams`.  The stream
keeps all of them, and its readers notice nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.context import Context
from ..model.changes import Stored
from ..model.message import Message
from .message_rows import of_message

if TYPE_CHECKING:
    from ..topic.stream import Stream, StreamEntry, Streams


class StreamPage:
    """One look at a stream.

    Args:
        then: gets the rows, and the offset of the next page; None: there is none.
        offset: so many of the newest messages are skipped.
        limit: most rows; large messages end the page before it (`listed_bytes`), but there is at least one.
        most: bytes of each body.
    """

    def __init__(
        self,
        context: Context,
        streams: Streams,
        stream: Stream,
        then: Callable[[list[dict[str, object]], int | None], None],
        *,
        offset: int,
        limit: int,
        most: int,
    ) -> None:
        self._context = context
        self._streams = streams
        self._stream = stream
        self._then: Callable[[list[dict[str, object]], int | None], None] | None = then
        self._offset, self._limit, self._most = offset, limit, most
        self._entries: list[tuple[StreamEntry, float]] = []
        # Not at once: the caller gets the page first, so that it can cancel it.
        context.scheduler.later(self._begin)

    def cancel(self) -> None:
        """The result is not needed any more."""
        self._then = None
        self._streams.do_not_read(self)

    def _begin(self) -> None:
        room = self._context.work_limits.listed_bytes
        for entry, date in self._stream.newest(self._offset):
            self._entries.append((entry, date))
            room -= entry.size
            if room <= 0 or len(self._entries) == self._limit:
                break
        missing = [entry.number for entry, _ in self._entries if entry.message is None]
        if missing and self._then is not None:
            self._streams.read(self, missing, self._arrived)
        else:
            self._arrived([])

    def _arrived(self, found: list[Stored]) -> None:
        """Make the rows; what has left the stream meanwhile is missing."""
        storage = self._context.storage
        read = {each.row.row: storage.facts.read(each)[0] for each in found} if storage is not None else {}
        messages = [(entry.message or read.get(entry.number), date) for entry, date in self._entries]
        rows = [self._row(message, date) for message, date in messages if message is not None]
        end = self._offset + len(self._entries)
        if self._then is not None:
            self._then(rows, end if self._entries and end < len(self._stream) else None)

    def _row(self, message: Message, date: float) -> dict[str, object]:
        found = of_message(self._context, self._stream.name, message, self._most)
        # Of a stream the date is known, and no consumer takes from it.
        return found | {"position": None, "delayed": False, "deliveries": 0, "redelivered": False, "sent": date}
