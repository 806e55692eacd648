"""Messages, and SENDs that were checked.

A `Message` is what a SEND becomes: all receivers share it, and only its queue changes what it keeps there.  A
`PreparedSend` can be carried out without a further check: a transaction keeps it until COMMIT, the scheduler until its
time.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import ClassVar

from gateway.codec import Head, encoder

from .options import PLAIN, SendOptions

# What a kept message costs beside its bytes, measured: the objects, and their places in queue and ledger.
OVERHEAD = 300

DEAD_LETTER = object()
"""What the head of a dead letter derives: that its headers about that are the broker's own."""

LOWEST_PRIORITY = 9
PLAIN_RANK = LOWEST_PRIORITY - PLAIN.priority


@dataclass(slots=True, eq=False)
class History:
    """What happened to a message that was not consumed the first time."""

    first_at: float  # seconds since the epoch, the first failure
    failures: int = 0  # attempts that failed: rejected, or under way when the connection broke
    avoid: int = 0  # the serial of the subscription that gave it back with NACK; another one gets it first
    reason: str = ""  # what the last NACK gave as its `reason`; empty: nothing
    lost: bool = False  # the connection of its consumer broke, which is still to be counted


class Message:
    """One message.

    Of those that wait the one with the lowest `order` is due first, which is the pair of `rank` and `place`: higher
    priorities before lower ones, and within a priority in the order of arrival.  Both stay with the message, so one
    that comes back stands where it stood.
    """

    # Two runs of the server never issue the same message-id (MSG-02), and none holds `:` or `\`, which some clients
    # unescape wrongly.
    # what the message-ids of this process start with; where there is a store, of all that use it
    run: ClassVar[bytes] = secrets.token_hex(4).encode()

    __slots__ = (
        *("at", "attempts", "body", "expires", "head", "history", "number", "options", "place", "rank", "row"),
        *("waits", "wire"),
    )

    def __init__(self, number: int, head: Head, body: bytes, options: SendOptions = PLAIN) -> None:
        self.number = number  # order of arrival, unique in this run
        self.place = number  # among those of its rank that wait: its own, or that of a message which it replaced
        self.head = head  # headers of the SEND, perhaps shared with other messages
        self.body = body  # the bytes
        self.options = options  # what the SEND asked for
        # 0 for the highest priority, 9 for the lowest
        self.rank = PLAIN_RANK if options is PLAIN else LOWEST_PRIORITY - options.priority
        self.expires = 0.0  # on the broker's clock; 0: never
        self.attempts = 0  # deliveries so far, counted by the queue
        self.waits = False  # it is in a queue and nobody has it
        self.row = 0  # of the store, which holds it; negative: only as long as the process lives; 0: it has none
        self.at = 0  # when it was accepted, in nanoseconds of the recorder; 0: it is not known
        self.history: History | None = None  # None as long as nothing failed
        self.wire: Wire | None = None  # its bytes, where others have it, too

    @property
    def id(self) -> bytes:
        """The message-id, stable over redeliveries."""
        return b"%b-%d" % (self.run, self.number)

    @property
    def size(self) -> int:
        """Bytes that keeping it costs, nearly."""
        return self.head.cost + len(self.body) + OVERHEAD

    @property
    def order(self) -> tuple[int, int]:
        """Where it stands among those that wait: by priority, then by arrival."""
        return self.rank, self.place

    def has_expired(self, now: float) -> bool:
        """True if its time is over at that moment of the broker's clock."""
        return 0 < self.expires <= now  # 0 is a message that never expires

    def __lt__(self, other: Message) -> bool:
        """For heaps, where one message has the place of another."""
        return self.number < other.number

    def copy(self, wire: Wire, place: int = 0) -> Message:
        """The same message for another queue.  `place`: its own, where it may have a row; 0: its number does."""
        # Not `attempts` and `history`: each queue counts its own deliveries.
        copy = Message(self.number, self.head, self.body, self.options)
        copy.place = place or self.number
        copy.expires = self.expires
        copy.wire = wire
        copy.at = self.at
        return copy


class Wire:
    """A message as bytes: encoded once per form, for however many topics and queues it goes to."""

    __slots__ = ("_encoded", "_message")

    def __init__(self, message: Message) -> None:
        self._message = message
        self._encoded: list[bytes | None] = [None] * len(encoder.FORMS)

    def __getitem__(self, index: int) -> bytes:
        data = self._encoded[index]
        if data is None:
            message = self._message
            data = encoder.message(message.head, message.id, message.body, *encoder.FORMS[index])
            self._encoded[index] = data
        return data


@dataclass(slots=True, eq=False)
class PreparedSend:
    """A SEND that was checked and can be carried out."""

    targets: list[tuple[str, Head]]  # canonical name and head, for each destination
    body: bytes
    options: SendOptions
    sender: str  # id of the session that sent it; empty: the server itself
    expires: float  # on the broker's clock; 0: never, as far as the sender is concerned
    nbytes: int = field(init=False)  # what keeping it costs

    def __post_init__(self) -> None:
        self.nbytes = sum([head.cost + len(self.body) + OVERHEAD for _, head in self.targets])
