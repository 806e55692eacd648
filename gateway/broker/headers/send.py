"""The rows of SEND, and those of queue arguments, which SEND and SUBSCRIBE share."""

from __future__ import annotations

from ..model.destinations import DIRECT, FANOUT, QUEUE, TOPIC
from ..model.options import Retain
from .row import ACTIVEMQ, APOLLO, ARTEMIS, RABBITMQ, HeaderRow, Spelling, Treatment, honoured, refused, without_effect
from .values import (
    BOOLEAN,
    BYTES,
    DELAY,
    EXPIRY,
    IDLE,
    KEY,
    LIFETIME,
    MESSAGES,
    MOMENT,
    NAME,
    ROUTING,
    UNIQUE,
    Anything,
    Choice,
    Integer,
    ReplyTo,
)

_FRAMES = ("SEND",)

_PRIORITY = Integer(0, 255, note="; above 9 it counts as 9", convert=lambda number: min(number, 9))
_SEQUENCE = Integer(-(2**31), 2**31 - 1, convert=lambda number: number == -1)
_RETAIN = Choice({"set": Retain.SET, "remove": Retain.REMOVE, "false": None}, aliases={"true": ("set", APOLLO)})
_RETAIN_FLAG = Choice({"true": Retain.SET, "false": None})
_EXCHANGES = Choice({"": QUEUE, "amq.topic": TOPIC, "amq.direct": DIRECT, "amq.fanout": FANOUT}, any_case=False)


def _passed_on(name: str, meaning: str, broker: str = "") -> HeaderRow:
    return HeaderRow(_FRAMES, (Spelling(name, broker=broker),), Treatment.PASSED_ON, meaning)


def _of_the_server(name: str, meaning: str) -> HeaderRow:
    return without_effect(_FRAMES, meaning, Spelling(name), visible=False)


def _argument(treatment: Treatment, meaning: str, *spellings: Spelling) -> HeaderRow:
    return HeaderRow(("SEND", "SUBSCRIBE"), spellings, treatment, meaning, visible=False, argument=True)


