"""Subscriptions of the async client without I/O: what SUBSCRIBE says, also after a reconnect, and unread messages.

After a reconnect, unread messages that need an ACK are dropped: the server delivers them again.  Others stay, and on a
topic with a stream (docs/replay.md) the new SUBSCRIBE asks for the number behind the last one that has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from gateway.codec import Frame

from .errors import StompError

AUTO = "auto"
_ACTIVEMQ, _ARTEMIS, _OURS = "ActiveMQ", "ActiveMQ-Artemis", "stomp-gateway"
# With one of these the server knows the position, or messages have no numbers that could be asked for.
_NO_POSITION = frozenset(
    "resume durable persistent durable-subscription-name durable-subscriber-name activemq.subscriptionName "
    "x-queue-name include-seq browser".split()
)
_WILDCARDS = frozenset("*#>")


def is_activemq(server: str) -> bool:
    """True if the header `server` of CONNECTED names ActiveMQ or Artemis."""
    return server.startswith(_ACTIVEMQ)


def _prefetch(server: str, count: int) -> dict[str, str]:
    """The server's header for a limit of unacknowledged messages."""
    if server.startswith(_ARTEMIS):  # it counts bytes, so only one message at a time can be expressed
        return {"consumer-window-size": "0"} if count == 1 else {}
    return {"activemq.prefetchSize" if server.startswith(_ACTIVEMQ) else "prefetch-count": str(count)}


class ReceivedMessage:
    """A MESSAGE, and the connection that it came by."""

    __slots__ = ("connection", "frame", "gap", "is_settled", "subscription")

    def __init__(self, frame: Frame, subscription: SubscriptionState, connection: int) -> None:
        self.frame = frame
        self.subscription = subscription
        self.connection = connection  # its number
        self.is_settled = False  # acknowledged or rejected
        self.gap = subscription.is_ours and frame.headers.get("gap") == "true"

    def settle(self) -> bool:
        """Count it as acknowledged or rejected; False: it was before."""
        was, self.is_settled = self.is_settled, True
        return not was

    def tell_gap(self) -> None:
        """The program is told of the gap."""
        self.gap = False

    @property
    def size(self) -> int:
        return len(self.frame.body) + self.frame.head.size

    @property
    def is_nothing_else(self) -> bool:
        """True for a MESSAGE with a gap that says that messages are gone, and is none itself."""
        return "seq" not in self.frame.headers


class SubscriptionState:
    """One subscription, over all connections.

    Attributes:
        unread: deliveries in their order.
        is_confirmed: the server has confirmed its first SUBSCRIBE.
        error: the reason of its end; None: it goes on.
        changed: called when something of this has changed; `watch` sets it.
    """

    def __init__(
        self, name: str, destination: str, ack: str, prefetch: int, headers: Mapping[str, str], from_seq: int | None
    ) -> None:
        self.name = name
        self.destination = destination
        self.ack = ack
        self.unread: deque[ReceivedMessage] = deque()
        self.is_confirmed = False
        self.is_ours = False  # the server is a gateway
        self.error: StompError | None = None
        self.changed: Callable[[], None] = _nothing
        self._prefetch = prefetch
        self._headers = dict(headers)
        self._next = from_seq  # number to ask for; None: none

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    def headers(self, server: str) -> dict[str, str]:
        """The headers of SUBSCRIBE on the present connection."""
        self.is_ours = server.startswith(_OURS)
        headers = {"id": self.name, "destination": self.destination, "ack": self.ack}
        if self.ack != AUTO:
            headers |= _prefetch(server, self._prefetch)
        if self._next is not None:
            headers["from-seq"] = str(self._next)
        return headers | self._headers

    def put(self, frame: Frame, connection: int) -> ReceivedMessage:
        delivery = ReceivedMessage(frame, self, connection)
        self.unread.append(delivery)
        number = frame.headers.get("seq", "") if self.is_ours else ""
        if number.isdecimal() and self._has_position:
            self._next = int(number) + 1
        return delivery

    @property
    def _has_position(self) -> bool:
        return _NO_POSITION.isdisjoint(self._headers) and _WILDCARDS.isdisjoint(self.destination)

    def lost(self) -> int:
        """The connection has ended; returns the bytes of the dropped deliveries."""
        if self.ack == AUTO or (self._next is not None and self._has_position):
            return 0
        size = sum([each.size for each in self.unread])
        self.unread.clear()
        return size


def _nothing() -> None:
    return None
