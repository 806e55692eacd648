"""Cost of a session in memory, part by part: where memory is short, it tells which session must go.

A session owns the memory that goes with it: its outbox, its open transactions, its subscriptions and the queues that
they alone fill.
"""

from typing import NamedTuple

from .session import Session

# What a subscription costs beside its names, nearly.
SUBSCRIPTION = 1024


class Cost(NamedTuple):
    """Bytes, nearly."""

    outbox: int  # that wait to be written; a message that many sessions get counts whole for each of them
    transactions: int  # of messages in open transactions
    subscriptions: int  # of its subscriptions, and of messages in queues that they alone fill
    unacknowledged: int  # of messages of other queues

    @property
    def own(self) -> int:
        """Bytes that go with the session."""
        return self.outbox + self.transactions + self.subscriptions


def cost_of(session: Session) -> Cost:
    """The cost of a session.  Takes as long as it has subscriptions."""
    unacknowledged = private = 0
    for subscription in session.subscriptions.values():
        queue = subscription.queue
        if queue is not None and queue.private:
            private += queue.nbytes + subscription.held_bytes
        # They go back to their queue and stay there, so the end of the session frees none of them.
        else:
            unacknowledged += subscription.held_bytes
    return Cost(
        outbox=session.outbox.size,
        transactions=sum([each.nbytes for each in session.transactions.values()]),
        subscriptions=private + len(session.subscriptions) * SUBSCRIPTION,
        unacknowledged=unacknowledged,
    )
