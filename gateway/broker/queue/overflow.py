"""What may wait in a queue, and which message goes when it is too much.

at the limit              the publisher waits; or the oldest message goes, or the newest, or the client
a newer one of its key    replaces the one that waits (conflation): whoever is slow gets the last value of each key
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from .. import errors
from ..model.message import Message
from ..model.policy import Policy, SlowConsumerAction, WhenFull
from .fate import dead_letter, drop

if TYPE_CHECKING:
    from .queue import Queue


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What may wait in a queue, and what happens at the limit.

    Attributes:
        max_messages: 0: any number.
        max_octets: 0: any.
        action: called with the queue and the message that just came, as soon as it is one too many (or, where
            publishers are held back, as soon as it was the last one).
        conflate_by: the header by which newer messages replace older ones; empty: none.
        any: there is a limit.
        drops_oldest: and the oldest message may have to go.
        keeps_all: nothing that waits ever has to go; who publishes waits instead.
    """

    max_messages: int
    max_octets: int
    action: Callable[[Queue, Message], None]
    conflate_by: str
    any: bool = False
    drops_oldest: bool = False
    keeps_all: bool = True

    def reached(self, queue: Queue) -> bool:
        """Nothing more should come."""
        return (0 < self.max_messages <= queue.waiting) or (0 < self.max_octets <= queue.nbytes)

    def exceeded(self, queue: Queue) -> bool:
        """Too much waits."""
        return (0 < self.max_messages < queue.waiting) or (0 < self.max_octets < queue.nbytes)

    def apply(self, queue: Queue, message: Message) -> None:
        """A message came."""
        self.action(queue, message)


def _block(queue: Queue, message: Message) -> None:
    if queue.limits.reached(queue):
        queue.full = True
        queue.broker.full.add(queue)


def _drop_newest(queue: Queue, message: Message) -> None:
    if queue.limits.exceeded(queue):
        queue.withdraw(message)
        drop(queue, message, "queue-full")


def _drop_oldest(queue: Queue, message: Message) -> None:
    for oldest in _too_many(queue):
        drop(queue, oldest, "queue-full")


def _dead_letter_oldest(queue: Queue, message: Message) -> None:
    for oldest in _too_many(queue):
        dead_letter(queue, oldest, "queue-full")


def _too_many(queue: Queue) -> Iterator[Message]:
    """The oldest messages, as long as there are too many."""
    while queue.limits.exceeded(queue):
        assert queue.ages is not None  # whatever waits is there, too
        oldest = queue.ages.first()
        assert oldest is not None  # likewise
        queue.withdraw(oldest[1])
        yield oldest[1]


def _disconnect(queue: Queue, message: Message) -> None:
    if queue.limits.exceeded(queue):
        most = queue.limits.max_messages
        too_many = 0 < most < queue.waiting
        what = f"{most} messages (slow_messages)" if too_many else f"{queue.limits.max_octets} octets (max_outbound)"
        error = errors.SlowConsumer(
            f"more than {what} of {queue.name[:80]!r} wait for this client", errors.NEWS if too_many else errors.OUTBOX
        )
        for subscription in queue.subscriptions:
            queue.broker.end_slow(subscription.session, error)


_WHEN_FULL = {
    WhenFull.BLOCK: _block,
    WhenFull.DROP_OLDEST: _drop_oldest,
    WhenFull.DROP_NEWEST: _drop_newest,
    WhenFull.DEAD_LETTER: _dead_letter_oldest,
}
_OLDEST_GO = (_drop_oldest, _dead_letter_oldest)
_SLOW = {
    SlowConsumerAction.DROP_OLDEST: _drop_oldest,
    SlowConsumerAction.DROP_NEWEST: _drop_newest,
    SlowConsumerAction.CONFLATE: _drop_oldest,
    SlowConsumerAction.DISCONNECT: _disconnect,
}


@lru_cache(maxsize=1024)
def limits_of(policy: Policy) -> QueueLimits:
    """The limits of a queue with that policy."""
    return _limits(policy.max_messages, policy.max_octets, _WHEN_FULL[policy.when_full], policy.conflate_by)


@lru_cache(maxsize=1024)
def limits_of_subscriber(policy: Policy, asked: int | None, max_outbound: int) -> QueueLimits:
    """The limits of a topic's subscriber.

    Args:
        asked: messages that may wait, as the client wishes; None: as the policy says.
        max_outbound: the session's limit in bytes; where publishers are held back, it closes the client.
    """
    if policy.slow_consumer is SlowConsumerAction.BLOCK and asked is None:
        return _limits(0, max_outbound, _disconnect, "")
    action = _SLOW.get(policy.slow_consumer, _drop_oldest)
    by = policy.conflate_by if policy.slow_consumer is SlowConsumerAction.CONFLATE else ""
    return _limits(asked or policy.slow_messages, max_outbound, action, by)


def _limits(messages: int, nbytes: int, action: Callable[[Queue, Message], None], conflate_by: str) -> QueueLimits:
    limited = bool(messages or nbytes)
    oldest_go, waits = limited and action in _OLDEST_GO, not limited or action is _block
    return QueueLimits(messages, nbytes, action, conflate_by, limited, oldest_go, waits)


def _key(queue: Queue, message: Message) -> str | None:
    key = message.options.conflation_key
    return message.head.headers.get(queue.limits.conflate_by) if key is None else key


def conflate(queue: Queue, message: Message) -> bool:
    """A kept message comes; False: a newer one of its key waits, and it is gone.

    An older one is replaced: the newer one gets its place, so that every key has its turn however often it changes.
    """
    key = _key(queue, message)
    other = queue.latest.get(key) if key is not None and queue.latest is not None else None
    if other is None:
        return True
    older, newer = (other, message) if other.number < message.number else (message, other)
    queue.let_go(older)
    queue.broker.counters.conflated += 1
    if queue.broker.records is not None:
        queue.broker.records.dropped(queue.name, older, "conflated")
    if older is message:
        return False
    if older.rank == newer.rank:
        newer.place = older.place
    queue.withdraw(older)
    return True


def remember_latest(queue: Queue, message: Message) -> None:
    """A message waits, and is the newest of its key."""
    key = _key(queue, message)
    if key is not None:
        if queue.latest is None:
            queue.latest = {}
        queue.latest[key] = message


def forget_latest(queue: Queue, message: Message) -> None:
    """A message with a key waits no longer."""
    key = _key(queue, message)
    if key is not None and queue.latest is not None and queue.latest.get(key) is message:
        del queue.latest[key]
