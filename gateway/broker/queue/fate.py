"""What becomes of messages that are not just consumed: failures, dead letters, expiry.

    rejected, or lost under way:  again (at once, or after the back-off)  ->  dead letter after the last attempt
    expired:                      gone, or a dead letter where the policy says so
    nobody uses their queue:      gone with it, where the policy says so

A dead letter is a new message to the queue that the policy names.  What happened to it stands in flat headers, which
every client can read:

    dlq-reason      rejected, max-attempts, expired, queue-full
    dlq-source      the destination that it could not be consumed from
    dlq-attempts    attempts that failed there: those that `max_attempts` counts, and not all deliveries
    original-destination  as the SEND named it
    dlq-first-at    milliseconds since the epoch: when it first failed
    reason          what the NACK gave as its reason, if the last failure was a NACK that gave one

Whoever reads one can rely on all of them: of what the sender wrote under these names, nothing is left.
"""

from __future__ import annotations

import heapq
import math
from functools import partial
from typing import TYPE_CHECKING

from gateway.codec import Head

from ..core.scheduler import Timer
from ..model.message import DEAD_LETTER, History, Message
from ..model.options import PLAIN, SendOptions
from ..model.policy import OnNack

if TYPE_CHECKING:
    from ..core.counters import Drop
    from .queue import Queue

# Messages that expire in one turn: about 2 ms.
_EXPIRIES_PER_TURN = 500
# Entries of a heap that may belong to messages that have gone, beside twice as many as wait.
_SLACK = 8
# A dead letter may meet a full queue, whose dead letters go to a full queue, and so on: round in a circle at worst.
_LONGEST_CHAIN = 4
# What waits for its reader has no time limit any more; and a reason is a consumer's, never the sender's.
_NOT_OF_A_DEAD_LETTER = frozenset(["expires", "expiration", "ttl", "reason"])


# failures


def rejected(queue: Queue, message: Message, serial: int, *, requeue: bool, reason: str) -> bool:
    """A consumer gave a message back by NACK; True: it goes back into the queue now."""
    history = _history(queue, message)
    history.avoid = serial
    history.reason = reason
    policy = queue.policy
    if not requeue or policy.on_nack is OnNack.DEAD_LETTER:
        history.failures += 1
        dead_letter(queue, message, "rejected")
        return False
    if policy.on_nack is OnNack.DROP:
        history.failures += 1
        drop(queue, message, "rejected")
        return False
    if failed(queue, message):
        return False
    delay = policy.delay_after(history.failures)
    if not delay or queue.has_expired(message):
        return True
    scheduler = queue.broker.scheduler
    due = scheduler.clock() + delay
    due = min(due, message.expires or due)  # a back-off may take years: what expires in it must not stay so long
    queue.resting[message] = scheduler.at(due, partial(_come_back, queue, message))
    return False


def mark_lost(queue: Queue, message: Message) -> None:
    """A consumer was probably at work on a message when its connection broke."""
    _history(queue, message).lost = True


def was_last_attempt(queue: Queue, message: Message) -> bool:
    """A message comes back; True: it was lost with its consumer, for the last time, and is a dead letter."""
    history = message.history
    if history is None or not history.lost:
        return False
    history.lost = False
    history.reason = ""
    return failed(queue, message)


def failed(queue: Queue, message: Message) -> bool:
    """An attempt to consume a message has failed; True: it was the last one."""
    history = _history(queue, message)
    history.failures += 1
    most = queue.policy.max_attempts
    if not most or history.failures < most:
        return False
    dead_letter(queue, message, "max-attempts")
    return True


def _history(queue: Queue, message: Message) -> History:
    if message.history is None:
        message.history = History(queue.broker.scheduler.epoch())
    return message.history


def _come_back(queue: Queue, message: Message) -> None:
    del queue.resting[message]
    queue.take_back([message])


def take_resting(queue: Queue, message: Message) -> None:
    """A message that would have come back later does not."""
    queue.broker.scheduler.cancel(queue.resting.pop(message))


# dead letters


def dead_letter(queue: Queue, message: Message, why: Drop) -> None:
    """A kept message leaves its queue for good; it goes where the policy says, or nowhere."""
    broker = queue.broker
    target = queue.policy.target_of(queue.name)
    if not target or target == queue.name or broker.dead_letters_under_way >= _LONGEST_CHAIN:
        drop(queue, message, why)
        return
    durable = message.row > 0
    queue.let_go(message)
    broker.counters.dead_lettered += 1
    broker.dead_letters_under_way += 1
    try:
        headers = _headers(queue, message, why, target)
        if broker.records is not None:
            broker.records.dead_lettered(queue.name, message, why, headers)
        head = Head.of("SEND", headers)
        head.derived = DEAD_LETTER
        old = message.options
        options = SendOptions(
            priority=old.priority,
            group=old.group,
            closes_group=old.closes_group,
            persistent=durable,
        )
        broker.deposit(target, head, message.body, PLAIN if options == PLAIN else options)
    finally:
        broker.dead_letters_under_way -= 1


