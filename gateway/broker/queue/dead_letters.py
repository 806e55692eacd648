"""Dead letters: new messages to the queue that the policy names, with flat headers that every client can read.

    dlq-reason      rejected, max-attempts, expired, queue-full
    dlq-source      the destination that it could not be consumed from
    dlq-attempts    attempts that failed there: those that `max_attempts` counts, and not all deliveries
    original-destination  as the SEND named it
    dlq-first-at    milliseconds since the epoch: when it first failed
    reason          the reason that the NACK gave, if the last failure was a NACK that gave one

A consumer can rely on all of them: a header that the sender wrote under one of these names is replaced or left out.
"""

from gateway.codec import Head

from ..core.context import Context
from ..model.message import DEAD_LETTER, Message
from ..model.options import SendOptions, shared

# A dead letter waits for its reader without a time limit; and a reason is a consumer's, never the sender's.
_LEFT_OUT = frozenset(["expires", "expiration", "ttl", "reason"])


def head_of(message: Message, why: str, source: str, target: str, now: float) -> Head:
    """The head of the dead letter that a message becomes, marked as the broker's own.

    Args:
        source: canonical name of its queue.
        target: where the dead letter goes.
        now: seconds since the epoch.
    """
    given, history = message.head.headers, message.history
    headers = {name: value for name, value in given.items() if name not in _LEFT_OUT}
    headers |= {
        "destination": target,
        "dlq-reason": why,
        "dlq-source": source,
        "dlq-attempts": str(0 if history is None else history.failures),
    }
    if message.head.derived is not DEAD_LETTER:  # else it has them from its first death
        headers["original-destination"] = given.get("destination", source)
        headers["dlq-first-at"] = str(int((now if history is None else history.first_at) * 1000))
    if history is not None and history.reason:
        headers["reason"] = history.reason
    head = Head.of("SEND", headers)
    head.derived = DEAD_LETTER
    return head


def tell(context: Context, source: str, message: Message, why: str, head: Head) -> None:
    """Record the dead letter that a message of the queue `source` becomes, and announce it."""
    context.records.ended("dead_lettered", source, message, reason=why, headers=head.headers)
    if context.announcer is not None:
        context.announcer.became_dead_letter(source, message, head.headers)


def options_of(message: Message) -> SendOptions:
    """The options of the dead letter that a message becomes: priority and group stay, and it is durable if it was."""
    old = message.options
    return shared(
        SendOptions(priority=old.priority, group=old.group, closes_group=old.closes_group, persistent=message.row > 0)
    )
