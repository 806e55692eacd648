"""Topic: every current subscriber gets a copy, and no message is kept (unless the topic has a stream).

The fan-out is the hottest loop of the broker: it only appends two references per receiver.  A subscriber that wants
some of the messages is asked about each, in a loop of its own.  A subscriber that must acknowledge, or must not hold
publishers back when it is slow, gets a private queue, with its window, ledger, redelivery and limits.

A subscription with wildcards has a topic, too, with the pattern as its name; the router hands it what matches.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from gateway.codec import encoder
from gateway.codec.encoder import FORMS

from ..core.context import Context
from ..core.outbox import Feeder, Outbox
from ..core.unseen import Unseen
from ..model.message import PLAIN_RANK, Message, Wire
from ..model.policy import Policy, SlowConsumerAction
from ..queue.overflow import limits_of_subscriber
from ..queue.queue import Queue
from ..queue.subscription import Subscription
from .stream import Stream

# Bytes in the outbox of a subscriber with a queue that conflates or drops: few, so that it gets news.
_WINDOW_OF_NEWS = 16 * 1024


class LateReader(Feeder, Protocol):
    """Gives a subscriber what it missed in the streams that its topic or pattern means."""

    def note(self, stream: Stream) -> None:
        """Look at a stream that has a new message."""
        ...


class Durable(Protocol):
    """A durable or shared subscription, as its topic sees it."""

    queue: Queue

    def wants(self, message: Message, sender: str) -> bool:
        """True if a message of the topic is for it."""
        ...


class HeldBack(NamedTuple):
    """A message that subscribers get later: it is unseen, or came behind one that is."""

    message: Message
    sender: str
    wire: Wire | None
    for_late: bool = False  # late readers get it, too, for no stream has it


class Topic:
    """A topic with at least one subscriber, or a stream.

    `tally`: its messages in figures, with those of its subscribers' private queues.  `stream`: the messages that it
    keeps for replay; None: it keeps none.  `durable_subscriptions`: the durable
    subscriptions that it fills, by name.  `last`: the number of the last message that came while a subscriber had to
    acknowledge; 0: none did.
    """

    __slots__ = (
        *("_auto", "_choosy", "_context", "_late", "_queued", "_queues", "_slow", "_unseen"),
        *("durable_subscriptions", "full", "last", "name", "policy", "stream", "tally"),
    )

    def __init__(self, context: Context, name: str, policy: Policy, stream: Stream | None = None) -> None:
        self.name = name
        self.policy = policy
        self.stream = stream
        self.tally = context.tallies.begin(name)
        self.last = 0
        self.full = False  # publishers are held back until what is held back is shown
        self._slow: set[Outbox] = set()  # filled beyond their marks by `_show`: the next publisher waits for them
        self._context = context
        self._auto: dict[int, dict[Subscription, None]] = {}  # by form; none is empty
        self._choosy: dict[Subscription, None] = {}
        self._queues: dict[Subscription, Queue] = {}  # the queues of `_queued`, and of `_late`
        self._queued: dict[Subscription, Queue] = {}
        self._late: dict[Subscription, LateReader] = {}  # they read the messages that they missed, first
        self.durable_subscriptions: dict[str, Durable] = {}
        self._unseen: Unseen[HeldBack] | None = None  # None: no message is looked at, for none is to be held back

    @property
    def subscriptions(self) -> list[Subscription]:
        """All subscribers."""
        auto = [subscription for group in self._auto.values() for subscription in group]
        return [*auto, *self._choosy, *self._queued, *self._late]

    @property
    def count(self) -> int:
        """The number of subscribers."""
        auto = sum([len(group) for group in self._auto.values()])
        return auto + len(self._choosy) + len(self._queued) + len(self._late)

    @property
    def is_idle(self) -> bool:
        """True if the broker may drop it: it has no subscribers, and keeps no message."""
        keeps = self.durable_subscriptions or self.stream or (self._unseen is not None and self._unseen.held)
        return not (self._auto or self._queued or self._choosy or self._late or keeps)

    @property
    def queued(self) -> Mapping[Subscription, Queue]:
        """The subscribers with private queues."""
        return self._queued

    @property
    def has_late(self) -> bool:
        """True if subscribers still read messages that they missed."""
        return bool(self._late)

    def accept(self, message: Message, sender: str, wire: Wire | None = None, is_kept: bool = False) -> None:
        """Copy a message to all subscribers.

        `sender`: id of the session that sent it; empty: the broker itself.  `wire`: the message's bytes, where it goes
        to several topics.  `is_kept`: it was held back, and the durable subscriptions have it.
        """
        if self._unseen is not None and not is_kept:
            self._hold_back(self._unseen, HeldBack(message, sender, wire))
            return
        context, tally = self._context, self.tally
        tally.published += 1
        # Encoded once per form: version, and the bytes that end a frame.
        for form, group in self._auto.items():
            # Shared with the other topics and patterns that get this message.
            if wire is not None:
                shared = wire[form]
            else:
                version, end = FORMS[form]
                shared = encoder.message(message.head, message.id, message.body, version, end)
            size = len(shared)
            context.counters.delivered += len(group)
            tally.delivered += len(group)
            for subscription in group:
                outbox = subscription.outbox
                parts = outbox.parts
                # As in `Outbox.append`: the first frame behind a flush lists the outbox for the next one.
                if not parts:
                    outbox.dirty.append(outbox)
                prefix = subscription.prefix
                parts.append(prefix)
                parts.append(shared)
                outbox.size += len(prefix) + size
                # Over the mark the publisher is held back; the message is in, and nothing of it is lost.
                if outbox.size > outbox.high:
                    outbox.on_high(outbox)
            if context.records.is_on:
                context.records.fanned_out(group, message)
        if self._choosy:
            wire = wire or Wire(message)
            # A selector is called here, and not in the loop above, which must not pay for it.
            for subscription in self._choosy:
                if wants(subscription, message, sender):
                    context.counters.delivered += 1
                    tally.delivered += 1
                    prefix, notes = subscription.prefix, subscription.extra_headers
                    if notes is not None:
                        prefix += notes.of(message)
                    subscription.outbox.append(prefix, wire[subscription.form])
                    if context.records.is_on:
                        context.records.delivered(subscription, message)
        if self._queued:
            wire = wire or Wire(message)
            # An offset (`topic/offsets.py`) moves up to here, once all before it is acknowledged.
            self.last = message.number
            for subscription, queue in self._queued.items():
                if wants(subscription, message, sender):
                    # A copy: attempts, history and row are each subscriber's own; the bytes are shared.
                    queue.accept(_in_line(message.copy(wire)))
        if self.durable_subscriptions and not is_kept:
            self._keep(message, sender, wire)

    @property
    def takes_runs(self) -> bool:
        """True if each subscriber gets all in its outbox, so that `accept_run` may be called."""
        others = self._choosy or self._queued or self._late or self.durable_subscriptions
        return not others and self.stream is None and self._unseen is None

    def accept_run(self, messages: Iterator[Message], most: int) -> None:
        """As `accept` does with each of these; many for one outbox cost not much more than one.

        It stops when the broker has `delivered` more than so many.
        """
        counters, count = self._context.counters, self.count
        while counters.delivered <= most:
            some = list(islice(messages, 1 + (most - counters.delivered) // (1 + count)))
            if not some:
                break
            self._spread(some)

    def _spread(self, messages: Sequence[Message]) -> None:
        context, tally, count = self._context, self.tally, len(messages)
        tally.published += count
        for form, group in self._auto.items():
            version, end = FORMS[form]
            shared = [encoder.message(each.head, each.id, each.body, version, end) for each in messages]
            size = sum(map(len, shared))
            context.counters.delivered += count * len(group)
            tally.delivered += count * len(group)
            # Most clients call their subscription what others call theirs.
            known: dict[bytes, list[bytes]] = {}
            last = None
            for subscription in group:
                prefix = subscription.prefix
                if prefix != last:
                    if prefix not in known:
                        known[prefix] = [part for each in shared for part in (prefix, each)]
                    last, frames, nbytes = prefix, known[prefix], size + count * len(prefix)
                outbox = subscription.outbox
                parts = outbox.parts
                if not parts:
                    outbox.dirty.append(outbox)
                parts += frames
                outbox.size += nbytes
                if outbox.size > outbox.high:
                    outbox.on_high(outbox)
            if context.records.is_on:
                for message in messages:
                    context.records.fanned_out(group, message)

    def _keep(self, message: Message, sender: str, wire: Wire | None) -> None:
        """Copy a message to the durable subscriptions."""
        wire = wire or Wire(message)
        # A copy of the list: a queue that is idle again behind this message may be forgotten, and leaves the table.
        for durable in list(self.durable_subscriptions.values()):
            if durable.wants(message, sender):
                # A place of its own: the row in the store is numbered by it, and each queue needs another.
                durable.queue.tally.published += 1
                durable.queue.accept(message.copy(wire, place=self._context.next_number()))

    # messages that are not to be seen yet

    def hide(self, message: Message) -> None:
        """Give no subscriber a message, which comes next, nor those behind it, before the store has the batch at hand.

        What is stored of them is stored meanwhile.
        """
        if self._unseen is None:
            self._unseen = Unseen(self._context, self._show)
        self._unseen.begin(message.number)
        for durable in self.durable_subscriptions.values():
            durable.queue.hide(message)

    def _hold_back(self, unseen: Unseen[HeldBack], new: HeldBack) -> None:
        """Hold a message back, which is unseen or comes behind one that is."""
        self._keep(new.message, new.sender, new.wire)
        unseen.hold(new.message, new)
        self._context.memory.keep(new.message.size)
        if self._holds_much(unseen):
            self.full = True
            self._context.full.add(self)
        for outbox in self._slow:
            if outbox.size > outbox.high and not outbox.closed:
                outbox.on_high(outbox)
        self._slow.clear()

    def _holds_much(self, unseen: Unseen[HeldBack]) -> bool:
        """True if publishers have to wait until less is held back."""
        # It goes out at once, or nearly: no more than subscribers that read can take.
        return unseen.nbytes > self._context.quotas.max_outbound // 4

    def _show(self) -> None:
        """Give subscribers some of what may be seen now."""
        context, unseen = self._context, self._unseen
        assert unseen is not None  # it calls
        strained = context.slow_consumers.strained.copy()
        for shown in unseen.seen(1 + context.work_limits.shown_per_turn // (1 + self.count)):
            context.memory.release(shown.message.size)
            self.accept(*shown[:3], True)
            if shown.for_late:
                self.tell_late(shown.message, shown.sender, None)
        self._slow |= context.slow_consumers.take_since(strained)
        if self.full and not self._holds_much(unseen):
            self.full = False
            context.on_room()
        if not unseen.first:
            self._unseen = None
        context.destinations.forget_if_idle(self)

    @property
    def first_unseen(self) -> int:
        """The number of the first message that no subscriber may see yet; 0: there is none."""
        return 0 if self._unseen is None else self._unseen.first

    def give(self, subscription: Subscription, message: Message) -> None:
        """Give one subscriber a message that others do not get now."""
        queue, notes = subscription.queue, subscription.extra_headers
        if queue is not None:
            queue.accept(_in_line(message.copy(Wire(message), place=self._context.next_number())))
        else:
            self._context.counters.delivered += 1
            self.tally.delivered += 1
            subscription.show(message, b"" if notes is None else notes.of(message))
            if subscription.records.is_on:
                subscription.records.delivered(subscription, message)

    def join(self, subscription: Subscription, *, late: LateReader | None = None) -> None:
        """Add a subscriber; `late` gives it what it missed first, and then calls `welcome`."""
        # Set before the queue joins, which may deliver at once.
        subscription.topic = self
        options = subscription.options
        policy, asked = self.policy, options.slow_messages
        # Nothing may be dropped: one that falls behind comes back and reads on in the stream.
        if options.resume:
            policy, asked = dataclasses.replace(policy, slow_consumer=SlowConsumerAction.BLOCK), None
        # Every queue argument that changes a key gives the subscriber a private queue of its own kind, which does not
        # hold publishers back.  An argument that means nothing for topics has to be left out here.
        ours = policy
        # To RabbitMQ a topic's subscription is a queue.
        if options.queue_arguments is not None:
            policy = options.queue_arguments.applied_to(policy)
            asked = asked or options.queue_arguments.max_messages
        holds_back = policy.slow_consumer is SlowConsumerAction.BLOCK and asked is None and policy == ours
        if subscription.ledger is not None or not holds_back:
            if not holds_back:
                # What is in the outbox can no longer be conflated or dropped: so most of it must wait in the queue.
                subscription.narrow(_WINDOW_OF_NEWS)
            # The private queue may hold no more than the outbox, which would hold it else.
            most = subscription.outbox.limit
            limits = limits_of_subscriber(policy, asked, min(policy.max_bytes or most, most))
            queue = self._queues[subscription] = Queue(
                self._context, self.name, policy, limits=limits, tally=self.tally
            )
            queue.join(subscription)
        if late is not None:
            # It is in no other table until `welcome`, so that no live message comes before one that it missed.
            self._late[subscription] = late
        else:
            self.welcome(subscription)

    def tell_late(self, message: Message, sender: str, stream: Stream | None) -> None:
        """Tell the late readers of a message that this pattern matches, and that it got before."""
        held = None if self._unseen is None else self._unseen.held
        # What a stream has they find there, once it may be seen.
        if stream is None and held and held[-1][2].message is message:
            held[-1] = *held[-1][:2], held[-1][2]._replace(for_late=True)
            return
        for subscription, reader in list(self._late.items()):
            # The reader finds the message in the stream, in its order; without a stream it comes at once.
            if stream is not None:
                reader.note(stream)
            elif wants(subscription, message, sender):
                self.give(subscription, message)

    def welcome(self, subscription: Subscription) -> None:
        """Give a subscriber the messages that come from now on."""
        self._late.pop(subscription, None)
        options = subscription.options
        # By the most expensive need: a queue serves all; selectors and header lines need the slower loop; all others
        # share one form.
        if subscription in self._queues:
            self._queued[subscription] = self._queues[subscription]
        elif options.selector or options.no_local or subscription.extra_headers is not None:
            self._choosy[subscription] = None
        else:
            self._auto.setdefault(subscription.form, {})[subscription] = None

    def leave(self, subscription: Subscription, *, lost: bool = False) -> None:
        """Remove a subscriber; the last one takes the topic with it."""
        subscription.topic = None
        # First: a reader that is under way must not give anything to a subscription that has gone.
        if subscription.reader is not None:
            subscription.reader.end()
        self._slow.discard(subscription.outbox)
        self._late.pop(subscription, None)
        self._queued.pop(subscription, None)
        queue = self._queues.pop(subscription, None)
        if queue is not None:
            # A private queue without its subscription throws away all that comes back (`Registry.home_of`).
            queue.take_back(queue.drop(subscription, lost=lost))
            queue.end()
        else:
            self._choosy.pop(subscription, None)
            group = self._auto.get(subscription.form, {})
            group.pop(subscription, None)
            # `accept` encodes once for each form in the table: a form without subscribers would cost that for nothing.
            if not group:
                self._auto.pop(subscription.form, None)
        self._context.destinations.forget_if_idle(self)


def wants(subscription: Subscription, message: Message, sender: str) -> bool:
    """True if a message that the session `sender` sent is for a subscriber."""
    options = subscription.options
    if options.no_local and sender == subscription.peer.id:
        return False
    return options.selector is None or options.selector(message.head.headers) is True


def _in_line(message: Message) -> Message:
    """Give a message of a stream the plain priority: it comes in its order, for clients go by the last number."""
    if isinstance(message.head.derived, int):
        message.rank = PLAIN_RANK
    return message