SEND = (
    honoured(
        _FRAMES,
        "Where the message goes.",
        Spelling("destination", Anything("a destination")),
    ),
    honoured(
        _FRAMES,
        "Octets of the body. MESSAGE always has it.",
        Spelling("content-length", Anything("a whole number of octets")),
    ),
    honoured(
        _FRAMES,
        "Asks for a RECEIPT when the SEND is carried out, or is accepted into its transaction.",
        Spelling("receipt"),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "The transaction that the message belongs to.",
        Spelling("transaction", Anything("a transaction"), field="transaction"),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "Messages of higher priority overtake others in a queue. Without the header it is 4.",
        Spelling("priority", _PRIORITY, "priority"),
    ),
    honoured(
        _FRAMES,
        "When the message is no longer worth delivering: a moment, or by an alias a time from now on. A time of 1 is "
        "over unless a consumer is ready. MESSAGE has the moment as `expires`, whatever the SEND used.",
        Spelling("expires", EXPIRY, "expires_at"),
        Spelling("expiration", LIFETIME, "time_to_live", RABBITMQ),
        Spelling("ttl", LIFETIME, "time_to_live", APOLLO),
    ),
    honoured(
        _FRAMES,
        "The message is routed that much later, or at that moment.",
        Spelling("x-delay", DELAY, "delay", RABBITMQ),
        Spelling("AMQ_SCHEDULED_DELAY", DELAY, "delay", ACTIVEMQ),
        Spelling("AMQ_SCHEDULED_TIME", MOMENT, "deliver_at", ARTEMIS),
        Spelling("_AMQ_SCHED_DELIVERY", MOMENT, "deliver_at", ARTEMIS),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "Messages of one group go to one consumer of the queue, as long as it is there.",
        Spelling("JMSXGroupID", KEY, "group", ACTIVEMQ),
        Spelling("message_group", KEY, "group", APOLLO),
        Spelling("_AMQ_GROUP_ID", KEY, "group", ARTEMIS),
        also_canonical=True,
    ),
    honoured(
        _FRAMES,
        "-1 ends the group behind this message: its next one may go to another consumer. Other numbers say nothing.",
        Spelling("JMSXGroupSeq", _SEQUENCE, "closes_group", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "A second message to the destination with the same id is not routed; its RECEIPT comes all the same.",
        Spelling("dedup-id", UNIQUE, "dedup_id"),
        Spelling("_AMQ_DUPL_ID", UNIQUE, "dedup_id", ARTEMIS),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "The topic keeps the message for later subscribers in place of the one before it, or keeps none any more. For "
        "queues, temporary and user destinations it is an ERROR.",
        Spelling("retain", _RETAIN, "retain", APOLLO),
        Spelling("ActiveMQ.Retain", _RETAIN_FLAG, "retain", ACTIVEMQ),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "The message replaces a waiting one to the same destination that has the same value here.",
        Spelling("_AMQ_LVQ_NAME", KEY, "conflation_key", ARTEMIS),
    ),
    honoured(
        _FRAMES,
        "Whether a destination without a prefix is a queue (ANYCAST) or a topic (MULTICAST). Without the header it "
        "is a queue.",
        Spelling("destination-type", ROUTING, "multicast", ARTEMIS),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "Where the answer should go. A temporary destination of the session is subscribed, and receivers see a name "
        "that they can send to; any other is passed on untouched.",
        Spelling("reply-to", ReplyTo(), "temporary_reply"),
    ),
    honoured(
        _FRAMES,
        "The sender, which must be the name that the session logged in with.",
        Spelling("user-id", Anything("a user's name"), field="user_id"),
    ),
    without_effect(
        _FRAMES,
        "Receivers would take it for verified, as it is where ActiveMQ writes it. `user-id` is what is verified here.",
        Spelling("JMSXUserID", broker=ACTIVEMQ),
        visible=False,
    ),
    honoured(
        _FRAMES,
        "The message outlives the server's process, where the server has a store and the destination's policy does not "
        "say otherwise; its RECEIPT comes when it is stored.",
        Spelling("persistent", BOOLEAN, "persistent"),
    ),
    without_effect(
        _FRAMES,
        "RabbitMQ reads this as an argument of the queue. Here `persistent:true` makes the message durable, or the "
        "policy of its destination.",
        Spelling("durable", broker=RABBITMQ),
        visible=False,
    ),
    without_effect(
        _FRAMES,
        "Bodies are octets here, and not turned into objects of Java.",
        Spelling("transformation", broker=ACTIVEMQ),
    ),
    _passed_on("content-type", "What the body is."),
    _passed_on("content-encoding", "How the body is packed.", RABBITMQ),
    _passed_on("correlation-id", "Which request an answer belongs to."),
    _passed_on("type", "The kind of message."),
    _passed_on("timestamp", "When the sender made it."),
    _passed_on("app-id", "Which program sent it.", RABBITMQ),
    _passed_on("amqp-message-id", "The sender's own id of the message.", RABBITMQ),
    _passed_on("amq-msg-type", "text or bytes, for consumers of ActiveMQ; a body is octets here.", ACTIVEMQ),
    _of_the_server("message-id", "The server gives each message its own."),
    _of_the_server("subscription", "The server says which subscription a MESSAGE belongs to."),
    _of_the_server("ack", "The server says by what an ACK names the delivery."),
    _of_the_server("redelivered", "The server says whether it delivered the message before."),
    _of_the_server("delivery-count", "The server counts its attempts."),
    _of_the_server("browser", "browser:end ends a browse, and only the server may say so."),
    _of_the_server("receipt-id", "It belongs to the server's RECEIPT and ERROR."),
    _of_the_server("seq", "The server numbers the messages of a topic with a log."),
    _of_the_server("gap", "The server says where a replay lacks messages."),
    _of_the_server("first-seq", "The server says where a replay goes on behind a gap."),
    _of_the_server("retained", "The server says which message a topic had retained."),
    _of_the_server("dlq-reason", "The server says why a message is a dead letter."),
    _of_the_server("dlq-source", "The server says which destination a dead letter comes from."),
    _of_the_server("dlq-attempts", "The server counts the failed attempts of a dead letter."),
    _of_the_server("dlq-first-at", "The server says when a dead letter first failed."),
    _of_the_server("original-destination", "The server says where a dead letter had been sent to."),
    refused(
        _FRAMES,
        "The gateway delivers a message once: it has delays, and no schedules.",
        Spelling("AMQ_SCHEDULED_REPEAT", broker=ACTIVEMQ, passes=("0", "")),
    ),
    refused(
        _FRAMES,
        "The gateway delivers a message once: it has delays, and no schedules.",
        Spelling("AMQ_SCHEDULED_PERIOD", broker=ACTIVEMQ, passes=("0", "")),
    ),
    refused(
        _FRAMES,
        "The gateway delivers a message once: it has delays, and no schedules.",
        Spelling("AMQ_SCHEDULED_CRON", broker=ACTIVEMQ, passes=("",)),
    ),
    refused(
        _FRAMES,
        "On SEND, RabbitMQ makes a queue with it that is for this connection alone; here a queue is for all.",
        Spelling("exclusive", broker=RABBITMQ, passes=("false",)),
    ),
    refused(
        _FRAMES,
        "What a stream is at RabbitMQ is a topic with a log here, and a SUBSCRIBE's `selector` filters.",
        Spelling("x-stream-filter-value", broker=RABBITMQ),
    ),
)

ARGUMENTS = (
    _argument(
        Treatment.HONOURED,
        "The queue goes with its last subscriber, and what waits in it, too.",
        Spelling("auto-delete", BOOLEAN, "auto_delete", RABBITMQ),
    ),
    _argument(
        Treatment.HONOURED,
        "How long a message may wait in the queue if it says nothing itself.",
        Spelling("x-message-ttl", LIFETIME, "time_to_live", RABBITMQ),
    ),
    _argument(
        Treatment.HONOURED,
        "How long the queue is kept without subscribers; then it goes, with what waits in it.",
        Spelling("x-expires", IDLE, "idle_timeout", RABBITMQ),
    ),
    _argument(
        Treatment.HONOURED,
        "Messages that may wait in the queue. The oldest makes room for the newest, unless the policy has a limit, "
        "too: then what that says happens.",
        Spelling("x-max-length", MESSAGES, "max_messages", RABBITMQ),
    ),
    _argument(
        Treatment.HONOURED,
        "Octets that waiting messages may cost, headers included; else like x-max-length.",
        Spelling("x-max-length-bytes", BYTES, "max_octets", RABBITMQ),
    ),
    _argument(
        Treatment.REFUSED,
        "A limit that a client sets drops the oldest message; other ways are for the operator's policies (when_full).",
        Spelling("x-overflow", broker=RABBITMQ, passes=("drop-head",)),
    ),
    _argument(
        Treatment.HONOURED,
        "With x-dead-letter-routing-key KEY: where dead letters of the queue go. Empty is /queue/KEY, amq.topic is "
        "/topic/KEY, amq.direct is /exchange/amq.direct/KEY, amq.fanout is /exchange/amq.fanout and needs no KEY; "
        "there are no other exchanges here.",
        Spelling("x-dead-letter-exchange", _EXCHANGES, "dead_letter_prefix", RABBITMQ),
    ),
    _argument(
        Treatment.HONOURED,
        "The KEY of x-dead-letter-exchange. Neither goes without the other, but for amq.fanout: RabbitMQ would take "
        "the name of the queue, and dead letters would come back to it.",
        Spelling("x-dead-letter-routing-key", NAME, "dead_letter_key", RABBITMQ),
    ),
    _argument(
        Treatment.WITHOUT_EFFECT,
        "All queues have the ten levels of priority.",
        Spelling("x-max-priority", broker=RABBITMQ),
    ),
    _argument(
        Treatment.REFUSED,
        "There is one kind of queue. What a stream is at RabbitMQ is a topic with a log here: see the policy's "
        "`log_messages`.",
        Spelling("x-queue-type", broker=RABBITMQ, passes=("classic", "quorum")),
    ),
    _argument(
        Treatment.REFUSED,
        "What a stream is at RabbitMQ is a topic with a log here: see the policy's `log_age` and `log_octets`.",
        Spelling("x-max-age", broker=RABBITMQ),
        Spelling("x-stream-max-segment-size-bytes", broker=RABBITMQ),
        Spelling("x-stream-filter-size-bytes", broker=RABBITMQ),
    ),
)
