"""Overflow: the limits of a queue, and the message that goes when it holds too much.  The queue carries that out.

at the limit              the publisher waits; or the oldest message goes, or the newest, or the client
a newer one of its key    replaces the one that waits (conflation): a slow consumer gets the last value of each key
"""

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from .. import errors
from ..model.message import Message
from ..model.policy import Policy, SlowConsumerAction, WhenFull


class Overflow(Enum):
    """The actions of a queue at its limit."""

    BLOCK = auto()
    DROP_NEWEST = auto()
    DROP_OLDEST = auto()
    DEAD_LETTER_OLDEST = auto()
    DISCONNECT = auto()


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of one queue.

    Attributes:
        max_messages, max_bytes: 0: any number.
        conflate_by: the header by which newer messages replace older ones; empty: none.
        any: there is a limit.
        drops_oldest: and the oldest message may have to go.
        keeps_all: no waiting message ever has to go; publishers wait instead.
        blocks: there is a limit, and publishers wait at it.
    """

    max_messages: int
    max_bytes: int
    action: Overflow
    conflate_by: str
    # Worked out once for each policy: the queue asks for them with each message.
    any: bool = False
    drops_oldest: bool = False
    keeps_all: bool = True
    blocks: bool = False

    def reached(self, messages: int, nbytes: int) -> bool:
        """True if no further message should come."""
        return (0 < self.max_messages <= messages) or (0 < self.max_bytes <= nbytes)

    def verdict(self, messages: int, nbytes: int) -> Overflow | None:
        """Decide what happens now that so much waits; None: nothing, there is room."""
        # The message that came is counted already, so that a queue may hold exactly its limit.
        exceeded = (0 < self.max_messages < messages) or (0 < self.max_bytes < nbytes)
        if exceeded:
            return self.action
        # A publisher is held back as soon as there is no room for another message, so that the limit holds.
        return self.action if self.blocks and self.reached(messages, nbytes) else None

    def key_of(self, message: Message) -> str | None:
        """The key by which a message replaces older ones; None: it replaces none."""
        key = message.options.conflation_key
        # The key that the sender names goes before the header that the policy names.
        return message.head.headers.get(self.conflate_by) if key is None else key

    def conflates(self, message: Message) -> bool:
        """True if a newer message may replace this one."""
        return bool(self.conflate_by) or message.options.conflation_key is not None

    def slow_consumer(self, name: str, messages: int) -> errors.SlowConsumer:
        """The error of a subscriber of the topic `name`, for which so many messages wait."""
        too_many = 0 < self.max_messages < messages
        what = f"{self.max_messages} messages (slow_messages)" if too_many else f"{self.max_bytes} bytes (max_outbound)"
        return errors.SlowConsumer(
            f"more than {what} of {name[:80]!r} wait for this client", errors.NEWS if too_many else errors.OUTBOX
        )


_WHEN_FULL = {
    WhenFull.BLOCK: Overflow.BLOCK,
    WhenFull.DROP_OLDEST: Overflow.DROP_OLDEST,
    WhenFull.DROP_NEWEST: Overflow.DROP_NEWEST,
    WhenFull.DEAD_LETTER: Overflow.DEAD_LETTER_OLDEST,
}
# BLOCK is missing: a client that asks for a bound of its own does not hold back publishers, and loses its oldest.
_SLOW = {
    SlowConsumerAction.DROP_OLDEST: Overflow.DROP_OLDEST,
    SlowConsumerAction.DROP_NEWEST: Overflow.DROP_NEWEST,
    # There may be any number of keys, so that conflation alone is no bound.
    SlowConsumerAction.CONFLATE: Overflow.DROP_OLDEST,
    SlowConsumerAction.DISCONNECT: Overflow.DISCONNECT,
}


# Policies are few, and queues and subscribers are many: they share these.
@lru_cache(maxsize=1024)
def limits_of(policy: Policy) -> QueueLimits:
    """The limits of a queue with that policy."""
    return _limits(policy.max_messages, policy.max_bytes, _WHEN_FULL[policy.when_full], policy.conflate_by)


@lru_cache(maxsize=1024)
def limits_of_subscriber(policy: Policy, asked: int | None, max_outbound: int) -> QueueLimits:
    """The limits of a topic's subscriber.

    Args:
        asked: messages that may wait, as the client asks; None: as the policy says.
        max_outbound: the session's limit in bytes.
    """
    if policy.slow_consumer is SlowConsumerAction.BLOCK and asked is None:
        return _limits(0, max_outbound, Overflow.DISCONNECT, "")  # the topic holds back publishers long before
    action = _SLOW.get(policy.slow_consumer, Overflow.DROP_OLDEST)
    by = policy.conflate_by if policy.slow_consumer is SlowConsumerAction.CONFLATE else ""
    return _limits(asked or policy.slow_messages, max_outbound, action, by)


def _limits(messages: int, nbytes: int, action: Overflow, conflate_by: str) -> QueueLimits:
    limited = bool(messages or nbytes)
    return QueueLimits(
        messages,
        nbytes,
        action,
        conflate_by,
        any=limited,
        drops_oldest=limited and action in (Overflow.DROP_OLDEST, Overflow.DEAD_LETTER_OLDEST),
        keeps_all=not limited or action is Overflow.BLOCK,
        blocks=limited and action is Overflow.BLOCK,
    )
