"""Replay: a subscriber gets from the logs what it missed, and then what comes live.

    SUBSCRIBE with from-seq, or resume  ->  a `Reader` reads the logs, as fast as the client reads
    it has come to their end            ->  the subscription joins the topic

Nothing comes between the last look into the logs and the joining, so that nothing is missed, doubled or out of order.
Until then the topic knows the subscription only as one that comes.

A pattern has the logs of all topics that it matches, read as one in the order of arrival.

What the logs no longer have is told.  The first MESSAGE behind a gap has `gap:true`, and `first-seq`, the first number
that was there.  Where there is none that could have it, an empty MESSAGE does, which has no `seq`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from gateway.codec import Head

from .batch import Stored
from .cursors import Cursors
from .destinations import USER
from .durables import Name
from .errors import NotAllowed
from .log import Entry, Log
from .logs import Logs
from .message import Message
from .notes import Notes
from .options import Origin, Start
from .ports import ANONYMOUS
from .topic import wants
from .words import has_wildcard

if TYPE_CHECKING:
    from .broker import Broker
    from .subscription import Subscription
    from .topic import Topic

# What is read at once, and given in one turn, at most.
_PAGE, _PAGE_OCTETS = 200, 256 * 1024


class Replay:
    """Which subscriptions begin in the past, and where.

    Attributes:
        cursors: where those with a name have come to.
    """

    def __init__(self, broker: Broker, logs: Logs) -> None:
        self.cursors = Cursors(broker)
        self._broker = broker
        self._logs = logs

    def check(self, name: str, subscription: Subscription, durable: Name | None, *, has_log: bool) -> None:
        """Refuse what cannot be replayed.

        Args:
            name: of the topic, or a pattern.

        Raises:
            NotAllowed: there is no log, or the frame asks for two things that do not go together.
        """
        options = subscription.options
        start, shown = options.start, subscription.destination[:80]
        begins = start is not None and not start.is_wish and start.origin is not Origin.NEXT
        if not (begins or options.resume or options.include_seq):
            return
        if durable is not None:
            raise NotAllowed(
                "a durable subscription has a queue of its own",
                "it keeps what its client misses; leave out from-seq, resume and include-seq, or what makes it durable",
            )
        if has_wildcard(name):
            if start is not None and start.origin is Origin.SEQ:
                raise NotAllowed(
                    "from-seq is for one topic",
                    f"{shown!r} is a pattern, and each topic has numbers of its own; 0, -1, timestamp=S, or resume do",
                )
        elif not has_log:
            raise NotAllowed(
                "the topic keeps no log",
                f"{shown!r} cannot be replayed: the server's policy for it sets none of log_messages, log_octets and "
                "log_age",
            )
        if options.resume and name.startswith(USER) and subscription.session.login == ANONYMOUS:
            raise NotAllowed(
                "resume of one's mail needs a login", "without one, it would be another user who comes back"
            )
        if options.resume and subscription.ledger is None:
            raise NotAllowed(
                "resume needs acknowledgements", "with ack:auto nobody knows what has arrived; say ack:client"
            )

    def check_queue(self, subscription: Subscription) -> None:
        """Refuse replay of a queue, and see to the numbers of its messages.

        Raises:
            NotAllowed: a queue is not replayed.
        """
        options = subscription.options
        start = options.start
        if options.resume or (start is not None and start.origin is not Origin.NEXT and not start.is_wish):
            raise NotAllowed(
                "replay is for topics",
                f"{subscription.destination[:80]!r} is a queue: what is consumed is gone; a browser reads what waits",
            )
        if options.include_seq:
            subscription.notes = Notes([options.include_seq], numbered=False)

    def begin(self, topic: Topic, subscription: Subscription) -> bool:
        """Begin in the past, if that was asked for; False: the subscription is still to join its topic.

        Raises:
            NotAllowed: there are too many names to resume by.
        """
        options, logs = subscription.options, self._logs.matching(topic.name)
        start = options.start
        if start is not None and start.is_wish and not logs:
            start = None
        notes = Notes(["" if start is None else start.header, options.include_seq], numbered=True)
        if notes:
            subscription.notes = notes
        cursor = self.cursors.find(subscription, topic.name) if options.resume else None
        reader = Reader(self._broker, self._logs, topic, subscription)
        is_new = cursor is None and (start is None or start.origin is Origin.NEXT)
        if cursor is not None:
            reader.resume(cursor.position)
        elif start is not None and not is_new:
            reader.begin(start, logs)
        if options.resume:
            self.cursors.hold(subscription, topic, reader)
            if topic.log is not None:
                topic.log.remember()
        if is_new:
            return False
        topic.join(subscription, is_late=True)
        subscription.reader = reader
        reader.offer()
        return True


def _place(logs: list[Log], start: Start) -> tuple[int | None, list[Log]]:
    """Where to begin, and the logs that have lost some of what was asked for.

    The place is the number of the message before; None: nothing is there.
    """
    if start.origin is Origin.SEQ:
        (log,) = logs  # a pattern was refused
        if log.first <= start.value <= log.next:
            return log.before_seq(start.value), []
        return log.lost - 1, [log]
    if start.origin is Origin.TIME:
        missed = [log for log in logs if log.has_lost_since(start.value)]
        return min([log.before_time(start.value) for log in logs], default=None), missed
    if start.origin is Origin.LAST:
        return max([log.before_last() for log in logs if len(log)], default=None), []
    return min([log.lost for log in logs], default=None), []


class Reader:
    """What is left of the logs that a new subscriber is to get.

    Attributes:
        position: the number of the last message that it was given, or passed over.
    """

    __slots__ = (
        "_broker",
        "_forgiven",
        "_gaps",
        "_is_reading",
        "_kept",
        "_logs",
        "_page",
        "_started",
        "_subscription",
        "_topic",
        "_walk",
        "position",
    )

    def __init__(self, broker: Broker, logs: Logs, topic: Topic, subscription: Subscription) -> None:
        self.position = broker.router.number
        # What is still to be told: log -> number of a message that is gone; None: some log that is not known any more.
        self._gaps: dict[Log | None, int] = {}
        # What was lost up to there is not to be told: of a log, and of others.
        self._forgiven: dict[Log, int] = {}
        self._started = 0
        self._broker = broker
        self._logs = logs
        self._topic = topic
        self._subscription = subscription
        self._walk: Iterator[Entry] = iter(())
        self._page: deque[Entry] = deque()
        self._kept = 0  # octets of what stands in the page
        self._is_reading = False

    def begin(self, start: Start, logs: list[Log]) -> None:
        """Begin where a SUBSCRIBE says."""
        self._started = self.position
        self._forgiven = {log: log.lost for log in logs}
        position, missed = _place(logs, start)
        self._gaps = {log: log.lost for log in missed}
        if position is not None:
            self.position = position

    def resume(self, position: int) -> None:
        """Begin behind that message."""
        self.position = position
        logs = self._logs
        forgotten = logs.started if self._topic.policy.durable is False else logs.forgotten
        if self._topic.log is None and position < forgotten:
            self._gaps[None] = forgotten

    def offer(self) -> None:
        """Go on: there may be room."""
        if self._is_reading:
            return
        for _ in range(_PAGE):
            if self._subscription.reader is not self or not (self._page or self._turn_page()) or not self._has_room():
                return
            self._give(self._page.popleft())
        self._broker.agenda.later(self.offer)

    def end(self) -> None:
        """The subscription goes, or has come to the end of the logs."""
        self._subscription.reader = None
        self._subscription.outbound.starved.pop(self, None)
        self._broker.release(self._kept)
        self._kept = 0

    def _turn_page(self) -> bool:
        """Have more to give; False: there is nothing left, or it is being read."""
        entries = self._next_entries()
        if not entries:
            self._begin_walk()
            entries = self._next_entries()
        if not entries:
            self._go_live()
            return False
        missing = [entry.number for entry in entries if entry.message is None and entry.size]
        if not missing:
            self._add(entries)
            return True
        storage = self._broker.storage
        assert storage is not None  # messages are there
        self._is_reading = True
        storage.read(missing, partial(self._arrived, entries))
        return False

    def _begin_walk(self) -> None:
        """All that was there is given: look what came meanwhile, and what went."""
        logs = self._logs.matching(self._topic.name)
        for log in logs:
            if log.lost > max(self.position, self._forgiven.get(log, self._started)):
                self._gaps.setdefault(log, log.lost)
        self._walk = self._logs.walk(logs, self.position)

    def _next_entries(self) -> list[Entry]:
        """The next ones that the logs have."""
        entries: list[Entry] = []
        octets = _PAGE_OCTETS
        for entry in islice(self._walk, _PAGE):
            entries.append(entry)
            octets -= entry.size
            if octets <= 0:
                break
        return entries

    def _arrived(self, entries: list[Entry], found: list[Stored]) -> None:
        """Messages were read; some may be gone."""
        self._is_reading = False
        if self._subscription.reader is not self:
            return
        storage = self._broker.storage
        assert storage is not None  # they come from there
        read = {stored.row.row: storage.facts.read(stored) for stored in found}
        for place, entry in enumerate(entries):
            if entry.number in read:
                message, extra = read[entry.number]
                message.row = 0
                message.head.derived = extra["seq"]
                entries[place] = entry._replace(message=message, sender=extra["sender"])
        self._add(entries)
        self.offer()

    def _add(self, entries: list[Entry]) -> None:
        self._page.extend(entries)
        octets = sum([entry.size for entry in entries])
        self._kept += octets
        self._broker.keep(octets)

    def _has_room(self) -> bool:
        subscription = self._subscription
        outbound, queue = subscription.outbound, subscription.queue
        if outbound.closed or (queue is not None and queue.waiting):
            return False  # the subscription asks again when it has room
        if outbound.size >= subscription.window:
            outbound.starved[self] = None
            return False
        return True

    def _give(self, entry: Entry) -> None:
        self.position = entry.number
        self._kept -= entry.size
        self._broker.release(entry.size)
        message, subscription = entry.message, self._subscription
        if message is None:
            self._gaps.setdefault(entry.log, entry.number)
            return
        if 0 < message.expires <= self._broker.agenda.clock() or not wants(subscription, message, entry.sender):
            return
        found = [log for log in (entry.log, None) if log in self._gaps]
        if found:
            self._tell(message, found)
            subscription.notes = subscription.notes or Notes([], numbered=True)
            subscription.notes.tell_gap(message, int(message.head.headers["seq"]))
        self._topic.give(subscription, message)

    def _tell(self, message: Message, logs: Iterable[Log | None]) -> None:
        """A message tells that these have lost something; whoever has not acknowledged it is to be told again."""
        lost = min([self._gaps.pop(log) for log in logs])
        if self._subscription.cursor is not None:
            self._subscription.cursor.gaps[message.number] = lost

    def _go_live(self) -> None:
        """All that the logs have was given: what comes next comes from the topic."""
        self.end()
        for log in list(self._gaps):
            notice = self._notice(log)
            self._tell(notice, [log])
            self._topic.give(self._subscription, notice)
        if not self._subscription.notes:
            self._subscription.notes = None
        self._topic.welcome(self._subscription)

    def _notice(self, log: Log | None) -> Message:
        """A MESSAGE that tells of a gap, where there is no other."""
        name = self._subscription.destination
        headers = {"destination": name if log is None or log is self._topic.log else log.name, "gap": "true"}
        if log is not None:
            headers["first-seq"] = str(log.first)
        return Message(self._broker.next_number(), Head.of("MESSAGE", headers), b"")
