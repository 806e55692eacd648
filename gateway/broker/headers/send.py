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
_RETAIN = values.Choice({"set": Retain.SET, "remove": Retain.REMOVE, "false": None}, aliases={"true": ("set", APOLLO)})
_RETAIN_FLAG = values.Choice({"true": Retain.SET, "false": None})
# RabbitMQ's own exchanges, whose letter case counts.  The empty name is the one that routes to a queue by its name.
_EXCHANGES = values.Choice({"": QUEUE, "amq.topic": TOPIC, "amq.direct": DIRECT, "amq.fanout": FANOUT}, any_case=False)


def _passed_on(name: str, meaning: str, broker: str = "") -> HeaderRow:
    return HeaderRow(_FRAMES, (Spelling(name, broker=broker),), Treatment.PASSED_ON, meaning)


def _of_the_server(name: str, meaning: str) -> HeaderRow:
    # Cut and not refused: a program may send on what it got.  But receivers must not take a sender's for the server's.
    return _without_effect(meaning, Spelling(name), visible=False)


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
        "Messages of higher priority overtake others in a queue. Without the header it is 4.",
        Spelling("priority", _PRIORITY, "priority"),
    ),
    _honoured(
        "The moment at which the message expires; the aliases give a time from now on. A time of 1 delivers the "
        "message only if a consumer is ready. MESSAGE always has the moment as `expires`.",
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
        "Messages of one group go to one consumer of the queue, as long as it is subscribed.",
        Spelling("JMSXGroupID", values.KEY, "group", ACTIVEMQ),
        Spelling("message_group", values.KEY, "group", APOLLO),
        Spelling("_AMQ_GROUP_ID", values.KEY, "group", ARTEMIS),
        also_canonical=True,  # consumers look for JMS's name, whatever the sender calls it
    ),
    _honoured(
        "-1 closes the group after this message: its next message may go to another consumer. Other numbers have no "
        "effect.",
        Spelling("JMSXGroupSeq", _SEQUENCE, "closes_group", ACTIVEMQ),
    ),
    # Never empty: all messages with an empty id would be one.
    _honoured(
        "A second message to the destination with the same id is not routed. Its sender gets the RECEIPT.",
        Spelling("dedup-id", values.UNIQUE, "dedup_id"),
        Spelling("_AMQ_DUPL_ID", values.UNIQUE, "dedup_id", ARTEMIS),
        visible=False,
    ),
    _honoured(
        "set: the topic keeps the message for later subscribers, in place of the one before. remove: the topic keeps "
        "none. For queues, temporary and user destinations the header is an ERROR.",
        Spelling("retain", _RETAIN, "retain", APOLLO),
        Spelling("ActiveMQ.Retain", _RETAIN_FLAG, "retain", ACTIVEMQ),
        visible=False,
    ),
    # Visible: consumers need the key to know what the value is of.
    _honoured(
        "The message replaces a waiting message to the same destination with the same value of this header.",
        Spelling("_AMQ_LVQ_NAME", values.KEY, "conflation_key", ARTEMIS),
    ),
    _honoured(
        "Whether a destination without a prefix is a queue (ANYCAST) or a topic (MULTICAST). Without the header it "
        "is a queue.",
        Spelling("destination-type", values.ROUTING, "multicast", ARTEMIS),
        visible=False,
    ),
    _honoured(
        "The destination of the answer. A temporary destination of the session is subscribed, and receivers see a name "
        "to which they can send. Any other destination is passed on unchanged.",
        Spelling("reply-to", values.ReplyTo(), "temporary_reply"),
    ),
    # Refused where it is wrong, and not replaced: see `Session._send_specially`.
    _honoured(
        "The sender; it must be the name that the session logged in with.",
        Spelling("user-id", values.Anything("a user's name"), field="user_id"),
    ),
    _without_effect(
        "Receivers of ActiveMQ trust it, because that broker writes it. Use `user-id`, which the gateway verifies.",
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
        "RabbitMQ reads it as an argument of the queue. To make a message durable, send `persistent:true`, or set the "
        "policy of its destination.",
        Spelling("durable", broker=RABBITMQ),
        visible=False,
    ),
    _without_effect(
        "The gateway passes on the bytes of a body; it does not turn them into Java objects.",
        Spelling("transformation", broker=ACTIVEMQ),
    ),
    _passed_on("content-type", "The media type of the body."),
    _passed_on("content-encoding", "The compression of the body.", RABBITMQ),
    _passed_on("correlation-id", "The request to which an answer belongs."),
    _passed_on("type", "The kind of message."),
    _passed_on("timestamp", "The time of sending, by the sender's clock."),
    _passed_on("app-id", "The program that sent the message.", RABBITMQ),
    _passed_on("amqp-message-id", "The sender's own id of the message.", RABBITMQ),
    _passed_on("amq-msg-type", "text or bytes, for consumers of ActiveMQ; the gateway does not use it.", ACTIVEMQ),
    _of_the_server("message-id", "The server gives each message its own."),
    _of_the_server("subscription", "The server names the subscription of each MESSAGE."),
    _of_the_server("ack", "The server gives each delivery the id for its ACK."),
    _of_the_server("redelivered", "The server marks messages that it may have delivered before."),
    _of_the_server("delivery-count", "The server counts the deliveries."),
    _of_the_server("browser", "The server ends a browse with browser:end."),
    _of_the_server("receipt-id", "It belongs to the server's RECEIPT and ERROR."),
    _of_the_server("seq", "The server numbers the messages of a topic with a stream."),
    _of_the_server("gap", "The server marks where a replay lacks messages."),
    _of_the_server("first-seq", "The server gives the number at which a replay goes on after a gap."),
    _of_the_server("retained", "The server marks retained messages."),
    _of_the_server("dlq-reason", "The server gives the reason of a dead letter."),
    _of_the_server("dlq-source", "The server gives the destination that a dead letter comes from."),
    _of_the_server("dlq-attempts", "The server counts the failed attempts of a dead letter."),
    _of_the_server("dlq-first-at", "The server gives the time at which a dead letter first failed."),
    _of_the_server("original-destination", "The server gives the destination of the SEND of a dead letter."),
    # Refused: a program that relies on repetition would notice only much later that nothing is repeated.
    _refused(
        "The gateway delivers a message once: it has delays, and no schedules.",
        Spelling("AMQ_SCHEDULED_REPEAT", broker=ACTIVEMQ, passes=("0", "")),
    ),
    _refused(
        "The gateway delivers a message once: it has delays, and no schedules.",
        Spelling("AMQ_SCHEDULED_PERIOD", broker=ACTIVEMQ, passes=("0", "")),
    ),
    _refused(
        "The gateway delivers a message once: it has delays, and no schedules.",
        Spelling("AMQ_SCHEDULED_CRON", broker=ACTIVEMQ, passes=("",)),
    ),
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
        "The queue is deleted with its last subscriber, and so are the messages that wait in it.",
        Spelling("auto-delete", values.BOOLEAN, "auto_delete", RABBITMQ),
    ),
    _argument(
        "The time that a message may wait in the queue, unless the message has its own.",
        Spelling("x-message-ttl", values.LIFETIME, "time_to_live", RABBITMQ),
    ),
    _argument(
        "The time that the queue is kept without subscribers. Then it is deleted with the messages that wait in it.",
        Spelling("x-expires", values.IDLE, "idle_timeout", RABBITMQ),
    ),
    # RabbitMQ's default is to drop the oldest; a limit of the operator has a `when_full` that goes before it.
    _argument(
        "The number of messages that may wait in the queue. A new message replaces the oldest, unless the policy has a "
        "limit: then the policy decides (when_full).",
        Spelling("x-max-length", values.MESSAGES, "max_messages", RABBITMQ),
    ),
    _argument(
        "The bytes that waiting messages may cost, headers included; otherwise like x-max-length.",
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
        "The destination of the queue's dead letters, together with x-dead-letter-routing-key KEY. Empty is "
        "/queue/KEY, amq.topic is /topic/KEY, amq.direct is /exchange/amq.direct/KEY, amq.fanout is "
        "/exchange/amq.fanout and needs no KEY. There are no other exchanges here.",
        Spelling("x-dead-letter-exchange", _EXCHANGES, "dead_letter_prefix", RABBITMQ),
    ),
    _argument(
        "The KEY of x-dead-letter-exchange. Each needs the other, except for amq.fanout: RabbitMQ would take the name "
        "of the queue, and dead letters would return to it.",
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
