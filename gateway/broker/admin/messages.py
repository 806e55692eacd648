"""Administration of waiting messages: an operator browses, deletes, purges, moves and redrives them.

Each method checks its arguments at once, begins its work in a turn of its own, goes on in slices (`scan`), and calls
back when it is over.  `operations` has what is done to the messages.

Scheduled messages are in no queue: each has an id of its own, and `stored_rows` lists them.  Messages that a topic's
ordinary subscriber has still to get are not here; they end with the session.
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
from ..topic.topic import Topic
from .message_rows import of_message
from .operations import (
    MoveMessages,
    Operation,
    Outcome,
    PurgeMessages,
    RedriveMessages,
    RedrivePlan,
    RunningOperation,
)
from .scan import QueueScan, ScanPosition
from .stored_rows import names_of
from .stream_page import StreamPage

if TYPE_CHECKING:
    from ..broker import Broker
    from ..routing.scheduled import ScheduledSend
    from ..topic.stream import Stream

__all__ = [
    "Busy",
    "MessageAdmin",
    "Outcome",
    "Page",
    "RedrivePlan",
    "RunningOperation",
    "Search",
    "StreamPage",
    "Unknown",
]

MOST_SHOWN = 4 * 1024
"""Bytes of each body in a list."""
# Bytes of a row beside the headers and the body.
_OF_A_ROW = 300


class Unknown(NotAllowed):
    """There is no such queue, or durable subscription."""


class Busy(NotAllowed):
    """Not now: it is in use."""


@dataclass(frozen=True)
class Page:
    """Some of the messages that wait."""

    messages: list[dict[str, object]]  # rows, in the order in which they are due; delayed messages at the end
    total: int  # how many wait
    next: int | None  # the offset of the next page, because this one may end before its limit; None: there is none


class Search:
    """Reads messages that wait, and takes none out.

    Args:
        offset: so many are skipped.
        limit: most rows; large rows end the page before it (`listed_bytes`), but there is at least one.
        selector: only messages that it selects; None: all.
        total: how many wait; None: they are counted.
        most: bytes of each body.
    """

    needs_pause = False  # nothing is sent, so no subscriber can fall behind

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
        self._room = queue.context.work_limits.listed_bytes
        # Where the total is known, no message before the offset need be looked at: the scan skips them unread.
        self._seen = skip = offset if total is not None and only is None else 0
        self._scan = QueueScan(queue, self, only=only, skip=skip)

    def cancel(self) -> None:
        """The result is not needed any more."""
        self._scan.cancel()

    def visit(self, message: Message, where: ScanPosition) -> bool:
        if self._selector is not None and not self._selector(message.head.headers):
            return True
        # A position counts what the selector takes, as the offset of the next page does.
        if self._first <= self._seen < self._end:
            row = of_message(self._queue.context, self._queue.name, message, self._most)
            self._found.append(row | {"position": self._seen, "delayed": where is ScanPosition.RESTING})
            self._count(message)
        self._seen += 1
        # Where the total is not known, the rest is visited to be counted.
        return self._total is None or self._seen < self._end

    def _count(self, message: Message) -> None:
        """Count the bytes of a row, and end the page where they are many."""
        # Destinations are in fields of their own, too.
        shown = min(len(message.body), self._most) + min(message.head.size, 2 * self._most)
        self._room -= _OF_A_ROW + shown
        # This row is the last one and still in the page, so that each page has one and the next offset grows.
        if self._room <= 0:
            self._end = self._seen + 1

    def turn_over(self) -> None:
        """For the scan: nothing has changed."""

    def over(self) -> None:
        total = self._seen if self._total is None else self._total
        # Where nothing was found, the queue has become shorter than `total` meanwhile: there is no next page.
        self._then(Page(self._found, total, self._end if self._found and self._end < total else None))


class MessageAdmin:
    """Administration of the messages of one broker.

    Names are as clients write them, or canonical.  All methods raise at once or return at once; callbacks come later:
    after a change as soon as the store has it, and so not while the store cannot be written.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    # reading

    def browse(
        self, name: str, offset: int, limit: int, selector: str, then: Callable[[Page], None]
    ) -> Search | StreamPage:
        """A page of the messages that wait in a queue; or that a topic's stream keeps, the newest first.

        `selector`: only messages that it selects, for which all are read; empty: all.  Raises Unknown: no such queue;
        NotAllowed: the selector has an error, or is for a stream.
        """
        stream = self._stream(name)
        if stream is not None:
            if selector:
                raise NotAllowed("a stream has no selector here", "all its messages are listed, the newest first")
            return self._stream_page(
                stream, lambda rows, after: then(Page(rows, len(stream), after)), offset, limit, MOST_SHOWN
            )
        queue, wanted = self._queue(name), _parsed(selector)
        total = queue.waiting + len(queue.resting) if wanted is None else None
        return Search(queue, then, offset=offset, limit=limit, selector=wanted, total=total)

    def find(
        self, name: str, id: str, most: int, then: Callable[[dict[str, object] | None], None]
    ) -> Search | StreamPage:
        """One message of a queue or a stream, or None.  `most`: bytes of its body.  Raises Unknown: no such queue."""
        stream, number = self._stream(name), next(iter(_numbers([id])), 0)
        if stream is not None:

            def tell_one(rows: list[dict[str, object]], _: int | None) -> None:
                then(next((row for row in rows if row["id"] == id), None))

            return self._stream_page(stream, tell_one, stream.count_behind(number), 1, most)

        def tell(page: Page) -> None:
            # Its position is not known, because the messages before it were not read.
            then(page.messages[0] | {"position": None} if page.messages else None)

        # The total is given, though nothing is counted: so the scan ends with the message that it finds.
        return Search(self._queue(name), tell, total=1, most=most, only=list(_numbers([id])))

    def scheduled(self, id: str) -> ScheduledSend | None:
        """The scheduled message of that id; None: there is none."""
        found = self._broker.router.delayed
        return next((found.find(number) for number in _numbers([id])), None)

    # changing

    def delete(self, name: str, ids: Sequence[str], then: Callable[[Outcome], None]) -> RunningOperation:
        """Delete some messages.  Raises Unknown: no such queue."""
        return self._begin(self._queue(name), PurgeMessages("deleted"), then, ids=ids)

    def purge(self, name: str, selector: str, then: Callable[[Outcome], None]) -> RunningOperation:
        """Delete the messages that wait, delayed ones included.

        `selector`: only messages that it selects; empty: all.  Raises Unknown: no such queue; NotAllowed: the selector
        has an error.
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
        """Move messages to another queue, or publish them to a topic; the first that finds no room ends it.

        Args:
            ids: None: all, in the order in which they are due.
            limit: most messages; None: any number.

        Raises:
            Unknown: no such source.
            NotAllowed: the target is the source, or cannot be one, or the selector has an error.
        """
        queue, name = self._queue(source), self._target(target)
        if name == queue.name:
            raise NotAllowed(
                "source and target are the same", f"the messages are in {name[:80]!r} already; name another target"
            )
        return self._begin(queue, MoveMessages(self._broker, name), then, ids=ids, selector=selector, limit=limit)

    def plan_redrive(self, name: str, then: Callable[[RedrivePlan], None]) -> RedrivePlan:
        """Look where each dead letter of a queue would go, and move none.  Raises Unknown: no such queue."""
        return RedrivePlan(self._queue(name), RedriveMessages(self._broker), then)

    def redrive(
        self, name: str, ids: Sequence[str] | None, limit: int | None, then: Callable[[Outcome], None]
    ) -> RunningOperation:
        """Send dead letters back where they came from, without their failures.  Raises Unknown: no such queue."""
        return self._begin(self._queue(name), RedriveMessages(self._broker), then, ids=ids, limit=limit)

    def delete_durable(self, name: str, then: Callable[[], None]) -> None:
        """End a durable subscription without consumers, and drop its messages in slices.

        `name`: of its queue.  Raises Unknown: there is none of that name; Busy: it has a consumer.
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
        """Call back, never at once, when all changes so far are in the store."""
        storage, scheduler = self._broker.storage, self._broker.scheduler
        # Later even without a store: the caller may not have noted yet what it waits for.
        scheduler.later(then if storage is None else lambda: storage.when_all_written(then))

    def _begin(
        self,
        queue: Queue,
        operation: Operation,
        then: Callable[[Outcome], None],
        *,
        ids: Sequence[str] | None = None,
        selector: str = "",
        limit: int | None = None,
    ) -> RunningOperation:
        wanted = None if ids is None else _numbers(ids)
        running = RunningOperation(queue, operation, then, wanted=wanted, selector=_parsed(selector), limit=limit)
        # Ids that no message of this server can have: they are told with those that do not wait there.
        if wanted is not None and ids is not None:
            known = set(wanted.values())
            running.outcome.missing = [id for id in dict.fromkeys(ids) if id not in known]
        return running

    # names

    def _stream(self, name: str) -> Stream | None:
        """The stream of the topic of that name; None: it is no topic, or keeps none."""
        registry = self._broker.registry
        found = next((each for each in map(registry.find, names_of(name)) if each is not None), None)
        return found.stream if isinstance(found, Topic) else None

    def _stream_page(
        self,
        stream: Stream,
        then: Callable[[list[dict[str, object]], int | None], None],
        offset: int,
        limit: int,
        most: int,
    ) -> StreamPage:
        context, streams = self._broker.context, self._broker.registry.streams
        return StreamPage(context, streams, stream, then, offset=offset, limit=limit, most=most)

    def _queue(self, name: str) -> Queue:
        """The queue of that name.  Raises Unknown: there is none."""
        registry = self._broker.registry
        # As it is, first: hidden queues have canonical names that no client can write.
        found = registry.find(name)
        if found is None:
            try:
                found = registry.find(names.canonical(name))
            except NotAllowed as error:
                raise Unknown("unknown queue", error.detail) from error
        if not isinstance(found, Queue):
            why = "it is a topic, which keeps no waiting messages" if found is not None else "it has no messages"
            raise Unknown("unknown queue", f"there is no queue {name[:80]!r}: {why}")
        return found

    def _target(self, name: str) -> str:
        """The canonical name of a target.  Raises NotAllowed: messages cannot be moved there, or it is a list."""
        # The hidden queue of a user or of a durable subscription may be a target.
        if isinstance(self._broker.registry.find(name), Queue):
            return name
        if "," in name:  # a list of destinations, so no consumer could subscribe to a queue of that name
            raise NotAllowed("several targets", f"{name[:80]!r} must name one destination")
        name = names.canonical(name)
        # Only `Router.prepare` finds the queue of a function: a moved message would wait where nothing reads it.
        if name.startswith(names.APP):
            raise NotAllowed(
                "target is a function", f"{name[:80]!r} is handled by a function; name a queue, or a topic"
            )
        return name


def _parsed(selector: str) -> Selector | None:
    return selectors.parse(selector) if selector else None


def _numbers(ids: Sequence[str]) -> dict[int, str]:
    """Number -> id as the operator gave it; ids that this server did not make are left out."""
    run = Message.run.decode() + "-"
    found = {}
    for id in ids:
        start, number = id[: len(run)], id[len(run) :]
        # 18 digits fit into 64 bits, and `int` of thousands would take long.
        if start == run and number.isascii() and number.isdigit() and len(number) <= 18:
            found[int(number)] = id
    return found
