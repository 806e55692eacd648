"""The message that has waited longest in a queue: where it stands, without a look at all that wait.

in memory   in the queue's first lane; or, of a group that somebody has, in what is parked with the owner
backlog     at the front of the rows of a priority

Within a priority the first that is due is the oldest; of several priorities see `Lane`.  What comes back later, after
a failure, does not wait.

Known weakness: of a group only the first that is due is looked at, which is not its oldest where its messages have
several priorities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .queue import Queue
    from .subscription import Subscription


def oldest(queue: Queue) -> int | None:
    """The number of the oldest message that waits; None: nothing does."""
    if not queue.waiting:
        return None
    first = queue.ready_lists[0].oldest()
    paged = queue.storage.paged if queue.storage is not None else None
    if queue.consumers.groups is None and paged is None:
        return None if first is None else first.number
    numbers = [] if first is None else [first.number]
    parked = [each.parked.oldest() for each in queue.subscriptions if each.parked is not None]
    numbers += [message.number for message in parked if message is not None]
    if paged is not None:
        numbers += paged.first_rows()
    return min(numbers, default=None)


def oldest_delivery(subscription: Subscription) -> int | None:
    """The number of the message that a consumer has had longest and did not settle; None: it has none."""
    return next(iter(subscription.ledger.values())).message.number if subscription.ledger else None
