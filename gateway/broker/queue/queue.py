"""Queue: messages wait until they are consumed, and each goes to one consumer.

    accept -> (a consumer with room) -> hand -> ledger -> acknowledge
       '----> waiting ---------^                   '-----> reject, take_back: to its old place among those that wait

Invariants between any two calls:

* No consumer with room wants a message that waits.  There are three exceptions: a set of consumers is `behind` while
  its ready list is read, in turns; a more urgent message of the store holds up all others (`holds_up`); and messages
  that are unseen stand in no ready list (`hide`).
* A message that waits has `waits`, and is counted in `in_memory`; one that only the store has is counted in
  `storage.paged`; one that a consumer has is in its ledger, or in its outbox; one that comes back later is `resting`.
* `Memory.used` counts each of these once, but those that only the store has.
* Of a message group only the first message stands in the ready lists, or with the consumer that has the group.
* `full` is set as long as publishers are held back; `on_room` is called once when that ends.

The queue carries out what other modules decide: `dispatch` (which consumer), `overflow` (which message goes at the
limit), `expiry`, `redelivery` (which way a rejected message takes) and `dead_letters` (how the dead letter looks).
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Literal

from ..core.ages import Age
from ..core.context import Context
from ..core.counters import Drop, Tally
from ..core.scheduler import Timer
from ..model.changes import Stored
from ..model.destinations import QUEUE
from ..model.message import History, Message
from ..model.policy import DEAD_LETTERS, Policy, QueueArguments
from . import dead_letters, redelivery
from .ack_deadlines import AckDeadlines
from .browser import Browser, Browsers
from .consumers import Consumers
from .dispatch import Dispatcher
from .durable import QueueStorage
from .groups import Group
from .overflow import Overflow, QueueLimits, limits_of
from .redelivery import DeadLetter, Discard, RequeueAfter
from .subscription import Delivery, Subscription, remove_all
from .waiting import WaitingMessages

ACK_TIMEOUT = "ack-timeout"
"""The reason of a failure by `ack_timeout`, where a NACK has its own."""
# A dead letter may meet a full queue, which makes one for another full queue, and so on: at worst in a circle.
_LONGEST_CHAIN = 4


class Queue:
    """A queue of the broker, or the private one of a topic's subscription.

    Attributes:
        name: canonical.
        in_memory: the messages in memory that no consumer has.
        resting: messages that come back later, after a failure, and when.
        browsers: the subscriptions that read what waits, or comes, without consuming it.
        private: it belongs to one subscription of a topic, and vanishes with it.
        filled_by_topic: it is a durable or shared subscription's: its topic filters the messages.
        lasts: it stays without consumers and messages, as a durable subscription does.
        abandoned: the last consumer has left, or was stopped, and by its policy the queue goes with it.
        full: publishers are held back until there is room.
        subscriptions: the consumers.
        storage: its rows in the store; None: its messages end with the process.
        tally: its messages in figures; that of its topic, if it is private.
        of_client: the keys of its policy that a client's arguments set.
        on_retire: called when it was idle for as long as its policy says; None: it goes by itself.
    """

    __slots__ = (
        *("_checks_new", "_deadlines", "_dispatcher", "_idle_timer", "_is_arriving"),
        *("abandoned", "browsers", "consumers", "context", "filled_by_topic", "full", "in_memory", "lasts", "limits"),
        *("name", "of_client", "on_retire", "policy", "private", "resting", "storage", "subscriptions", "tally"),
    )

    def __init__(
        self,
        context: Context,
        name: str,
        policy: Policy,
        *,
        limits: QueueLimits | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.context = context
        self.tally = tally or context.tallies.begin(name)
        self.name = name
        self.policy = policy
        self.private = limits is not None
        self.limits = limits or limits_of(policy)
        self.in_memory = WaitingMessages(context, self.limits, self._expire_waiting, self._forget_if_idle)
        self.consumers = Consumers(context.work_limits.consumer_sets)
        self.subscriptions: Collection[Subscription] = self.consumers.all
        self._dispatcher = Dispatcher(context, self.in_memory, self.consumers, self, by_group=not self.private)
        self.resting: dict[Message, Timer] = {}
        self.browsers = Browsers()
        self.filled_by_topic = self.lasts = self.full = self.abandoned = False
        self.on_retire: partial[None] | None = None
        self.storage: QueueStorage | None = None
        self.of_client: tuple[str, ...] = ()
        self._idle_timer: Timer | None = None
        self._deadlines = AckDeadlines(context, policy, self._time_out) if policy.ack_timeout else None
        self._is_arriving = False  # a page of the store takes its places in memory
        # That, or messages are unseen, or held up: no new message may go straight to a consumer.
        self._find_out()

    @property
    def waiting(self) -> int:
        """Messages that no consumer has."""
        count = self.in_memory.count
        # Asked for each message where there are limits: most queues have no storage, and stop here.
        if self.storage is None or (paged := self.storage.paged) is None:
            return count
        return count + paged.count

    @property
    def nbytes(self) -> int:
        """Bytes that the waiting messages cost, or would cost in memory."""
        paged = None if self.storage is None else self.storage.paged
        return self.in_memory.nbytes + (0 if paged is None else paged.nbytes)

    @property
    def groups(self) -> list[Group]:
        """The message groups of which messages wait, or which a consumer has."""
        return list(self._dispatcher.groups or ())

    @property
    def stored(self) -> int:
        """Messages that outlive the process."""
        return 0 if self.storage is None else self.storage.rows - self.storage.transient

    @property
    def is_idle(self) -> bool:
        """True if the broker may drop it: it has neither subscriptions nor messages, and is not to last."""
        return not (self.consumers.all or self.waiting or self.resting or self.browsers or self.private or self.lasts)

    def oldest(self) -> int | None:
        """The number of the oldest message that waits, of a group the first that is due; None: none waits."""
        if not self.waiting:
            return None
        numbers = self._dispatcher.oldest()
        if self.storage is not None and self.storage.paged is not None:
            numbers += self.storage.paged.first_rows()
        return min(numbers, default=None)

    def age_of_oldest(self) -> Age | None:
        """The age of the message that has waited longest; None: none waits."""
        number = self.oldest()
        return None if number is None else self.context.ages.age(number)

    @property
    def takes_dead_letters(self) -> bool:
        """True if dead letters go here, by the queue's name or by a policy."""
        return self.name.startswith(QUEUE + DEAD_LETTERS) or self.name in self.context.policies.dead_letters

    def waiting_messages(self) -> list[Message]:
        """All messages that wait in memory, in the order in which they are due; those that are unseen are the last."""
        return self._dispatcher.waiting_messages() + self.unseen_messages()

    def unseen_messages(self) -> list[Message]:
        """Those of them that are unseen, in the order of arrival."""
        return self._dispatcher.unseen_messages()

    # messages in

    def accept(self, message: Message) -> None:
        """Take a new message: to a consumer with room, else to its place among those that wait."""
        memory = self.context.memory
        self.abandoned = False
        # A message's own time goes before the policy's.
        if self.policy.time_to_live and not message.expires:
            message.expires = self.context.scheduler.clock() + self.policy.time_to_live
        if self.storage is not None and self.storage.takes(message):
            if self.limits.any:  # it waits in the store alone, behind all that is in memory
                self._limit(message)
            self.browsers.show(message)
            return
        sets = self.consumers.sets
        # Four ways, by cost: a message that may expire, has a group or a key, or comes while others are read or unseen,
        # is checked in full; several sets are asked one by one; a single set without a selector is served here.
        if message.expires or not message.options.is_plain or self.limits.conflate_by or self._checks_new:
            memory.keep(message.size)
            if self.is_due(message):
                self._dispatcher.place(message)
        elif len(sets) != 1 or sets[0].ready_list.selector is not None:
            memory.keep(message.size)
            self._dispatcher.place_by_itself(message)
        elif (consumer := sets[0].next()) is not None:
            # In mode auto nothing is kept: the message is settled once it is in the outbox.
            if consumer.ledger is not None:
                memory.keep(message.size)
            self._deliver(message, consumer)
        else:
            memory.keep(message.size)
            self.in_memory.add(message)
        # Limits count what waits, so that a message that a consumer took at once never meets them.
        if message.waits and self.limits.any:
            self._limit(message)
        # Behind `_limit`, and also if a consumer has it: a browser shows each message that came.
        if self.browsers and not self.has_expired(message):
            self.browsers.show(message)

    @property
    def takes_runs(self) -> bool:
        """True if plain messages go straight to consumers, while one has room, so that `accept_run` may be called."""
        sets = self.consumers.sets
        is_special = self._checks_new or self.storage is not None or self.policy.time_to_live or self.limits.conflate_by
        return len(sets) == 1 and sets[0].ready_list.selector is None and not (is_special or self.browsers)

    def accept_run(self, messages: Iterator[Message], most: int) -> None:
        """As `accept` does with each of these plain messages, until no consumer has room.

        It stops when the broker has `delivered` more than so many.
        """
        counters, memory, next_consumer = self.context.counters, self.context.memory, self.consumers.sets[0].next
        for message in messages:
            self.tally.published += 1
            consumer = next_consumer()
            if consumer is None:
                self.accept(message)
                return
            if consumer.ledger is not None:
                memory.keep(message.size)
            self._deliver(message, consumer)
            if counters.delivered > most:
                return

    def arrive(self, found: Iterable[Stored]) -> None:
        """Messages were read from the store: they take their places in memory, and then are dispatched."""
        assert self.storage is not None
        before, self._is_arriving = self._is_arriving, True  # none goes out before all are in their places
        self._checks_new = True
        try:
            for message in self.storage.messages(found):
                self.context.memory.keep(message.size)
                if self.is_due(message):
                    self._dispatcher.place(message)
        finally:
            self._is_arriving = before
            self._find_out()
        self.look_for_room()
        self._dispatcher.dispatch_all()

    def hide(self, message: Message) -> None:
        """Give no consumer a message, which comes next, nor those behind it, before the store has the batch at hand."""
        self._dispatcher.hide(message, self._show)
        self._checks_new = True

    def hides(self, message: Message) -> bool:
        """True if a message is not shown: it is unseen, or came behind one that is not shown."""
        return self._dispatcher.hides(message)

    def _show(self) -> None:
        """Show some of what may be seen now."""
        shown = self._dispatcher.show(1 + self.context.work_limits.shown_per_turn // (1 + len(self.browsers)))
        self._find_out()
        # Only now: what consumers took never meets the limits.  The newest first, for it may have to go.  Where none
        # may go, publishers wait since the messages came.
        for message in reversed([] if self.limits.keeps_all else shown):
            if message.waits:
                self._limit(message)
        self.look_for_room()
        self.browsers.go_on()

    # what dispatch asks (`Outlet`)

    def is_due(self, message: Message) -> bool:
        """True if a kept message has a place here; if it has expired, or a newer one of its key waits, it is gone."""
        if self.has_expired(message):
            self.expire(message)
            return False
        other = self.in_memory.newest_of_key(message) if self.limits.conflates(message) else None
        if other is None:
            return True
        # A message that comes back may be older than the one that waits: the newest value of a key wins.
        older, newer = (other, message) if other.number < message.number else (message, other)
        self.let_go(older)
        self.context.counters.conflated += 1
        self.tally.conflated += 1
        if self.context.records.is_on:
            self.context.records.ended("dropped", self.name, older, reason="conflated")
        if older is message:
            return False
        # Every key has its turn however often it changes.  A place counts within one priority only.
        if older.rank == newer.rank:
            newer.place = older.place
        self._dispatcher.replace(older)
        return True

    def has_expired(self, message: Message) -> bool:
        """True if the time of a message is over."""
        # Most messages never expire, and need no look at the clock.
        return message.expires > 0 and message.has_expired(self.context.scheduler.clock())

    def holds_up(self, message: Message) -> bool:
        """True if a message must wait for a more urgent one that is still to be read from the store."""
        # While a page arrives, all messages are held up, so that none goes out before all are in their places.
        return self.storage is not None and (self._is_arriving or self.storage.holds_up(message))

    def read_on(self) -> None:
        """A consumer has room, and wants none of the messages in memory: read further ones from the store."""
        if self.storage is not None:
            self.storage.refill(stuck=True)

    # messages out

    def hand(self, message: Message, consumer: Subscription) -> None:
        """Give a message that is kept, and did not wait, to a consumer."""
        # It was kept while it waited; in mode auto no ledger keeps it from now on.
        if consumer.ledger is None:
            self.context.memory.release(message.size)
        self._deliver(message, consumer)

    def _deliver(self, message: Message, consumer: Subscription) -> None:
        counters = self.context.counters
        # Counted first: `deliver` raises `attempts`, by which a redelivery is known.
        counters.delivered += 1
        self.tally.delivered += 1
        if message.attempts:
            counters.redelivered += 1
        consumer.deliver(message)

    def take_out(self, message: Message) -> None:
        """One of many messages waits no longer; `close_gaps` must follow before the end of the turn."""
        self._dispatcher.take_out(message)

    def close_gaps(self) -> None:
        """Let the messages go on that were behind those that `take_out` took."""
        self._dispatcher.close_gaps()
        self.look_for_room()
        if self.storage is not None:
            self._dispatcher.dispatch_all()
        self._forget_if_idle()

    def remove(self, message: Message) -> None:
        """A message waits no longer; the caller settles its group."""
        self.in_memory.remove(message)
        if self.storage is not None:
            self.storage.refill()
        if self.browsers:
            self.browsers.tidy(self.in_memory.most_places())
        # Publishers that are held back go on at the first message that leaves, if there is room.
        if self.full:
            self.look_for_room()

    def suspend(self) -> None:
        """Stored messages are held up from now on, or no longer: see `Broker.suspend`."""
        self._find_out()
        self._dispatcher.dispatch_all()

    def _find_out(self) -> None:
        """Find out if new messages may go straight to consumers."""
        storage = self.context.storage
        is_held_up = storage is not None and storage.is_suspended
        self._checks_new = self._is_arriving or self._dispatcher.unseen is not None or is_held_up

    def look_for_room(self) -> None:
        """Let publishers go on that were held back, if there is room."""
        if self.full and not self._is_full():
            self.full = False
            self.context.on_room()

    def _is_full(self) -> bool:
        """True if publishers have to wait: also where messages may go, as long as so many are unseen."""
        if self.limits.blocks:
            return self.limits.reached(self.waiting, self.nbytes)
        unseen = self._dispatcher.unseen
        return unseen is not None and self.limits.reached(len(unseen.held), unseen.nbytes)

    def let_go(self, message: Message) -> None:
        """A kept message is settled for good: its memory is free, and its row goes."""
        self.context.memory.release(message.size)
        if message.row:
            self.leave(message)

    def leave(self, message: Message) -> None:
        """A message with a row is settled for good."""
        assert self.storage is not None  # it gave the row
        self.storage.leave(message)

    # limits

    def _limit(self, message: Message) -> None:
        """Keep the limits of the queue, now that a message came that waits."""
        action = self.limits.verdict(self.waiting, self.nbytes)
        # The usual case, before five comparisons with members of an Enum.
        if action is None:
            return
        count, nbytes, unseen = 0, 0, self._dispatcher.unseen
        # What is unseen may yet find consumers with room: it meets the limit when it is shown.
        if unseen is not None and action is not Overflow.BLOCK:
            if unseen.hides(message.number):
                action = Overflow.BLOCK if self._is_full() else None
            else:
                count, nbytes = len(unseen.held), unseen.nbytes
                action = self.limits.verdict(self.waiting - count, self.nbytes - nbytes)
        match action:
            case None:
                return
            case Overflow.BLOCK:
                self.full = True
                # The publisher at work is held back behind this SEND; nothing of it is refused.
                self.context.full.add(self)
            case Overflow.DROP_NEWEST:
                self._dispatcher.withdraw(message)
                self.drop_message(message, "queue-full")
            case Overflow.DROP_OLDEST | Overflow.DEAD_LETTER_OLDEST:
                settle = self.drop_message if action is Overflow.DROP_OLDEST else self._dead_letter
                # More than one may have to go: a large message takes the room of several small ones.
                while self.limits.verdict(self.waiting - count, self.nbytes - nbytes) is not None:
                    oldest = self.in_memory.oldest()
                    self._dispatcher.withdraw(oldest)
                    settle(oldest, "queue-full")
            case _:  # Overflow.DISCONNECT
                error = self.limits.slow_consumer(self.name, self.waiting)
                for subscription in self.subscriptions:
                    self.context.slow_consumers.end(subscription.peer, error)

    def expire(self, message: Message) -> None:
        """The time of a kept message, which does not wait, is over."""
        self.context.counters.expired += 1
        self.context.records.ended("expired", self.name, message)
        self._tell_requester(message, "expired")
        if self.policy.dead_letter_expired:
            self._dead_letter(message, "expired")
        else:
            self.tally.expired += 1
            self.context.counters.expired_for_good += 1
            self.let_go(message)

    def _tell_requester(self, message: Message, why: Literal["expired", "rejected"]) -> None:
        # Not where a topic has filled the queue: another subscriber may have got its copy.
        if message.options.mandatory and not (self.private or self.filled_by_topic):
            reason = message.history.reason if why == "rejected" and message.history is not None else ""
            self.context.destinations.tell_requester(message.head, why, reason)

    def _expire_waiting(self, message: Message) -> None:
        self._dispatcher.withdraw(message)
        self.expire(message)

    def _dead_letter(self, message: Message, why: Drop) -> None:
        """A kept message leaves the queue for good; it goes where the policy says, or nowhere."""
        context = self.context
        target = self.policy.target_of(self.name)
        # A chain of full queues is cut here: in a circle it would never end.
        if not target or target == self.name or context.dead_letters_under_way >= _LONGEST_CHAIN:
            self.drop_message(message, why)
            return
        # Before `let_go`, which takes the row: a dead letter is durable if its message was.
        head = dead_letters.head_of(message, why, self.name, target, context.scheduler.epoch())
        options, unseen = dead_letters.options_of(message), self.hides(message)
        self.let_go(message)
        context.counters.dead_lettered += 1
        self.tally.dead_lettered += 1
        context.dead_letters_under_way += 1
        try:
            dead_letters.tell(context, self.name, message, why, head)
            context.destinations.deposit(target, head, message.body, options, unseen=unseen)
        finally:
            context.dead_letters_under_way -= 1

    def drop_message(self, message: Message, why: Drop) -> None:
        """A kept message is thrown away."""
        self.let_go(message)
        self.context.counters.drops[why] += 1
        self.tally.drop(why)
        if self.context.records.is_on:
            self.context.records.ended("dropped", self.name, message, reason=why)

    # consumers

    def join(self, subscription: Subscription) -> None:
        """Add a consumer; what waits is dispatched at once."""
        subscription.set_queue(self, self._deadlines)
        self.abandoned = False
        self._stop_idle_timer()
        # The topic has asked the selector already: a second time here would cost without effect.
        filtered = self.private or self.filled_by_topic
        self._dispatcher.join(subscription, "" if filtered else subscription.options.selector_text)
        self._dispatcher.enlist(subscription)

    def browse(self, subscription: Subscription) -> None:
        """Add a browser: it reads what waits, and consumes nothing."""
        subscription.set_queue(self)
        # The list is made at once: a message that moves between memory and store later is neither missed nor doubled.
        rows = self.storage.rows_of_backlog() if self.storage is not None else []
        held, is_unseen = self.unseen_messages(), self._dispatcher.is_unseen
        seen = self._dispatcher.waiting_messages() + [each for each in held if not is_unseen(each)]
        browser = self.browsers[subscription] = Browser(
            self.context, subscription, seen, rows, self.hides, self._end_browser
        )
        for message in filter(is_unseen, held):
            browser.follow(message)
        browser.offer()

    def _end_browser(self, subscription: Subscription) -> None:
        self.browsers.pop(subscription, None)
        self._forget_if_idle()

    def enlist(self, subscription: Subscription) -> None:
        """A consumer may have room again."""
        self._dispatcher.enlist(subscription)

    def stopped(self) -> None:
        """Consumers have gone, or were stopped: with the last of them the queue goes, unless a message comes yet."""
        # A consumer that was stopped still stands here until its session has ended, and counts as gone.
        if self.policy.auto_delete and not self.private and all(each.ended for each in self.subscriptions):
            self.abandoned = True

    def drop(self, subscription: Subscription, *, lost: bool = False) -> list[Message]:
        """A consumer goes, `lost` if it did not say so; returns what is to come back, once all others have gone."""
        # A session stops all its subscriptions before the first one ends, and says so to the queues itself.
        was_stopped = subscription.ended
        subscription.stop()
        subscription.outbox.starved.pop(subscription, None)
        if subscription not in self.consumers.all:
            self.browsers.leave(subscription)
            return []
        # Before its messages come back: they must not be given to it again.
        self._dispatcher.leave(subscription)
        if not was_stopped:
            self.stopped()
        if not self.subscriptions and not self.private:
            self.start_idle_timer()
        # Deliveries that an open transaction holds stay with it: they are settled by COMMIT or ABORT alone.
        free = [delivery for delivery in (subscription.ledger or {}).values() if not delivery.held]
        for delivery in free:
            subscription.remove(delivery)
        if lost and free:
            # It was probably at work on the oldest.  One poisoned message must not use up the attempts of all others.
            self._history(free[0].message).lost = True
        if self._deadlines is not None:
            self._deadlines.leave(subscription)
        return [delivery.message for delivery in free]

    # deliveries come back

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Deliveries, all of one subscription, are settled for good."""
        subscription = remove_all(deliveries)
        context = self.context
        if context.records.is_on:
            context.records.acknowledged(subscription, deliveries)
        for delivery in deliveries:
            context.counters.acknowledged += 1
            self.tally.acknowledged += 1
            context.memory.release(delivery.size)
            if delivery.message.row:
                self.leave(delivery.message)
        if self._deadlines is not None:
            self._deadlines.go_on(subscription)
        # Last: with its ledger shorter the consumer may have room, and get messages at once.
        subscription.offer()

    def reject(self, deliveries: Iterable[Delivery], *, requeue: bool = True, reason: str = "") -> None:
        """Deliveries, all of one subscription, come back by NACK; without `requeue` they are dead letters."""
        subscription = remove_all(deliveries)
        context = self.context
        context.records.rejected(subscription, deliveries, reason)
        again = []
        for delivery in deliveries:
            message = delivery.message
            context.counters.rejected += 1
            failures = self._fail(delivery, reason)
            verdict = redelivery.after_nack(self.policy, failures, requeue=requeue)
            if self._carry_out(verdict, message):
                again.append(message)
        # All at once, and in order: given back one by one, a later message could go out before an earlier one.
        self.take_back(again)
        if self._deadlines is not None:
            self._deadlines.go_on(subscription)
        subscription.offer()

    def _time_out(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries come back that their consumers have not settled in time: each has failed once."""
        assert self._deadlines is not None  # they have called
        context = self.context
        for subscription, own in itertools.groupby(deliveries, attrgetter("subscription")):
            context.records.rejected(subscription, remaining := list(own), ACK_TIMEOUT)
            remove_all(remaining)
        self._deadlines.stall(deliveries)
        again = []
        for delivery in deliveries:
            context.counters.ack_timeouts += 1
            verdict = redelivery.after_loss(self.policy, self._fail(delivery, ACK_TIMEOUT))
            if self._carry_out(verdict, delivery.message):
                again.append(delivery.message)
        self._dispatcher.free_idle_groups({delivery.subscription for delivery in deliveries})
        self.take_back(again)

    def _fail(self, delivery: Delivery, reason: str) -> int:
        """A delivery has failed; returns how often its message has."""
        message = delivery.message
        if self.storage is not None:
            self.storage.note(message)
        history = self._history(message)
        # The serial and not the subscription: a message must not keep a session in memory that has gone.
        history.avoid, history.reason = delivery.subscription.serial, reason
        history.failures += 1
        return history.failures

    def _carry_out(self, verdict: redelivery.Verdict, message: Message) -> bool:
        """Carry out the verdict on a failed message; True: it goes back to its place now."""
        match verdict:
            case DeadLetter(why):
                self._tell_requester(message, "rejected")
                self._dead_letter(message, why)
            case Discard(why):
                self._tell_requester(message, "rejected")
                self.drop_message(message, why)
            case RequeueAfter(seconds) if not self.has_expired(message):
                scheduler = self.context.scheduler
                due = scheduler.clock() + seconds
                due = min(due, message.expires or due)  # a back-off may be longer than the time to live
                self.resting[message] = scheduler.at(due, partial(self._come_back, message))
            case _:  # at once; one that has expired meanwhile goes when it comes to its place
                return True
        return False

    def _history(self, message: Message) -> History:
        if message.history is None:
            message.history = History(self.context.scheduler.epoch())
        return message.history

    def take_resting(self, message: Message) -> None:
        """A message that would have come back later does not."""
        self.context.scheduler.cancel(self.resting.pop(message))

    def _come_back(self, message: Message) -> None:
        # First: `take_back` may forget a queue with nothing in it, and a resting message would keep it.
        del self.resting[message]
        self.take_back([message])

    def take_back(self, messages: Iterable[Message]) -> None:
        """Messages come back, to their places; a queue forgotten meanwhile returns with them."""
        home: Queue | None = self.context.destinations.home_of(self)
        # No client can read this queue any more: its messages would wait for ever.
        if home is None:
            for message in messages:
                if self._survives_loss(message):
                    self.drop_message(message, "queue-gone")
            self.purge()
            self._forget_if_idle()
            return
        # The queue was forgotten and came back under its name: rows would go with the container of the old one.
        if home is not self and home.storage is not None and self.storage is not None:
            messages = list(messages)
            home.storage.adopt(messages, self.storage)
        home.take_home(messages)

    def take_home(self, messages: Iterable[Message]) -> None:
        """Messages come back, of this queue or of one of its name that was forgotten meanwhile."""
        # They came from several subscriptions, each with its own order.
        messages = sorted(messages, key=lambda message: message.order)
        if self.storage is not None:
            for message in messages:
                self.storage.note(message)
        self._dispatcher.restore([message for message in messages if self._survives_loss(message)])
        # Auto-delete waited for these messages: now nothing of the queue is with a consumer.
        if self.abandoned and not self.subscriptions:
            self.purge()
        self._forget_if_idle()

    def _survives_loss(self, message: Message) -> bool:
        """Count a failure if a message was lost with its consumer; False: it was the last, and it is a dead letter."""
        history = message.history
        if history is None or not history.lost:
            return True
        # One loss is counted once; the message may come back again for another reason.
        history.lost = False
        history.reason = ""
        history.failures += 1
        return self._carry_out(redelivery.after_loss(self.policy, history.failures), message)

    # the queue's own end

    def apply_arguments(self, arguments: QueueArguments) -> None:
        """Apply a client's arguments to a queue that is created with them, and has no subscription yet."""
        before, self.policy = self.policy, arguments.applied_to(self.policy)
        self.of_client = tuple(before.changes_of(self.policy))
        self.limits = self.in_memory.limits = limits_of(self.policy)
        self.start_idle_timer()  # its end may have another date now

    def start_idle_timer(self) -> None:
        """Start to count the time without a consumer, after which the queue goes."""
        if self.policy.idle_timeout:
            self._stop_idle_timer()
            scheduler = self.context.scheduler
            self._idle_timer = scheduler.at(scheduler.clock() + self.policy.idle_timeout, self._retire)

    def _stop_idle_timer(self) -> None:
        self.context.scheduler.cancel(self._idle_timer)
        self._idle_timer = None

    def _retire(self) -> None:
        if self.on_retire is not None:
            self.on_retire()
            return
        self.purge()
        self.start_idle_timer()  # once more, where a message comes back later
        self._forget_if_idle()

    def purge(self) -> None:
        """Throw away the messages that wait: the queue goes, or has been idle for too long."""
        for message in self.waiting_messages():
            self.remove(message)
            self.drop_message(message, "queue-gone")
        if self.storage is not None:
            # The messages in memory have gone by now; these are in the store alone.
            self.storage.purge("queue-gone")
        self._dispatcher.settle_groups()
        self.in_memory.tidy()

    def _forget_if_idle(self) -> None:
        self.context.destinations.forget_if_idle(self)

    def end(self) -> None:
        """The queue goes: a timer of the scheduler would keep all of it in memory until it is due."""
        self._stop_idle_timer()
        if self._deadlines is not None:
            self._deadlines.end()
        if not self.private:
            self.context.tallies.end(self.tally)
        self.in_memory.end()
        self._dispatcher.end()
