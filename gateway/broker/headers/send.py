"""Rows of SEND, and of the queue arguments that SEND and SUBSCRIBE share."""

from functools import partial

from ..model.destinations import DIRECT, FANOUT, QUEUE, TOPIC
from ..model.options import Retain
from . import values
from .row import ACTIVEMQ, APOLLO, ARTEMIS, RABBITMQ, HeaderRow, Spelling, Treatment, honoured, refused, without_effect

_FRAMES = ("SEND",)
_honoured, _refused = partial(honoured, _FRAMES), partial(refused, _FRAMES)
_without_effect = partial(without_effect, _FRAMES)

# JMS has ten levels, and so has a queue; RabbitMQ's programs send up to 255.
_PRIORITY = values.Integer(0, 255, note="; above 9 it counts as 9", convert=lambda number: min(number, 9))
# Only -1 means something to ActiveMQ; by the other numbers programs count the messages of a group.
_SEQUENCE = values.Integer(-(2**31), 2**31 - 1, convert=lambda number: number == -1)
# Programs for ActiveMQ set 0 where they want none.
_PERIOD = values.Integer(0, 31_536_000_000, "milliseconds", convert=lambda number: number / 1000)
_REPEAT = values.Integer(-1, 1_000_000_000)
_RETAIN = values.Choice({"set": Retain.SET, "remove": Retain.REMOVE, "false": None}, aliases={"true": ("set", APOLLO)})
_RETAIN_FLAG = values.Choice({"true": Retain.SET, "false": None})
# RabbitMQ's own exchanges, whose letter case counts.  The empty name is the one that routes to a queue by its name.
_EXCHANGES = values.Choice({"": QUEUE, "amq.topic": TOPIC, "amq.direct": DIRECT, "amq.fanout": FANOUT}, any_case=False)


_SERVER_HEADERS = (
    "message-id subscription ack redelivered delivery-count browser receipt-id seq gap first-seq retained dlq-reason "
    "dlq-source dlq-attempts dlq-first-at original-destination"
).split()


def _passed_on(name: str, broker: str = "") -> HeaderRow:
    meaning = "Subscribers get it unchanged."
    return HeaderRow(_FRAMES, (Spelling(name, broker=broker),), Treatment.PASSED_ON, meaning)


def _of_the_server(name: str) -> HeaderRow:
    # Cut and not refused: a program may send on what it got.  But receivers must not take a sender's for the server's.
    return _without_effect("Only the server sets it; subscribers do not see a sender's.", Spelling(name), visible=False)


def _argument(meaning: str, *spellings: Spelling, treatment: Treatment = Treatment.HONOURED) -> HeaderRow:
    return HeaderRow(("SEND", "SUBSCRIBE"), spellings, treatment, meaning, visible=False, argument=True)


