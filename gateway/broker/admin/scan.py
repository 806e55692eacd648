"""Queue scan: visits all messages that wait in a queue, in slices, while the broker works on.

A message that waited when the scan began, and still waits when the scan reaches it, is visited once.  Later messages
may be visited, too.  A visit takes no message out of the queue, so consumers go on getting messages.

Known weakness: a message that was at a consumer when the scan began, and comes back, is not visited.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Generator
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ..model.changes import Stored
from ..model.message import Message
from ..queue.groups import Group
from ..queue.paging import PagedMessages
from ..queue.ready import ReadyList

if TYPE_CHECKING:
    from ..queue.queue import Queue

# 0.5 ms; or 5 ms where each of them is moved, and twice as many would take twice as long.  Smaller turns cost no more.
SLICE = 250
"""Messages of one turn."""
# Seconds of a pause that a visitor needs.
_PAUSE = 0.05

# Yields the rows that it has to read, or nothing when the turn ends; gets what was read; returns whether it has ended.
_Steps = Generator[list[int], list[Stored], bool]


class ScanPosition(Enum):
    """Where a message waits."""

    MEMORY = "memory"  # in the ready list, or in a group, in the order in which they are due
    BACKLOG = "backlog"  # in the store alone, read in pages
    RESTING = "resting"  # after a failure; they come back later


class ScanVisitor(Protocol):
    """What a scan calls."""

    @property
    def needs_pause(self) -> bool:
        """True if other tasks must have time before the next visit."""

    def visit(self, message: Message, where: ScanPosition) -> bool:
        """A message waits there now; False ends the scan."""

    def turn_over(self) -> None:
        """The turn ends; other tasks run."""

    def over(self) -> None:
        """The scan is over; this is its last call."""


class QueueScan:
    """One scan of one queue; it begins in a turn of its own.

    `only`: numbers of the messages to visit; None: all.  `skip`: so many are skipped without a visit.  `paged`: visit
    the messages that only the store has, too.
    """

    def __init__(
        self,
        queue: Queue,
        visitor: ScanVisitor,
        *,
        only: Collection[int] | None = None,
        skip: int = 0,
        paged: bool = True,
    ) -> None:
        self._queue = queue
        self._context = queue.context
        self._visitor: ScanVisitor | None = visitor
        self._only = only
        self._skip = skip
        self._missed: set[int] = set()  # rows that came into memory meanwhile
        found = queue.storage.paged if queue.storage is not None and paged else None
        self._paged: PagedMessages | None = found
        self._rows, self._sizes = array("q"), array("q")
        if found is not None:
            # A row has the number of its message, except in the queue of a durable subscription.
            self._rows, self._sizes = found.all_rows(only if not queue.filled_by_topic else None)
        self._resting = list(queue.resting)
        self._look_into_memory()
        self._steps = self._all()
        # Not at once: the caller gets the scan first, so that it can cancel it.
        self._context.scheduler.later(self._begin)

    def cancel(self) -> None:
        """End the scan without any further call."""
        self._visitor = None

    def _look_into_memory(self) -> None:
        queue = self._queue
        # A copy, for the scan takes it apart while consumers go on with the list itself.
        self._ready_list = queue.in_memory.ready_lists[0].copy()
        self._groups: list[Group] = queue.groups
        self._unseen = queue.unseen_messages()

    # turns

    def _begin(self) -> None:
        self._turn(None)

    def _go_on(self) -> None:
        if self._visitor is not None and self._visitor.needs_pause:
            self._wait(self._visitor)
        else:
            self._turn([])

    def _turn(self, found: list[Stored] | None) -> None:
        visitor, queue = self._visitor, self._queue
        if visitor is None:
            return
        # It has gone; another queue of that name is not this one.
        if self._context.destinations.find(queue.name) is not queue:
            self._end()
            return
        try:
            rows = next(self._steps) if found is None else self._steps.send(found)
        except StopIteration:
            visitor.turn_over()
            self._end()
            return
        visitor.turn_over()
        if rows:
            assert self._context.storage is not None  # it has the rows
            self._context.storage.read(rows, self._turn)
        else:
            self._wait(visitor)

    def _end(self) -> None:
        visitor, self._visitor = self._visitor, None
        if visitor is not None:  # a visit may have ended the scan
            visitor.over()

    def _wait(self, visitor: ScanVisitor) -> None:
        """Let other tasks run; a store or recorder that is behind catches up first."""
        context = self._context
        scheduler = context.scheduler
        # A move or a purge can make changes faster than the disk takes them.
        if context.storage is not None and context.storage.is_behind:
            context.storage.when_settled(lambda: scheduler.later(self._go_on))
        elif visitor.needs_pause or context.records.is_behind:
            scheduler.at(scheduler.clock() + _PAUSE, self._go_on)
        else:
            scheduler.later(self._go_on)

    # the order of visits

    def _all(self) -> _Steps:
        yield from self._gather()
        if (
            (yield from self._through(self._ready_list))
            or (yield from self._through_backlog())
            or (yield from self._through_resting())
        ):
            return True
        # Consumers had those pages read while the scan was elsewhere; the copy of the list is older than that.
        if self._missed:
            self._look_into_memory()
            yield from self._gather()
            return (yield from self._through(self._ready_list, self._missed))
        return False

    def _gather(self) -> Generator[list[int], list[Stored], None]:
        """Add the messages of groups: the ready list has only the first of each; and those that are unseen."""
        for message in self._unseen:
            self._ready_list.add(message)
        looks = 0
        for group in self._groups:
            for message in group.messages():
                self._ready_list.add(message)
                looks += 1
                if not looks % SLICE:
                    yield []

    def _through(self, ready_list: ReadyList, rows: Collection[int] | None = None) -> _Steps:
        """Visit the messages in memory.  `rows`: only these; None: all."""
        last: Message | None = None
        looks = 0
        while (message := ready_list.first()) is not None:
            ready_list.pop()
            is_new = message is not last  # the first of a group is there twice, and one of a group that was unseen
            last = message
            if is_new and (rows is None or abs(message.row) in rows) and not self._see(message, ScanPosition.MEMORY):
                return True
            looks += 1
            if not looks % SLICE or self._needs_pause:
                yield []
        return False

    def _through_backlog(self) -> _Steps:
        paged = self._paged
        # Skipped without being read: a page at the end of a million rows comes as fast as the first one.
        place = min(self._skip, len(self._rows))
        self._skip -= place
        while paged is not None and place < len(self._rows):
            page, place = self._next_page(place)
            found = yield self._here(paged, page)
            for stored in found:
                assert self._context.storage is not None  # it has read
                message = self._context.storage.facts.message(stored)
                # Asked again: consumers may have taken it while the store was reading.
                if not self._here(paged, [message.row]):
                    continue
                if not self._see(message, ScanPosition.BACKLOG):
                    return True
                if self._needs_pause:
                    yield []
        return False

    def _here(self, paged: PagedMessages, page: list[int]) -> list[int]:
        """The rows that are still in the backlog, as the store numbers them; others may be in memory now."""
        here = [row for row in page if paged.has(row)]
        if len(here) < len(page):
            self._missed.update(map(abs, set(page).difference(here)))
        return list(map(abs, here))

    def _next_page(self, place: int) -> tuple[list[int], int]:
        limits = self._context.work_limits
        end, nbytes = place, 0
        while end < len(self._rows) and end - place < limits.scan_rows and nbytes < limits.scan_bytes:
            nbytes += self._sizes[end]
            end += 1
        return list(self._rows[place:end]), end

    def _through_resting(self) -> _Steps:
        for looks, message in enumerate(self._resting, 1):
            # Its time may have come during the scan: then it waits in memory, where the scan has been already.
            is_resting = message in self._queue.resting
            if (is_resting or message.waits) and not self._see(
                message, ScanPosition.RESTING if is_resting else ScanPosition.MEMORY
            ):
                return True
            if not looks % SLICE or self._needs_pause:
                yield []
        return False

    @property
    def _needs_pause(self) -> bool:
        return self._visitor is not None and self._visitor.needs_pause

    def _see(self, message: Message, where: ScanPosition) -> bool:
        if self._visitor is None:  # a visit has ended the scan
            return False
        # What has expired is as good as gone, and its queue only has not come to it yet.
        if (self._only is not None and message.number not in self._only) or self._queue.has_expired(message):
            return True
        if self._skip:
            self._skip -= 1
            return True
        return self._visitor.visit(message, where)
