"""One SUBSCRIBE: where its messages go, and which of them are not settled.

A subscription takes messages from one queue: the destination's, or, where a topic's messages must be acknowledged, a
private one that the topic fills.  (A topic's subscription in mode auto has no queue; the topic writes into its outbox.)

The ledger holds the deliveries that the client has not settled, in order, so that a cumulative ACK is a walk from its
start.  Its keys are what the client's ACK will name: in 1.2 the value of the `ack` header, before that the message-id.
"""

from __future__ import annotations

import itertools
import sys
from enum import Enum
from typing import TYPE_CHECKING

from gateway.codec import encoder

from ..model.message import Delivery, Message
from ..model.options import SubscribeOptions
from .ready import ReadyList

if TYPE_CHECKING:
    from ..core.authorization import PatternFilter
    from ..events import EventLog
    from ..session.session import Session
    from ..topic.offsets import Offset
    from ..topic.topic import Topic
    from .extra_headers import ExtraHeaders
    from .groups import Group
    from .outbox import Feeder
    from .queue import Queue
    from .rotation import ConsumerSet


_serials = itertools.count(1)


def _limit(asked: int | None, default: int) -> int:
    """A limit as the client asked for it: nothing is the server's, 0 is none."""
    return default if asked is None else asked or sys.maxsize


class AckMode(Enum):
    """The `ack` header of SUBSCRIBE."""

    AUTO = "auto"
    CLIENT = "client"
    INDIVIDUAL = "client-individual"


