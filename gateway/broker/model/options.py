"""What the headers of a frame ask of the broker, once the dictionary has read them.

`SendOptions` belong to a SEND, `SubscribeOptions` to a SUBSCRIBE.  Both are what is left when units, aliases and
defaults of other brokers are out of the way; nothing behind this module knows how a header is spelt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from .policy import ClientArguments

Selector = Callable[[Mapping[str, str]], bool | None]
"""Whether a message with these headers is wanted; None: it is unknown, so it is not."""


class AckMode(Enum):
    """The `ack` header of SUBSCRIBE."""

    AUTO = "auto"
    CLIENT = "client"
    INDIVIDUAL = "client-individual"


class Retain(Enum):
    """What a SEND to a topic does to the message that the topic keeps for later subscribers."""

    SET = "set"
    REMOVE = "remove"


class Origin(Enum):
    """Where in the log of a topic a subscription begins."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    SEQ = "seq"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """What a SUBSCRIBE asks to be replayed.

    Attributes:
        value: the first seq, or seconds since the epoch.
        header: the name of a header that tells each message's seq; empty: none.
        is_wish: where there is no log, it is as good as not asked.
    """

    origin: Origin
    value: int = 0
    header: str = ""
    is_wish: bool = False


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What a SEND asks beside its destination.  Shared by all SENDs with an equal header block.

    Attributes:
        priority: 0 to 9.
        delay: seconds before it is routed.
        deliver_at: the same as a moment, seconds since the epoch; None: not given.
        time_to_live: seconds until it expires; None: not given.
        expires_at: the same as a moment, seconds since the epoch; None: not given.
        group: messages of one group go to one consumer.
        closes_group: the group's consumer is free again behind this message.
        dedup_id: a second message to the destination with the same id is not routed.
        retain: see `Retain`; None: nothing.
        conflation_key: a waiting message to the destination with the same key is replaced.
        transaction: the transaction it belongs to.
        temporary_reply: `reply-to`, where that names a temporary destination of the session.
        user_id: the sender's name as the sender states it.
        multicast: True: the bare name is a topic's; False: a queue's; None: not given.
        persistent: it is to outlive the process.
        hints: for a queue that comes into being with it.
        passed_on: the headers that subscribers see, where some only steer the broker; None: all of them.
    """

    priority: int = 4
    delay: float = 0.0
    deliver_at: float | None = None
    time_to_live: float | None = None
    expires_at: float | None = None
    group: str | None = None
    closes_group: bool = False
    dedup_id: str | None = None
    retain: Retain | None = None
    conflation_key: str | None = None
    transaction: str | None = None
    temporary_reply: str | None = None
    user_id: str | None = None
    multicast: bool | None = None
    persistent: bool = False
    hints: ClientArguments | None = None
    passed_on: Mapping[str, str] | None = None


PLAIN = SendOptions()
"""Of a SEND that asks nothing: most of them."""

PERSISTENT = SendOptions(persistent=True)
"""Of a SEND that asks for nothing but to be stored."""


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """What a SUBSCRIBE asks beside destination, id and ack mode.

    Attributes:
        prefetch: unacknowledged messages at most; None: the server's default; 0: as many as bytes allow.
        prefetch_bytes: unacknowledged bytes at most; None: the server's default; 0: as many as messages allow.
            (Where both are 0, the session's memory is the limit.)
        priority: consumers of higher priority get messages first, as long as they have room.
        exclusive: the only consumer that gets messages; others stand by.
        no_local: not the session's own messages.
        selector: only messages that it takes; None: all.
        selector_text: its source; equal texts are equal selectors.
        browser: read what waits without consuming it.
        browser_end: the browser ends with what waits; else it goes on with what comes.
        slow_messages: messages that wait for a topic's subscriber at most; None: the policy's.
        multicast: True: the bare name is a topic's; False: a queue's; None: not given.
        durable: it is to outlive its connection.
        durable_name: the same, under that name and the session's client-id; empty: not given.
        queue_name: its messages are shared by all that give this name; empty: not given.
        start: what is replayed first; None: nothing.
        resume: it goes on where the last one of that name was; empty: not given.
        include_seq: the name of a header that tells each message's seq; empty: none.
        hints: for a queue that comes into being with it.
    """

    prefetch: int | None = None
    prefetch_bytes: int | None = None
    priority: int = 0
    exclusive: bool = False
    no_local: bool = False
    selector: Selector | None = None
    selector_text: str = ""
    browser: bool = False
    browser_end: bool = True
    slow_messages: int | None = None
    multicast: bool | None = None
    durable: bool = False
    durable_name: str = ""
    queue_name: str = ""
    start: Start | None = None
    resume: str = ""
    include_seq: str = ""
    hints: ClientArguments | None = None


NO_OPTIONS = SubscribeOptions()
