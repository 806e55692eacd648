"""Traces: a message's way through the gateway as spans, for OpenTelemetry.

    SEND       `send`      when it was accepted; its parent is what the client's `traceparent` names
    MESSAGE    `deliver`   from then until it was put into an outbox: how long it waited
    ACK, NACK  `ack`, ...  from then until it was settled: how long the consumer took
    otherwise  `expire`, `drop`, `dead-letter`

The flag of a client's `traceparent` decides which messages are traced, and without one `trace_ratio`; a limit for a
second bounds both.  The MESSAGE's `traceparent` is that of the `send` span, so that a consumer's span is its child.
That makes a head of its own, encoded for this message alone; untraced messages keep what their sender wrote.

A topic's message is one `deliver` span, with the number of its receivers: a span for each would be more work than the
message.  The loop only writes down what happened; `spans` makes spans of it, in a thread of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.core.events import Consumer, Ending, EventLog, Unsettled
from gateway.broker.model.destinations import REPLY_QUEUE, REPLY_TOPIC
from gateway.broker.model.message import Message
from gateway.codec import Head

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.core.ports import Recorder, Value

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

# Version, trace, span, flags.  Neither id is zero (W3C Trace Context, 3.2.2).
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_LENGTH = 55
_SAMPLED = 1

_LONGEST_STATE = 512
"""Characters of a `tracestate` that is told; W3C asks for so many (3.3.1.5).  It goes through whole."""

_LONGEST_NAME = 256
"""Characters of a destination."""

_ENDS: dict[Ending, str] = {"expired": "expire", "dropped": "drop", "dead_lettered": "dead-letter"}

_SECRET = (REPLY_QUEUE, REPLY_TOPIC)
"""Destinations that whoever knows their names may send to."""


class Mark(NamedTuple):
    """Something that happened to a traced message, as the loop writes it down.

    `start`, `end`: nanoseconds of the recorder's clock.
    """

    operation: str  # `send`, `deliver`, `ack`,
    context: str  # the `traceparent` of the span that is the parent; of a `send` its own
    parent: str  # of a `send`, the span id that the client named; empty: none
    state: str  # the `tracestate` that came with it
    start: int
    end: int
    destination: str  # canonical
    client: str  # the session's id; empty: none
    number: int  # of the message
    size: int  # bytes of the body
    facts: dict[str, str | int]  # what else there is to say, by attribute


class GatewaySpan(NamedTuple):
    """Something that this gateway did, and no message: a span of its own.

    `start`, `end`: nanoseconds of the recorder's clock.
    """

    name: str
    trace: str  # 32 hexadecimal digits
    span: str  # 16
    parent: str  # of the span that it is a part of; empty: none
    start: int
    end: int
    facts: dict[str, str | int]


class Traced(EventLog):
    """The broker's side of the recorder, and of the traces.

    Args:
        ratio: part of the messages that are traced, of those that come without a `traceparent`.
        tell: takes what happened; it must not wait.
        may: asked for each message that is to be traced, with the recorder's time: whether there may be one more.
        random: makes ids, and chooses.
    """

    def __init__(
        self,
        broker: Broker,
        recorder: Recorder,
        ratio: float,
        tell: Callable[[Mark], None],
        may: Callable[[int], bool] = lambda _: True,
        random: Random | None = None,
    ) -> None:
        super().__init__(broker.sessions, recorder)
        self._ratio = ratio
        self._tell = tell
        self._may = may
        self._random = random or Random()

    def accepted(self, message: Message, destination: str, sender: str) -> None:
        super().accepted(message, destination, sender)
        headers = message.head.headers
        given = headers.get(TRACEPARENT, "")
        is_valid = is_traceparent(given)
        is_chosen = _is_sampled(given) if is_valid else self._random.random() < self._ratio
        if not is_chosen or not self._may(message.at):
            return
        trace = given[3:35] if is_valid else _hexadecimal(self._random, 32)
        context = f"00-{trace}-{_hexadecimal(self._random, 16)}-{given[53:55] if is_valid else '01'}"
        message.head = _with(message.head, context, keeps_state=is_valid)
        state = headers.get(TRACESTATE, "") if is_valid else ""
        if len(state) > _LONGEST_STATE:
            state = ""
        parent = given[36:52] if is_valid else ""
        self._mark("send", message, context, parent, state, message.at, destination, sender)

    def delivered(self, subscription: Consumer, message: Message, delivery: Unsettled | None = None) -> None:
        super().delivered(subscription, message, delivery)
        if context := context_of(message):
            facts: dict[str, str | int] = {"gateway.attempt": message.attempts or 1}
            self._of(subscription, "deliver", message, context, message.at, facts)

    def fanned_out(self, subscriptions: Collection[Consumer], message: Message) -> None:
        super().fanned_out(subscriptions, message)
        if (context := context_of(message)) and subscriptions:
            name = self._destination(next(iter(subscriptions)).source, message)
            facts: dict[str, str | int] = {"gateway.receivers": len(subscriptions)}
            self._mark("deliver", message, context, "", "", message.at, name, "", facts)

    def acknowledged(self, subscription: Consumer, deliveries: Iterable[Unsettled]) -> None:
        super().acknowledged(subscription, deliveries)
        for delivery in deliveries:
            if context := context_of(delivery.message):
                self._of(subscription, "ack", delivery.message, context, delivery.at)

    def rejected(self, subscription: Consumer, deliveries: Iterable[Unsettled], reason: str) -> None:
        super().rejected(subscription, deliveries, reason)
        for delivery in deliveries:
            if context := context_of(delivery.message):
                self._of(subscription, "nack", delivery.message, context, delivery.at)

    def ended(self, event: Ending, name: str, message: Message, **columns: Value) -> None:
        """A message expired, was thrown away, or became a dead letter."""
        super().ended(event, name, message, **columns)
        if context := context_of(message):
            why = columns.get("reason")
            facts: dict[str, str | int] = {"gateway.reason": str(why)} if why else {}
            self._mark(_ENDS[event], message, context, "", "", 0, self._destination(name, message), "", facts)

    def _of(
        self,
        subscription: Consumer,
        operation: str,
        message: Message,
        context: str,
        since: int,
        facts: dict[str, str | int] | None = None,
    ) -> None:
        """What happened to a message between the gateway and a subscription, beginning at a time or just now."""
        name = self._destination(subscription.source, message)
        self._mark(operation, message, context, "", "", since, name, subscription.peer.id, facts)

    def _mark(
        self,
        operation: str,
        message: Message,
        context: str,
        parent: str,
        state: str,
        since: int,
        name: str,
        client: str,
        facts: dict[str, str | int] | None = None,
    ) -> None:
        now = self._recorder.clock()
        size = len(message.body)
        number = message.number
        self._tell(
            Mark(operation, context, parent, state, since or now, now, shown(name), client, number, size, facts or {})
        )


def context_of(message: Message) -> str:
    """The `traceparent` of a message that is traced; empty: it is not."""
    text = message.head.headers.get(TRACEPARENT, "")
    return text if text and is_traceparent(text) and _is_sampled(text) else ""


def is_traceparent(text: str) -> bool:
    """Whether it can be understood: version 00, or the start of a later one."""
    if not _PARENT.match(text):
        return False
    return len(text) == _LENGTH or (text[:2] != "00" and text[_LENGTH] == "-")


def shown(destination: str) -> str:
    """A destination as others may read it."""
    start = next((start for start in _SECRET if destination.startswith(start)), None)
    return destination[:_LONGEST_NAME] if start is None else f"{start}(temporary)"


def _is_sampled(traceparent: str) -> bool:
    return bool(int(traceparent[53:55], 16) & _SAMPLED)


def _hexadecimal(random: Random, digits: int) -> str:
    """So many digits, not all of them zero."""
    return f"{random.getrandbits(4 * digits) or 1:0{digits}x}"


def _with(head: Head, context: str, *, keeps_state: bool) -> Head:
    headers = {**head.headers, TRACEPARENT: context}
    if not keeps_state:
        headers.pop(TRACESTATE, None)  # it belongs to the traceparent that could not be read
    made = Head.of(head.command, headers)
    made.derived = head.derived
    return made