SEND = (
    # No field: the session reads it for each SEND, before it knows if there are options.
    _honoured("The destination of the message.", Spelling("destination", values.Anything("a destination"))),
    # The decoder reads it: it tells where the frame ends.
    _honoured(
        "The length of the body in bytes. MESSAGE always has it.",
        Spelling("content-length", values.Anything("a whole number of bytes")),
    ),
    # Without a field: nearly each receipt is another one, and would make options of its own for each SEND.
    _honoured(
        "Asks for a RECEIPT when the SEND is carried out, or accepted into its transaction.",
        Spelling("receipt"),
        visible=False,
    ),
    _honoured(
        "The transaction that the message belongs to.",
        Spelling("transaction", values.Anything("a transaction"), field="transaction"),
        visible=False,
    ),
    # 4 is the default of JMS.
    _honoured(
        "Messages of higher priority overtake others in a queue. Default: 4.",
        Spelling("priority", _PRIORITY, "priority"),
    ),
    _honoured(
        "The moment at which the message expires. The aliases give a time from now on; 1 needs a ready consumer.",
        Spelling("expires", values.EXPIRY, "expires_at"),
        Spelling("expiration", values.LIFETIME, "time_to_live", RABBITMQ),
        Spelling("ttl", values.LIFETIME, "time_to_live", APOLLO),
    ),
    # Cut, as all that only steers the broker: a program that sends on what it got would delay it once more.
    _honoured(
        "The message is routed after that time, or at that moment.",
        Spelling("x-delay", values.DELAY, "delay", RABBITMQ),
        Spelling("AMQ_SCHEDULED_DELAY", values.DELAY, "delay", ACTIVEMQ),
        Spelling("AMQ_SCHEDULED_TIME", values.MOMENT, "deliver_at", ARTEMIS),
        Spelling("_AMQ_SCHED_DELIVERY", values.MOMENT, "deliver_at", ARTEMIS),
        visible=False,
    ),
    _honoured(
        "The message is sent at each moment of that [calendar](schedules.md).",
        Spelling("AMQ_SCHEDULED_CRON", values.Text(200), "cron", ACTIVEMQ),
        visible=False,
    ),
    _honoured(
        "The time zone of the calendar, as IANA names it. Default: UTC.",
        Spelling("schedule-timezone", values.Text(80), "timezone"),
        visible=False,
    ),
    _honoured(
        "The time between repetitions of a [schedule](schedules.md).",
        Spelling("AMQ_SCHEDULED_PERIOD", _PERIOD, "period", ACTIVEMQ),
        visible=False,
    ),
    _honoured(
        "How often the message is sent again behind the first time; -1: for ever.",
        Spelling("AMQ_SCHEDULED_REPEAT", _REPEAT, "repeat", ACTIVEMQ),
        visible=False,
    ),
    _honoured(
        "Messages of one group go to one consumer of the queue.",
        Spelling("JMSXGroupID", values.KEY, "group", ACTIVEMQ),
        Spelling("message_group", values.KEY, "group", APOLLO),
        Spelling("_AMQ_GROUP_ID", values.KEY, "group", ARTEMIS),
        also_canonical=True,  # consumers look for JMS's name, whatever the sender calls it
    ),
    _honoured(
        "-1 closes the group after this message.",
        Spelling("JMSXGroupSeq", _SEQUENCE, "closes_group", ACTIVEMQ),
    ),
    # Never empty: all messages with an empty id would be one.
    _honoured(
        "A second message with the same id is not routed.",
        Spelling("dedup-id", values.UNIQUE, "dedup_id"),
        Spelling("_AMQ_DUPL_ID", values.UNIQUE, "dedup_id", ARTEMIS),
        visible=False,
    ),
    _honoured(
        "The topic keeps the message for later subscribers, or (remove) none. For other destinations it is an ERROR.",
        Spelling("retain", _RETAIN, "retain", APOLLO),
        Spelling("ActiveMQ.Retain", _RETAIN_FLAG, "retain", ACTIVEMQ),
        visible=False,
    ),
    # Visible: consumers need the key to know what the value is of.
    _honoured(
        "The message replaces a waiting message with the same value.",
        Spelling("_AMQ_LVQ_NAME", values.KEY, "conflation_key", ARTEMIS),
    ),
    _honoured(
        "Whether a name without a prefix is a queue (ANYCAST, the default) or a topic.",
        Spelling("destination-type", values.ROUTING, "multicast", ARTEMIS),
        visible=False,
    ),
    _honoured(
        "The destination of the answer. A temporary destination of the session is subscribed.",
        Spelling("reply-to", values.ReplyTo(), "temporary_reply"),
    ),
    # Cut: a program that sends on what it got does not ask for an answer once more.
    _honoured(
        "The message needs a consumer. If there is none, or the message expires, the sender is "
        "[told](semantics.md#requests-that-fail-at-once) at `reply-to`.",
        Spelling("mandatory", values.BOOLEAN, "mandatory"),
        visible=False,
    ),
    # Refused where it is wrong, and not replaced: see `Session._send_specially`.
    _honoured(
        "The sender; it must be the session's login.",
        Spelling("user-id", values.Anything("a user's name"), field="user_id"),
    ),
    _without_effect(
        "Use `user-id`, which the gateway verifies.",
        Spelling("JMSXUserID", broker=ACTIVEMQ),
        visible=False,
    ),
    # Visible: selectors read it as JMSDeliveryMode.
    _honoured(
        "The message outlives the server's process, if the server has a store and the destination's policy does not "
        "forbid it. Its RECEIPT comes when it is stored. With `false` a durable subscription does not store it, unless "
        "the policy says otherwise.",
        Spelling("persistent", values.BOOLEAN, "persistent"),
    ),
    _without_effect(
        "To make a message durable, send `persistent:true`, or write a policy.",
        Spelling("durable", broker=RABBITMQ),
        visible=False,
    ),
    _without_effect(
        "The gateway passes on the bytes of a body.",
        Spelling("transformation", broker=ACTIVEMQ),
    ),
    *map(_passed_on, ("content-type", "correlation-id", "type", "timestamp")),
    *(_passed_on(name, RABBITMQ) for name in ("content-encoding", "app-id", "amqp-message-id")),
    _passed_on("amq-msg-type", ACTIVEMQ),
    *map(_of_the_server, _SERVER_HEADERS),
    _refused(
        "In RabbitMQ it creates a queue for this connection alone; here all clients share a queue.",
        Spelling("exclusive", broker=RABBITMQ, passes=("false",)),
    ),
    _refused(
        "Here topics keep streams; filter with the header `selector` of SUBSCRIBE.",
        Spelling("x-stream-filter-value", broker=RABBITMQ),
    ),
)

