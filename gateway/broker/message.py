"""A message, and its delivery to one subscription.

`Message` is what a SEND becomes: shared by all its receivers, never changed but for the count of deliveries that a
queue keeps in it.  `Delivery` exists only where the receiver must acknowledge; it is the entry of the subscription's
ledger and remembers what an ACK settles.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from gateway.codec import Head

if TYPE_CHECKING:
    from .subscription import Subscription
    from .transactions import Transaction

# Two runs of the server never issue the same message-id (MSG-02), and none holds `:` or `\`, which some clients
# unescape wrongly.
_RUN = secrets.token_hex(4).encode()

# What a kept message costs beside its octets, measured: the objects, and their places in queue and ledger.
OVERHEAD = 300


class Message:
    """One message.

    Attributes:
        number: order of arrival, unique in this run.
        head: headers of the SEND, perhaps shared with other messages.
        body: the octets.
        attempts: deliveries so far, counted by the queue.
        avoid: the serial of the subscription that gave it back with NACK; another one gets it first.
    """

    __slots__ = ("attempts", "avoid", "body", "head", "number")

    def __init__(self, number: int, head: Head, body: bytes) -> None:
        self.number = number
        self.head = head
        self.body = body
        self.attempts = 0
        self.avoid = 0

    @property
    def id(self) -> bytes:
        """The message-id, stable over redeliveries."""
        return b"%b-%d" % (_RUN, self.number)

    @property
    def size(self) -> int:
        """Octets that keeping it costs, nearly."""
        return self.head.cost + len(self.body) + OVERHEAD


class Delivery:
    """A message sent to a subscription and not yet settled.

    Attributes:
        transaction: the open transaction that holds its ACK or NACK, if one does.
    """

    __slots__ = ("handle", "message", "subscription", "transaction")

    def __init__(self, message: Message, subscription: Subscription, handle: str) -> None:
        self.message = message
        self.subscription = subscription
        self.handle = handle
        self.transaction: Transaction | None = None
