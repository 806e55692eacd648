"""Subscription: where the messages of one SUBSCRIBE go, and which of them are not settled.

A subscription takes messages from one queue: the destination's, or, where a topic's messages must be acknowledged, a
private one that the topic fills.  (A topic's subscription in mode auto has no queue; the topic writes into its outbox.)

The ledger holds the deliveries that the client has not settled, in order, by what its ACK will name.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterable
from typing import Protocol, TypeAlias

from gateway.codec import encoder

from ..core.ages import Age
from ..core.context import Context
from ..core.events import EventLog
from ..core.outbox import Feeder, Outbox, Source
from ..core.ports import Peer
from ..model.message import Message
from ..model.options import AckMode, SubscribeOptions

_serials = itertools.count(1)


def _limit(asked: int | None, default: int) -> int:
    """A limit as the client asked for it: nothing is the server's, 0 is none."""
    return default if asked is None else asked or sys.maxsize


class ConsumedQueue(Source, Protocol):
    """The queue of a subscription, as its session uses it (see `Queue`)."""

    private: bool
    filled_by_topic: bool
    subscriptions: Collection[Subscription]

    @property
    def waiting(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def stored(self) -> int: ...
    def accept(self, message: Message) -> None: ...
    def enlist(self, subscription: Subscription) -> None: ...
    def acknowledge(self, deliveries: Iterable[Delivery]) -> None: ...
    def reject(self, deliveries: Iterable[Delivery], *, requeue: bool = True, reason: str = "") -> None: ...
    def drop(self, subscription: Subscription, *, lost: bool = False) -> list[Message]: ...
    def take_back(self, messages: Iterable[Message]) -> None: ...
    def stopped(self) -> None: ...


Returned: TypeAlias = "dict[ConsumedQueue, list[Message]]"
"""Messages that are to come back, by the queue to which."""


def take_back_all(returned: Returned) -> None:
    """Give collected messages back, queue by queue."""
    # All subscriptions that go together have gone: none of them gets what another one gives back.
    for queue, messages in returned.items():
        queue.take_back(messages)


def remove_all(deliveries: Iterable[Delivery]) -> Subscription:
    """Deliveries, all of one subscription, leave its ledger; returns the subscription."""
    for delivery in deliveries:
        subscription = delivery.subscription
        subscription.remove(delivery)
    return subscription


class FollowedTopic(Protocol):
    """The topic of a subscription, as its session uses it.

    Attributes:
        last: the number of the last message that came while a subscriber had to acknowledge; 0: none did.
    """

    name: str
    last: int

    def leave(self, subscription: Subscription, *, lost: bool = False) -> None: ...


class Deadlines(Protocol):
    """The time in which consumers of a queue must settle messages (see `AckDeadlines`)."""

    def begin(self, delivery: Delivery) -> None: ...
    def begin_again(self, deliveries: Collection[Delivery]) -> None: ...
    def settle(self, delivery: Delivery) -> None: ...
    def go_on(self, subscription: Subscription) -> None: ...
    def has_stalled(self, subscription: Subscription) -> bool: ...
    def take_late(self, subscription: Subscription, name: str, command: str) -> bool: ...


class DeliveryIndex(Protocol):
    """The deliveries of a session that are not settled, if its client names them by message-id alone."""

    def add(self, delivery: Delivery) -> None: ...
    def remove(self, delivery: Delivery) -> None: ...


class Delivery:
    """A message sent to a subscription and not yet settled.

    Attributes:
        held: an open transaction holds its ACK or NACK.
        at: when it went out, in nanoseconds of the recorder; 0: it is not known.
    """

    __slots__ = ("at", "handle", "held", "message", "size", "subscription")

    def __init__(self, message: Message, subscription: Subscription, handle: str) -> None:
        self.message = message
        self.subscription = subscription
        self.handle = handle
        self.size = message.size  # worked out once for the ledger and the account
        self.held = False
        self.at = 0


class ExtraHeaders:
    """Header lines that one subscription alone gets.

    Args:
        names: of headers that tell each message's number.
        numbered: the numbers are those of a stream; else of a queue.
    """

    __slots__ = ("_gaps", "_names", "_numbered")

    def __init__(self, names: Iterable[str], *, numbered: bool) -> None:
        every = {"seq"} if numbered else set()  # all of them have that
        self._names = tuple(dict.fromkeys(name.encode() for name in names if name and name not in every))
        self._numbered = numbered
        self._gaps: dict[int, bytes] = {}

    def __bool__(self) -> bool:
        """True if any message will get lines."""
        return bool(self._names or self._gaps)

    def tell_gap(self, message: Message, first: int) -> None:
        """Before that message, others are gone; `first` is the seq of the first that is there."""
        self._gaps[message.number] = b"gap:true\nfirst-seq:%d\n" % first

    def of(self, message: Message) -> bytes:
        """The lines of a message."""
        # Once; a client that resumes without having acknowledged it is told again (`Offset.gaps`).
        lines = self._gaps.pop(message.number, b"") if self._gaps else b""
        seq = message.head.derived if self._numbered else message.place
        if isinstance(seq, int):
            for name in self._names:
                lines += b"%b:%d\n" % (name, seq)
        else:  # of a topic that a pattern matched, and that has no stream: a number there would be the sender's
            for name in self._names:
                if name.decode() in message.head.headers:
                    lines += b"%b:\n" % name
        return lines


class Subscription:
    """A session's subscription.

    Attributes:
        id: as the client named it; None where a 1.0 client gave none.
        key: starts the `ack` handles of its deliveries; unique in the session.
        destination: as the client wrote it.
        ledger: handle -> delivery, oldest first; None in mode auto.
        held_bytes: cost of the messages in the ledger.
        form: in which its MESSAGEs are written, see `encoder.FORMS`; `frame_end` is a part of it.
        window: bytes in the outbox from which on a queue stops dispatching to it; below 0 while it is paused.
        prefetch: messages that it may have at a time, as far as they are counted.
        serial: unique among all subscriptions; a message that it gave back remembers this and not the subscription.
        listed: it stands in its queue's rotation.
        reader: gives it the retained messages of its topic, or those of its stream; None: there is nothing more.
        deadlines: of its deliveries, by its queue's policy; None: there are none.
        names, names_by: written and read by the event log alone.
        stands_by: another consumer of the queue is the exclusive one; only `Consumers` sets it.
        ended: it left its queue, or gets nothing more from it and soon will have left; `queue` still tells where a
            transaction's deliveries go back to.
    """

    __slots__ = (
        *("_ages", "_by_message_id", "_frame_end", "_most_bytes", "_most_messages", "_open_window", "_version"),
        *("deadlines", "delivered", "destination", "ended", "extra_headers", "form", "held_bytes", "id", "key"),
        *("ledger", "listed", "mode", "names", "names_by", "options", "outbox", "peer", "prefetch", "prefix", "queue"),
        *("reader", "records", "serial", "stands_by", "topic", "window"),
    )

    def __init__(
        self,
        context: Context,
        peer: Peer,
        outbox: Outbox,
        form: int,
        subscription_id: str | None,
        key: str,
        destination: str,
        mode: AckMode,
        options: SubscribeOptions,
        by_message_id: DeliveryIndex | None = None,
    ) -> None:
        quotas = context.quotas
        self._ages = context.ages
        self.peer = peer
        self.id = subscription_id
        self.key = key
        self.destination = destination
        self.mode = mode
        self.options = options
        self.form = form
        self._version, self._frame_end = encoder.FORMS[form]
        self.outbox = outbox
        # Encoded once: it begins each MESSAGE.
        self.prefix = encoder.message_prefix(subscription_id, self._version)
        self.ledger: dict[str, Delivery] | None = None if mode is AckMode.AUTO else {}
        self.held_bytes = 0
        self.window = self._open_window = outbox.window
        self.queue: ConsumedQueue | None = None
        self.deadlines: Deadlines | None = None
        self.topic: FollowedTopic | None = None
        self.reader: Feeder | None = None
        self.extra_headers: ExtraHeaders | None = None
        self.records: EventLog = context.records
        self.names = b""
        self.names_by: dict[str, bytes] | None = None
        self.listed = self.stands_by = self.ended = False
        self._by_message_id = by_message_id
        self._most_messages = _limit(options.prefetch, quotas.max_unacknowledged)
        self.prefetch = min(self._most_messages, quotas.max_unacknowledged)
        self._most_bytes = _limit(options.prefetch_bytes, quotas.max_unacknowledged_bytes)
        self.delivered = 0
        self.serial = next(_serials)

    def has_room(self) -> bool:
        """True if a message can be sent now.  If not, the subscription comes back to its queue when it has room.

        One that stands by does not: `Consumers.list_ready` lists it when the exclusive consumer has gone.
        """
        outbox = self.outbox
        if self.stands_by:
            return False
        # `pause` sets a window below any size, so that no further question is asked for each message.
        if outbox.size >= self.window or outbox.closed:
            outbox.starved[self] = None  # which offers room to it
            return False
        ledger = self.ledger
        # By what is there and not by what the next message costs, or one above the limit would wait for ever.
        return not ledger or (len(ledger) < self._most_messages and self.held_bytes < self._most_bytes)

    def pause(self) -> None:
        """Get nothing until `start`."""
        self.window = -1

    def start(self) -> None:
        """Get messages from now on, unless the subscription has ended meanwhile."""
        if not self.ended:
            self.window = self._open_window
            self.outbox.feed_starved()  # the subscription, its reader or its browser found no room there

    def narrow(self, most: int) -> None:
        """Let at most so many bytes gather in the outbox."""
        # `start` must not widen it again.
        self._open_window = min(self._open_window, most)
        self.window = min(self.window, most)

    @property
    def source(self) -> str:
        """The canonical name, or pattern, that it consumes."""
        target = self.topic or self.queue
        assert target is not None  # it has joined
        return target.name

    @property
    def oldest(self) -> Delivery | None:
        """The delivery that it has had longest; None: it has none."""
        return next(iter(self.ledger.values())) if self.ledger else None

    def age_of_oldest(self) -> Age | None:
        """The age of the message that it has had longest; None: it has none."""
        oldest = self.oldest
        return None if oldest is None else self._ages.age(oldest.message.number)

    @property
    def has_stalled(self) -> bool:
        """True if it gets nothing more because it did not settle a message in time."""
        return self.deadlines is not None and self.deadlines.has_stalled(self)

    @property
    def durable_name(self) -> str:
        """The name of the durable or shared subscription that it consumes; empty: none."""
        return self.queue.name if self.queue is not None and self.queue.filled_by_topic else ""

    def stop(self) -> None:
        """Get nothing more from its queue, and keep what it has not settled until it leaves."""
        # A session stops all its subscriptions first, so that none gets what another one gives back.
        self.ended = True
        self.window = -1

    def offer(self) -> None:
        """Back into the queue's rotation: there may be room again."""
        # While it stands in the rotation, dispatch knows of it.
        if self.queue is not None and not self.listed and not self.ended:
            self.queue.enlist(self)
        if self.reader is not None:
            self.reader.offer()

    def deliver(self, message: Message) -> None:
        """Put a message of the queue into the outbox."""
        prefix = self.prefix
        # First, for the count makes the handle.
        self.delivered += 1
        if self.ledger is not None:
            prefix += self._enter(message, self.ledger)
        if self.extra_headers is not None:
            prefix += self.extra_headers.of(message)
        # STOMP says nothing of it; RabbitMQ and ActiveMQ write `redelivered:true`.
        if message.attempts:
            prefix = b"%bredelivered:true\ndelivery-count:%d\n" % (prefix, message.attempts + 1)
        message.attempts += 1
        outbox = self.outbox
        wire = message.wire
        # Only the copies of a topic's message share their bytes: those of a queue go to one client, and are not kept.
        if wire is None:
            shared = encoder.message(message.head, message.id, message.body, self._version, self._frame_end)
        else:
            shared = wire[self.form]
        outbox.append(prefix, shared)
        if self.ledger is None:
            assert self.queue is not None  # it is the queue that calls
            # In mode auto it is settled when its last byte is written, at this position in the stream of bytes.
            outbox.unsent.append((self.queue, message, outbox.gone + outbox.size))
            # Where there are no rows, `Outbox.written` settles all at once.
            if message.row:
                outbox.rows += 1
        if self.records.is_on:
            self.records.delivered(self, message, next(reversed(self.ledger.values())) if self.ledger else None)

    def show(self, message: Message, lines: bytes = b"") -> None:
        """Put a message into the outbox that needs no ACK, and that no queue takes back."""
        shared = encoder.message(message.head, message.id, message.body, self._version, self._frame_end)
        self.outbox.append(self.prefix + lines, shared)

    def _enter(self, message: Message, ledger: dict[str, Delivery]) -> bytes:
        """Enter a delivery into the ledger; returns the header line that tells its handle, where a line does."""
        # STOMP 1.2, ACK: its `id` is the `ack` header of the MESSAGE; 1.0 and 1.1 name the message-id.  A redelivery
        # has another handle, so that a late ACK of the first delivery does not settle it.
        if self._version.ack_id:
            handle = f"{self.key}-{self.delivered}"
            line = b"ack:%b\n" % handle.encode()
        else:
            handle = message.id.decode()
            line = b""
        ledger[handle] = delivery = Delivery(message, self, handle)
        if self._by_message_id is not None:
            self._by_message_id.add(delivery)
        if self.deadlines is not None:
            self.deadlines.begin(delivery)
        self.held_bytes += delivery.size
        return line

    def remove(self, delivery: Delivery) -> None:
        """A delivery leaves the ledger."""
        assert self.ledger is not None  # there are deliveries only where there is a ledger
        del self.ledger[delivery.handle]
        if self._by_message_id is not None:
            self._by_message_id.remove(delivery)
        if self.deadlines is not None:
            self.deadlines.settle(delivery)
        self.held_bytes -= delivery.size

    def covered(self, delivery: Delivery) -> list[Delivery]:
        """The deliveries that an ACK or NACK of one settles: it, and in mode client all before it (ACK-04, NAK-02)."""
        if self.mode is AckMode.INDIVIDUAL or self.ledger is None:
            return [delivery]
        # The ledger is in order: from its start to this one.  What a transaction holds, that alone settles.
        earlier = itertools.takewhile(lambda each: each is not delivery, self.ledger.values())
        return [*(each for each in earlier if not each.held), delivery]

    # written by its queue

    def set_queue(self, queue: ConsumedQueue, deadlines: Deadlines | None = None) -> None:
        """Get messages of a queue; `deadlines`: those in which it must settle them."""
        self.queue, self.deadlines = queue, deadlines

    def set_listed(self, listed: bool) -> None:
        """The subscription stands in its queue's rotation, or no longer."""
        self.listed = listed

    def set_standing_by(self, stands_by: bool) -> None:
        """Another consumer of the queue is the exclusive one, or no longer."""
        self.stands_by = stands_by
