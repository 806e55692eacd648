"""What a session costs in memory, by what it is: whoever must go when there is none left is found by this.

What goes with a session is its own: what waits to be written to it, its open transactions, its subscriptions and the
queues that they alone fill.  What it has not acknowledged goes back to where it came from, and stays.
"""

from __future__ import annotations

from typing import NamedTuple

from .session import Session

# What a subscription costs beside its names, nearly.
SUBSCRIPTION = 1024


class Cost(NamedTuple):
    """Bytes, nearly.

    Attributes:
        outbox: that wait to be written; of what many get it is not known whose it is, so each has it whole.
        transactions: of messages in open transactions.
        subscriptions: of its subscriptions, and of messages in queues that they alone fill.
        unacknowledged: of messages of other queues that it has not acknowledged.
    """

    outbox: int
    transactions: int
    subscriptions: int
    unacknowledged: int

    @property
    def own(self) -> int:
        """What goes with it."""
        return self.outbox + self.transactions + self.subscriptions


def cost_of(session: Session) -> Cost:
    """What a session costs.  Takes as long as it has subscriptions."""
    unacknowledged = private = 0
    for subscription in session.subscriptions.values():
        queue = subscription.queue
        if queue is not None and queue.private:
            private += queue.nbytes + subscription.held_bytes
        else:
            unacknowledged += subscription.held_bytes
    return Cost(
        outbox=session.outbox.size,
        transactions=sum([each.nbytes for each in session.transactions.values()]),
        subscriptions=private + len(session.subscriptions) * SUBSCRIPTION,
        unacknowledged=unacknowledged,
    )