class Subscription:
    """A session's subscription.

    Attributes:
        id: as the client named it; None where a 1.0 client gave none.
        key: starts the `ack` handles of its deliveries; unique in the session.
        destination: as the client wrote it.
        options: what else the client asked for.
        ledger: handle -> delivery, oldest first; None in mode auto.
        delivered: messages that its queue gave it, and as many times.
        held_bytes: what the messages in the ledger cost.
        form: in which its MESSAGEs are written, see `encoder.FORMS`; `frame_end` is a part of it.
        window: bytes in the outbox from which on a queue stops dispatching to it; below 0 while it is paused.
        prefetch: messages that it may have at a time, as far as they are counted.
        serial: unique among all subscriptions; a message that it gave back remembers this and not the subscription.
        consumer_set: the consumers of its queue that want the same messages as it does.
        groups: the message groups that are this consumer's; None: it has none.
        parked: the first message that waits of each group that is this consumer's; None: it has no group.
        listed: it stands in its queue's rotation.
        reader: gives it what its topic retained, or has in its log; None: there is nothing more.
        extra_headers: header lines that it alone gets; None: there are none.
        pattern_filter: what it may see of what its pattern matches; None: all of it.
        offset: the name under which it reads a log; None: it has none.
        records: told of each delivery; None: nobody records.
        names: what its rows have in common; empty: they are not told, or differ with the message.
        names_by: the same for each destination that a message of it had, and for it itself; None: they are not told.
        stands_by: another consumer of the queue is the exclusive one.
        ended: it left its queue, or gets nothing more from it and soon will have left; `queue` still tells where a
            transaction's deliveries go back to.
    """

    __slots__ = (
        "_most_bytes",
        "_most_messages",
        "_open_window",
        "consumer_set",
        "delivered",
        "destination",
        "ended",
        "extra_headers",
        "form",
        "frame_end",
        "groups",
        "held_bytes",
        "id",
        "key",
        "ledger",
        "listed",
        "mode",
        "names",
        "names_by",
        "offset",
        "options",
        "outbox",
        "parked",
        "pattern_filter",
        "prefetch",
        "prefix",
        "queue",
        "reader",
        "records",
        "serial",
        "session",
        "stands_by",
        "topic",
        "version",
        "window",
    )

    def __init__(
        self,
        session: Session,
        subscription_id: str | None,
        key: str,
        destination: str,
        mode: AckMode,
        options: SubscribeOptions,
    ) -> None:
        quotas = session.broker.quotas
        self.session = session
        self.id = subscription_id
        self.key = key
        self.destination = destination
        self.mode = mode
        self.options = options
        self.version = session.version
        self.form = session.form
        self.frame_end = session.frame_end
        self.outbox = session.outbox
        self.prefix = encoder.message_prefix(subscription_id, session.version)
        self.ledger: dict[str, Delivery] | None = None if mode is AckMode.AUTO else {}
        self.held_bytes = 0
        self.window = self._open_window = session.outbox.window
        self.queue: Queue | None = None
        self.topic: Topic | None = None
        self.reader: Feeder | None = None
        self.extra_headers: ExtraHeaders | None = None
        self.pattern_filter: PatternFilter | None = None
        self.offset: Offset | None = None
        self.records: EventLog | None = session.broker.records
        self.names = b""
        self.names_by: dict[str, bytes] | None = None
        self.consumer_set: ConsumerSet | None = None
        self.groups: dict[Group, None] | None = None
        self.parked: ReadyList | None = None
        self.listed = False
        self.stands_by = False
        self.ended = False
        self._most_messages = _limit(options.prefetch, quotas.max_unacknowledged)
        self.prefetch = min(self._most_messages, quotas.max_unacknowledged)
        self._most_bytes = _limit(options.prefetch_bytes, quotas.max_unacknowledged_octets)
        self.delivered = 0
        self.serial = next(_serials)

    def has_room(self) -> bool:
        """Whether a message can be sent now.  If not, the subscription comes back to its queue when it can."""
        outbox = self.outbox
        if self.stands_by:
            return False
        if outbox.size >= self.window or outbox.closed:
            outbox.starved[self] = None
            return False
        ledger = self.ledger
        return not ledger or (len(ledger) < self._most_messages and self.held_bytes < self._most_bytes)

    def pause(self) -> None:
        """Get nothing until `start`: the RECEIPT of the SUBSCRIBE goes out before the messages that it brings."""
        self.window = -1

    def start(self) -> None:
        """Get messages from now on, unless the subscription has ended meanwhile."""
        if not self.ended:
            self.window = self._open_window
            self.outbox.feed_starved()  # the subscription, its reader or its browser found no room there

    def narrow(self, most: int) -> None:
        """Let at most so many bytes gather in the outbox."""
        self._open_window = min(self._open_window, most)
        self.window = min(self.window, most)

    @property
    def is_stored(self) -> bool:
        """Whether the store knows of the subscription itself, or of the name under which it reads a log."""
        return self.offset is not None or (self.queue is not None and self.queue.feed is not None)

    def stop(self) -> None:
        """Get nothing more from its queue, and keep what it has not settled until it leaves."""
        self.ended = True
        self.window = -1

    def is_ready(self) -> bool:
        """Whether it stands in its rotation and has room; if it turns out that it has not, it leaves the rotation."""
        if not self.listed:
            return False
        if self.has_room():
            return True
        assert self.consumer_set is not None  # it is listed there
        self.consumer_set.unlist(self)
        return False

    def offer(self) -> None:
        """Back into the queue's rotation: there may be room again."""
        if self.queue is not None and not self.listed and not self.ended:
            self.queue.enlist(self)
        if self.reader is not None:
            self.reader.offer()

    def deliver(self, message: Message) -> None:
        """Put a message of the queue into the outbox."""
        prefix = self.prefix
        self.delivered += 1
        if self.ledger is not None:
            prefix += self._enter(message, self.ledger)
        if self.extra_headers is not None:
            prefix += self.extra_headers.of(message)
        if message.attempts:
            prefix = b"%bredelivered:true\ndelivery-count:%d\n" % (prefix, message.attempts + 1)
        message.attempts += 1
        outbox = self.outbox
        wire = message.wire
        if wire is None:
            shared = encoder.message(message.head, message.id, message.body, self.version, self.frame_end)
        else:
            shared = wire[self.form]
        outbox.append(prefix, shared)
        if self.ledger is None:
            assert self.queue is not None  # it is the queue that calls
            outbox.unsent.append((self.queue, message, outbox.gone + outbox.size))
            if message.row:
                outbox.rows += 1
        if self.records is not None:
            self.records.delivered(self, message, next(reversed(self.ledger.values())) if self.ledger else None)

    def show(self, message: Message, lines: bytes = b"") -> None:
        """Put a message into the outbox that nobody has to acknowledge, and that no queue takes back.

        Args:
            lines: further header lines, of this receiver alone.
        """
        shared = encoder.message(message.head, message.id, message.body, self.version, self.frame_end)
        self.outbox.append(self.prefix + lines, shared)

    def _enter(self, message: Message, ledger: dict[str, Delivery]) -> bytes:
        """Enter a delivery into the ledger; returns the header line that tells its handle, where a line does."""
        self.session.outstanding += 1
        if self.version.ack_id:
            handle = f"{self.key}-{self.delivered}"
            line = b"ack:%b\n" % handle.encode()
        else:
            handle = message.id.decode()
            line = b""
        ledger[handle] = delivery = Delivery(message, self, handle)
        if self.session.subscriptions.by_message_id is not None:
            self.session.subscriptions.by_message_id.add(delivery)
        self.held_bytes += delivery.size
        return line

    def remove(self, delivery: Delivery) -> None:
        """A delivery leaves the ledger."""
        assert self.ledger is not None  # there are deliveries only where there is a ledger
        del self.ledger[delivery.handle]
        if self.session.subscriptions.by_message_id is not None:
            self.session.subscriptions.by_message_id.remove(delivery)
        self.held_bytes -= delivery.size
        self.session.outstanding -= 1

    def covered(self, delivery: Delivery) -> list[Delivery]:
        """What an ACK or NACK of that delivery settles: it, and in mode client all before it (ACK-04, NAK-02).

        Deliveries that a transaction holds are not touched by anything outside it.
        """
        if self.mode is AckMode.INDIVIDUAL or self.ledger is None:
            return [delivery]
        earlier = itertools.takewhile(lambda each: each is not delivery, self.ledger.values())
        return [*(each for each in earlier if each.transaction is None), delivery]