ARGUMENTS = (
    _argument(
        "The queue and its messages are deleted with its last subscriber.",
        Spelling("auto-delete", values.BOOLEAN, "auto_delete", RABBITMQ),
    ),
    _argument(
        "The time that a message without its own may wait.",
        Spelling("x-message-ttl", values.LIFETIME, "time_to_live", RABBITMQ),
    ),
    _argument(
        "The time that the queue and its messages are kept without subscribers.",
        Spelling("x-expires", values.IDLE, "idle_timeout", RABBITMQ),
    ),
    # RabbitMQ's default is to drop the oldest; a limit of the operator has a `when_full` that goes before it.
    _argument(
        "The number of messages that may wait. A new message replaces the oldest, unless the policy has a limit with "
        "its own `when_full`.",
        Spelling("x-max-length", values.MESSAGES, "max_messages", RABBITMQ),
    ),
    _argument(
        "The bytes that waiting messages may cost, headers included; otherwise the same.",
        Spelling("x-max-length-bytes", values.BYTES, "max_bytes", RABBITMQ),
    ),
    # Any other way could hold up or refuse publishers, which a client may not decide for all others.
    _argument(
        "At a limit that a client sets, the oldest message is dropped; an operator can choose otherwise by policy "
        "(when_full).",
        Spelling("x-overflow", broker=RABBITMQ, passes=("drop-head",)),
        treatment=Treatment.REFUSED,
    ),
    _argument(
        "With the next header, KEY, the destination of dead letters: /queue/KEY, /topic/KEY, /exchange/amq.direct/KEY "
        "or /exchange/amq.fanout, which needs no KEY.",
        Spelling("x-dead-letter-exchange", _EXCHANGES, "dead_letter_prefix", RABBITMQ),
    ),
    _argument(
        "The KEY of x-dead-letter-exchange. Each needs the other.",
        Spelling("x-dead-letter-routing-key", values.NAME, "dead_letter_key", RABBITMQ),
    ),
    _argument(
        "All queues have the ten levels of priority.",
        Spelling("x-max-priority", broker=RABBITMQ),
        treatment=Treatment.WITHOUT_EFFECT,
    ),
    # Both that pass are queues whose messages are consumed; a program that names a stream expects them to stay.
    _argument(
        "There is one kind of queue. Here topics keep streams: see `log_messages` of policies.",
        Spelling("x-queue-type", broker=RABBITMQ, passes=("classic", "quorum")),
        treatment=Treatment.REFUSED,
    ),
    _argument(
        "Here topics keep streams: see `log_age` and `log_bytes` of policies.",
        Spelling("x-max-age", broker=RABBITMQ),
        Spelling("x-stream-max-segment-size-bytes", broker=RABBITMQ),
        Spelling("x-stream-filter-size-bytes", broker=RABBITMQ),
        treatment=Treatment.REFUSED,
    ),
)
