"""Options of a frame: `SendOptions` of a SEND, `SubscribeOptions` of a SUBSCRIBE.

`headers/parse.py` makes them, in the units of this broker.  Code behind this module knows no header by its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from .policy import QueueArguments

Selector = Callable[[Mapping[str, str]], bool | None]
"""True for the headers of a message that the selector takes; None: unknown, and the message is not taken."""


class AckMode(Enum):
    """The `ack` header of SUBSCRIBE."""

    AUTO = "auto"
    CLIENT = "client"
    INDIVIDUAL = "client-individual"


class Retain(Enum):
    """Effect of a SEND on the message that its topic keeps for later subscribers."""

    SET = "set"
    REMOVE = "remove"


class Origin(Enum):
    """Kind of position in the stream of a topic."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    SEQ = "seq"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """Position in the stream of a topic from which a SUBSCRIBE asks for replay."""

    origin: Origin
    value: int = 0  # the first seq, or seconds since the epoch
    header: str = ""  # the name of a header that tells each message's seq; empty: none
    is_optional: bool = False  # a topic without a stream ignores the request instead of refusing it


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Options of a SEND.  All SENDs with an equal header block share one object."""

    priority: int = 4  # 0 to 9
    delay: float = 0.0  # seconds before it is routed
    deliver_at: float | None = None  # the moment at which it is routed, seconds since the epoch; None: not given
    cron: str | None = None  # the calendar by which it is sent again and again; None: none
    timezone: str | None = None  # of the calendar; None: UTC
    period: float = 0.0  # seconds between repetitions
    repeat: int = 0  # repetitions behind the first message; -1: for ever
    time_to_live: float | None = None  # seconds until it expires; None: not given
    expires_at: float | None = None  # the moment at which it expires, seconds since the epoch; None: not given
    group: str | None = None  # messages of one group go to one consumer
    closes_group: bool = False  # the group may go to another consumer after this message
    dedup_id: str | None = None  # a second message to the destination with the same id is not routed
    retain: Retain | None = None  # the effect on the retained message; None: none
    conflation_key: str | None = None  # a waiting message to the destination with the same key is replaced
    mandatory: bool = False  # if there is no consumer, its sender is told and it is not routed
    transaction: str | None = None  # the transaction it belongs to
    temporary_reply: str | None = None  # `reply-to`, where that names a temporary destination of the session
    user_id: str | None = None  # the sender's name as the sender states it
    multicast: bool | None = None  # True: the bare name is a topic's; False: a queue's; None: not given
    persistent: bool | None = None  # it is to outlive the process; None: not given
    queue_arguments: QueueArguments | None = None  # arguments for the queue that the SEND creates; None: none
    # the headers that subscribers see, where some only steer the broker; None: all of them
    passed_on: Mapping[str, str] | None = None
    # True of `PLAIN`, `PERSISTENT` and `TRANSIENT` alone, and routing reads it once per message: readers of headers
    # return those objects, so that no message pays for a comparison of all fields
    is_plain: bool = field(init=False, default=False, compare=False, repr=False)

    @property
    def is_delayed(self) -> bool:
        """True if it is to wait for its time."""
        return self.delay > 0 or self.period > 0 or self.deliver_at is not None or self.is_scheduled

    @property
    def is_scheduled(self) -> bool:
        """True if it is sent more than once."""
        return self.cron is not None or self.repeat != 0


PLAIN = SendOptions()
"""Options of a SEND without any, as most are."""

PERSISTENT = SendOptions(persistent=True)
"""Options of a SEND that is to be stored, and asks for nothing else."""

TRANSIENT = SendOptions(persistent=False)
"""Options of a SEND that is not to be stored, and asks for nothing else."""

_PLAIN_ONES = (PLAIN, PERSISTENT, TRANSIENT)
for _each in _PLAIN_ONES:
    object.__setattr__(_each, "is_plain", True)  # frozen; and a copy by `replace` is not plain


def shared(options: SendOptions) -> SendOptions:
    """`PLAIN`, `PERSISTENT` or `TRANSIENT` itself, if the options are equal to one of them."""
    return next((each for each in _PLAIN_ONES if each == options), options)


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """Options of a SUBSCRIBE, beside destination, id and ack mode."""

    # unacknowledged messages at most; None: the server's default; 0: as many as bytes allow
    prefetch: int | None = None
    # unacknowledged bytes at most; None: the server's default; 0: as many as messages allow. (If both are 0, the
    # session's memory is the limit.)
    prefetch_bytes: int | None = None
    priority: int = 0  # consumers of higher priority get messages first, as long as they have room
    exclusive: bool = False  # the only consumer that gets messages; others stand by
    no_local: bool = False  # the session's own messages are left out
    selector: Selector | None = None  # decides which messages are delivered; None: all
    selector_text: str = ""  # its source; equal texts are equal selectors
    browser: bool = False  # read what waits without consuming it
    browser_end: bool = True  # the browser ends with what waits; else it goes on with what comes
    slow_messages: int | None = None  # messages that wait for a topic's subscriber at most; None: the policy's
    multicast: bool | None = None  # True: the bare name is a topic's; False: a queue's; None: not given
    durable: bool = False  # it is to outlive its connection
    durable_name: str = ""  # the name of a subscription that outlives its connection, beside the client-id; empty: none
    queue_name: str = ""  # subscriptions of one such name share their messages; empty: not given
    start: Start | None = None  # where replay begins; None: no replay
    resume: str = ""  # the name under which its offset is kept; empty: not given
    include_seq: str = ""  # the name of a header that tells each message's seq; empty: none
    queue_arguments: QueueArguments | None = None  # arguments for the queue that the SUBSCRIBE creates; None: none
    presence_info: str = ""  # what the topic's presence tells of the user; empty: not given


NO_OPTIONS = SubscribeOptions()
