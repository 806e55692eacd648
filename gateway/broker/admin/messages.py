"""What an operator sees of messages that wait in queues, and does to them.

Everything here is checked at once, begins in a turn of its own, goes on in slices (`walk`), and says by a callback when
it is over.  What it does to messages is in `deeds`.

SENDs with a delay are in no queue; each is found by an id of its own, and `kept_rows` lists them.  Of what a topic's
ordinary subscriber still has to get nothing is here; that is gone with the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import selectors
from ..errors import NotAllowed
from ..model import destinations as names
from ..model.message import Message
from ..model.options import Selector
from ..queue.queue import Queue
from . import message_rows
from .operations import MoveMessages, Operation, Outcome, PurgeMessages, RedriveMessages, RunningOperation
from .scan import QueueScan, ScanPosition

if TYPE_CHECKING:
    from ..broker import Broker
    from ..routing.scheduled import ScheduledSend

__all__ = ["Busy", "MessageAdmin", "Outcome", "Page", "RunningOperation", "Search", "Unknown"]

MOST_SHOWN = 4 * 1024
"""Bytes of each body in a list."""
MOST_OF_A_PAGE = 512 * 1024
"""Bytes of the rows of a list, of bodies and headers as they were sent.  To make JSON of them takes 1 to 3 ms, and
nobody has a turn meanwhile; of a thousand rows with all that one may have it would take 60.  A hundred whole bodies
with ordinary headers fit in."""
# What a row has beside what a client wrote into its message.
_OF_A_ROW = 300


class Unknown(NotAllowed):
    """There is no such queue, or durable subscription."""


class Busy(NotAllowed):
    """Not now: somebody uses it."""


@dataclass(frozen=True)
class Page:
    """Some of what waits.

    Attributes:
        messages: rows, in the order in which they are due; what comes back later stands at the end.
        total: of how many.
        next: the offset of the page behind it, which may have ended before its limit; None: there is none.
    """

    messages: list[dict[str, object]]
    total: int
    next: int | None


class Search:
    """A look at what waits, which takes nothing out.

    Args:
        offset: so many are passed over.
        limit: rows at most; where they are large, `MOST_OF_A_PAGE` comes first, but one there is always.
        selector: only what it takes; None: all.
        total: how many there are; None: they are to be counted.
        most: bytes of each body.
    """

    needs_pause = False

    def __init__(
        self,
        queue: Queue,
        then: Callable[[Page], None],
        *,
        offset: int = 0,
        limit: int = 1,
        selector: Selector | None = None,
        total: int | None = None,
        most: int = MOST_SHOWN,
        only: Sequence[int] | None = None,
    ) -> None:
        self._queue = queue
        self._then = then
        self._first, self._end = offset, offset + limit
        self._selector = selector
        self._total = total
        self._most = most
        self._found: list[dict[str, object]] = []
        self._room = MOST_OF_A_PAGE
        # What need not be looked at is passed over by the walk.
        self._seen = skip = offset if total is not None and only is None else 0
        self._walk = QueueScan(queue, self, only=only, skip=skip)

    def cancel(self) -> None:
        """Nobody wants to know."""
        self._walk.cancel()

    def visit(self, message: Message, where: ScanPosition) -> bool:
        """See `Visitor`."""
        if self._selector is not None and not self._selector(message.head.headers):
            return True
        if self._first <= self._seen < self._end:
            row = message_rows.of_message(self._queue, message, self._most)
            self._found.append(row | {"position": self._seen, "delayed": where is ScanPosition.RESTING})
            self._count(message)
        self._seen += 1
        return self._total is None or self._seen < self._end

    def _count(self, message: Message) -> None:
        """Count what was shown, and end the page behind it where that is much."""
        # Of headers the destinations stand in fields of their own besides.
        shown = min(len(message.body), self._most) + min(message.head.size, 2 * self._most)
        self._room -= _OF_A_ROW + shown
        if self._room <= 0:
            self._end = self._seen + 1

    def turn_over(self) -> None:
        """See `Visitor`: nothing has changed."""

    def over(self) -> None:
        """See `Visitor`."""
        total = self._seen if self._total is None else self._total
        self._then(Page(self._found, total, self._end if self._found and self._end < total else None))


class MessageAdmin:
    """An operator's way to the messages of one broker.

    Names are as clients write them, or canonical.  All methods raise at once or return at once; callbacks come later,
    of what changes something as soon as the store has it, and never while the store cannot be written.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # reading

    def browse(self, name: str, offset: int, limit: int, selector: str, then: Callable[[Page], None]) -> Search:
        """A page of what waits in a queue.

        Args:
            selector: only messages that it takes, which have to be read all; empty: all.

        Raises:
            Unknown: no such queue.
            NotAllowed: the selector is no selector.
        """
        queue, wanted = self._queue(name), _parsed(selector)
        total = queue.waiting + len(queue.resting) if wanted is None else None
        return Search(queue, then, offset=offset, limit=limit, selector=wanted, total=total)

    def find(self, name: str, id: str, most: int, then: Callable[[dict[str, object] | None], None]) -> Search:
        """One message of a queue; None: it does not wait there.

        Args:
            most: bytes of its body.

        Raises:
            Unknown: no such queue.
        """

        def tell(page: Page) -> None:
            # Where it stands is not known: only what was looked for was looked at.
            then(page.messages[0] | {"position": None} if page.messages else None)

        return Search(self._queue(name), tell, total=1, most=most, only=list(_numbers([id])))

    def scheduled(self, id: str) -> ScheduledSend | None:
        """The SEND that waits for its time under that id; None: there is none."""
        found = self._broker.router.delayed
        return next((found.find(number) for number in _numbers([id])), None)

    # changing

    def delete(self, name: str, ids: Sequence[str], then: Callable[[Outcome], None]) -> RunningOperation:
        """Throw some messages away.

        Raises:
            Unknown: no such queue.
        """
        return self._begin(self._queue(name), PurgeMessages("deleted"), then, ids=ids)

    def purge(self, name: str, selector: str, then: Callable[[Outcome], None]) -> RunningOperation:
        """Throw away what waits, and what would come back later.

        Args:
            selector: only messages that it takes; empty: all.

        Raises:
            Unknown: no such queue.
            NotAllowed: the selector is no selector.
        """
        return self._begin(self._queue(name), PurgeMessages("purged"), then, selector=selector)

    def move(
        self,
        source: str,
        target: str,
        ids: Sequence[str] | None,
        selector: str,
        limit: int | None,
        then: Callable[[Outcome], None],
    ) -> RunningOperation:
        """Move messages to another queue, or publish them to a topic; at the first that finds no room it ends.

        Args:
            ids: None: all, in the order in which they are due.
            limit: so many at most; None: any number.

        Raises:
            Unknown: no such source.
            NotAllowed: no such kind of target, it is the source, or the selector is no selector.
        """
        queue, name = self._queue(source), self._target(target)
        if name == queue.name:
            raise NotAllowed("a queue of its own", f"the messages are in {name[:80]!r} already; name another target")
        return self._begin(queue, MoveMessages(self._broker, name), then, ids=ids, selector=selector, limit=limit)

    def redrive(
        self, name: str, ids: Sequence[str] | None, limit: int | None, then: Callable[[Outcome], None]
    ) -> RunningOperation:
        """Send dead letters back to where they could not be consumed, with no failures so far.

        Raises:
            Unknown: no such queue.
        """
        return self._begin(self._queue(name), RedriveMessages(self._broker), then, ids=ids, limit=limit)

    def delete_durable(self, name: str, then: Callable[[], None]) -> None:
        """A durable subscription that nobody consumes is no more; what waits for it goes in slices, for good.

        Args:
            name: of its queue.

        Raises:
            Unknown: there is none of that name.
            Busy: somebody consumes it.
        """
        durable_subscriptions = self._broker.registry.durable_subscriptions
        if durable_subscriptions.get(name) is None:
            raise Unknown("unknown durable subscription", f"there is no durable subscription {name[:80]!r}")
        try:
            durable_subscriptions.end(name)
        except NotAllowed as error:
            raise Busy(str(error), error.detail) from error
        self.when_stored(then)

    def when_stored(self, then: Callable[[], None]) -> None:
        """Call back, never at once, when all that was changed so far is in the store."""
        storage, scheduler = self._broker.storage, self._broker.scheduler
        scheduler.later(then if storage is None else lambda: storage.when_all_written(then))

    def _begin(
        self,
        queue: Queue,
        deed: Operation,
        then: Callable[[Outcome], None],
        *,
        ids: Sequence[str] | None = None,
        selector: str = "",
        limit: int | None = None,
    ) -> RunningOperation:
        wanted = None if ids is None else _numbers(ids)
        work = RunningOperation(queue, deed, then, wanted=wanted, selector=_parsed(selector), limit=limit)
        if wanted is not None and ids is not None:
            known = set(wanted.values())
            work.outcome.missing = [id for id in dict.fromkeys(ids) if id not in known]
        return work

    # names

    def _queue(self, name: str) -> Queue:
        """The queue of that name.

        Raises:
            Unknown: there is none.
        """
        registry = self._broker.registry
        found = registry.find(name)
        if found is None:
            try:
                found = registry.find(names.canonical(name))
            except NotAllowed as error:
                raise Unknown("unknown queue", error.detail) from error
        if not isinstance(found, Queue):
            why = "it is a topic, where nothing waits" if found is not None else "nothing waits there"
            raise Unknown("unknown queue", f"there is no queue {name[:80]!r}: {why}")
        return found

    def _target(self, name: str) -> str:
        """The canonical name of what messages are to be moved to.

        Raises:
            NotAllowed: no such kind of destination, or several.
        """
        if isinstance(self._broker.registry.find(name), Queue):
            return name
        if "," in name:  # a queue of that name nobody could consume
            raise NotAllowed("several targets", f"{name[:80]!r} must name one destination")
        name = names.canonical(name)
        if name.startswith(names.APP):
            raise NotAllowed(
                "a function is no place to move to", f"{name[:80]!r} is handled by a function; name a queue, or a topic"
            )
        return name


def _parsed(selector: str) -> Selector | None:
    return selectors.parse(selector) if selector else None


def _numbers(ids: Sequence[str]) -> dict[int, str]:
    """The numbers of messages, and the ids that they were named by; what is no id of this server is left out."""
    run = Message.run.decode() + "-"
    found = {}
    for id in ids:
        start, number = id[: len(run)], id[len(run) :]
        if start == run and number.isascii() and number.isdigit() and len(number) <= 18:
            found[int(number)] = id
    return found