def _headers(queue: Queue, message: Message, why: str, target: str) -> dict[str, str]:
    """The headers of the dead letter that a message becomes."""
    given, history = message.head.headers, message.history
    headers = {name: value for name, value in given.items() if name not in _NOT_OF_A_DEAD_LETTER}
    headers |= {
        "destination": target,
        "dlq-reason": why,
        "dlq-source": queue.name,
        "dlq-attempts": str(0 if history is None else history.failures),
    }
    if message.head.derived is not DEAD_LETTER:  # else it has them from its first death
        first_at = queue.broker.scheduler.epoch() if history is None else history.first_at
        headers["original-destination"] = given.get("destination", queue.name)
        headers["dlq-first-at"] = str(int(first_at * 1000))
    if history is not None and history.reason:
        headers["reason"] = history.reason
    return headers


def drop(queue: Queue, message: Message, why: Drop) -> None:
    """A kept message is thrown away."""
    queue.let_go(message)
    broker = queue.broker
    broker.counters.drops[why] += 1
    if broker.records is not None:
        broker.records.dropped(queue.name, message, why)


# messages by key: expiry, age


class LazyHeap:
    """Messages of a queue that wait, by a key of theirs; the lowest first.

    Attributes:
        date: when the agenda looks at it next; None: it does not.
        due: the same as a time.
    """

    __slots__ = ("date", "due", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Message]] = []
        self.date: Timer | None = None
        self.due = math.inf

    def add(self, key: float, message: Message) -> None:
        """A message waits."""
        heapq.heappush(self.heap, (key, message.number, message))

    def first(self) -> tuple[float, Message] | None:
        """The key and the message of those that wait."""
        heap = self.heap
        while heap and not heap[0][2].waits:
            heapq.heappop(heap)
        return (heap[0][0], heap[0][2]) if heap else None

    def tidy(self, waiting: int) -> None:
        """Forget those that wait no longer, once they are many."""
        if len(self.heap) > 2 * waiting + _SLACK:
            self.heap = [entry for entry in self.heap if entry[2].waits]
            heapq.heapify(self.heap)


def remember_age(queue: Queue, message: Message) -> None:
    """A message waits in a queue whose oldest may have to go."""
    if queue.ages is None:
        queue.ages = LazyHeap()
    queue.ages.add(message.number, message)


# expiry


def watch(queue: Queue, message: Message) -> None:
    """A message waits that will expire."""
    if queue.expiry is None:
        queue.expiry = LazyHeap()
    queue.expiry.add(message.expires, message)
    _make_date(queue, queue.expiry, message.expires)


def _make_date(queue: Queue, expiry: LazyHeap, due: float) -> None:
    if due < expiry.due:
        scheduler = queue.broker.scheduler
        scheduler.cancel(expiry.date)
        expiry.due = due
        expiry.date = scheduler.at(due, partial(_sweep, queue, expiry))


def _sweep(queue: Queue, expiry: LazyHeap) -> None:
    expiry.due = math.inf
    scheduler = queue.broker.scheduler
    now = scheduler.clock()
    for _ in range(_EXPIRIES_PER_TURN):
        first = expiry.first()
        if first is None or first[0] > now:
            break
        queue.withdraw(first[1])
        expired(queue, first[1])
    first = expiry.first()
    if first is None:
        queue.broker.forget_if_idle(queue)
    elif first[0] > now:
        _make_date(queue, expiry, first[0])
    else:
        scheduler.later(partial(_sweep, queue, expiry))


def forgotten(queue: Queue) -> None:
    """A queue goes: nothing may refer to it until some far time."""
    scheduler = queue.broker.scheduler
    scheduler.cancel(queue.unused)
    if queue.expiry is not None:
        scheduler.cancel(queue.expiry.date)
    queue.expiry = queue.unused = None
    if queue.consumers.groups is not None:
        queue.consumers.groups.end()


def expired(queue: Queue, message: Message) -> None:
    """A kept message has expired."""
    queue.broker.counters.expired += 1
    if queue.broker.records is not None:
        queue.broker.records.expired(queue.name, message)
    if queue.policy.dead_letter_expired:
        dead_letter(queue, message, "expired")
    else:
        queue.let_go(message)


# queues that nobody uses


def unused(queue: Queue) -> None:
    """Nobody subscribes to a queue from now on."""
    timeout = queue.policy.idle_timeout
    if timeout:
        scheduler = queue.broker.scheduler
        scheduler.cancel(queue.unused)
        queue.unused = scheduler.at(scheduler.clock() + timeout, partial(_retire, queue))


def used(queue: Queue) -> None:
    """Somebody subscribes."""
    queue.broker.scheduler.cancel(queue.unused)
    queue.unused = None


def _retire(queue: Queue) -> None:
    if queue.feed is not None:
        queue.broker.registry.durable_subscriptions.forget(queue.feed)
        return
    queue.purge()
    unused(queue)  # once more, where something comes back later
    queue.broker.forget_if_idle(queue)
