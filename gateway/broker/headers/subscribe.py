"""Rows of SUBSCRIBE; its queue arguments stand with SEND."""

from functools import partial

from . import values
from .row import ACTIVEMQ, AMQP, APOLLO, ARTEMIS, RABBITMQ, Spelling, honoured, refused, without_effect

_FRAMES = ("SUBSCRIBE",)
_honoured, _refused = partial(honoured, _FRAMES), partial(refused, _FRAMES)
_without_effect = partial(without_effect, _FRAMES)


def _bytes(number: int) -> tuple[int, int | None]:
    """Window of Artemis, as messages and bytes."""
    # A consumer of Artemis with a window of 0 buffers nothing: it has one message at a time.
    return (1, None) if number == 0 else (0, max(number, 0))


MODES = values.Choice(
    {mode: mode for mode in ("auto", "client", "client-individual")}, {"none": ("auto", APOLLO)}, any_case=False
)
"""The `ack` of SUBSCRIBE."""
_COUNT = values.Integer(0, values.MAX_COUNT, "messages", "; 0 sets no limit", lambda number: (number, None))
# From 1: in ActiveMQ 0 is for consumers that pull, and STOMP has no frame for that.
_PREFETCH_SIZE = values.Integer(1, values.MAX_COUNT, "messages", convert=lambda number: (number, None))
_WINDOW = values.Integer(-1, values.MAX_COUNT, "bytes", "; -1 sets no limit, 0 means one message at a time", _bytes)
# ActiveMQ's -1 is "no limit", and its 0 "keep nothing"; neither is the client's to say here.
_PENDING = values.Integer(
    -1, values.MAX_COUNT, "messages", "; at -1 and 0 the policy decides", lambda number: max(number, 0) or None
)
_RANK = values.Integer(-(2**31), 2**31 - 1)

_NOT_STREAMED = "Here topics keep streams; filter with `selector`."


SUBSCRIBE = (
    _honoured(
        "The destination; for topics it may be a pattern.", Spelling("destination", values.Anything("a destination"))
    ),
    _honoured(
        "The name of the subscription, unique in the session. Optional in 1.0, and with the setting `lenient`.",
        Spelling("id"),
    ),
    _honoured(
        "The mode of acknowledgement. Default: auto.",
        Spelling("ack", MODES),
    ),
    _honoured("Asks for a RECEIPT when the subscription exists; its messages follow the RECEIPT.", Spelling("receipt")),
    _honoured(
        "The limit of unacknowledged messages.",
        Spelling("prefetch-count", _COUNT, "window", RABBITMQ),
        # Both brokers read that name; the unit is ActiveMQ's, whose name it is.
        Spelling("activemq.prefetchSize", _PREFETCH_SIZE, "window", ACTIVEMQ),
        Spelling("consumer-window-size", _WINDOW, "window", ARTEMIS),
        Spelling("credit", values.Credit(), "window", APOLLO),
        Spelling("x-prefetch", _COUNT, "window", AMQP),
    ),
    _honoured(
        "Only messages that match the [selector](selectors.md) are delivered.",
        Spelling("selector", values.Anything("a condition of JMS, or empty for none"), "text"),
    ),
    # On a queue it cannot be kept: a message that its only consumer may not have would wait for ever.
    _honoured(
        "Messages of the session itself are not delivered to it. On a queue it is an ERROR.",
        Spelling("no-local", values.BOOLEAN, "no_local", ARTEMIS),
        Spelling("activemq.noLocal", values.BOOLEAN, "no_local", ACTIVEMQ),
    ),
    _honoured(
        "Only this consumer of the queue gets messages; the others stand by. On a topic it has no effect.",
        Spelling("exclusive", values.BOOLEAN, "exclusive", APOLLO),
        Spelling("activemq.exclusive", values.BOOLEAN, "exclusive", ACTIVEMQ),
    ),
    _honoured(
        "Consumers of higher priority get messages first, as long as they have room. Default: 0.",
        Spelling("x-priority", _RANK, "priority", RABBITMQ),
        Spelling("activemq.priority", _RANK, "priority", ACTIVEMQ),
    ),
    # A browse takes no message, so there is nothing to acknowledge: the mode must be auto.
    _honoured(
        "Reads waiting messages without consuming them; a MESSAGE with browser:end comes last. The ack mode must be "
        "auto. On a topic it is an ERROR.",
        Spelling("browser", values.BOOLEAN, "browser", ACTIVEMQ),
    ),
    _honoured(
        "false: the browser goes on with new messages.",
        Spelling("browser-end", values.BOOLEAN, "browser_end", APOLLO),
    ),
    _honoured(
        "Whether a name without a prefix is a queue (ANYCAST, the default) or a topic.",
        Spelling("subscription-type", values.ROUTING, "multicast", ARTEMIS),
        Spelling("destination-type", values.ROUTING, "multicast", ARTEMIS),
    ),
    _honoured(
        "Messages of a topic that may wait for a slow subscriber.",
        Spelling("activemq.maximumPendingMessageLimit", _PENDING, "slow_messages", ACTIVEMQ),
    ),
    _without_effect(
        "The gateway never waits for a consumer.",
        Spelling("activemq.dispatchAsync", broker=ACTIVEMQ),
    ),
    _without_effect(
        "The gateway passes on the bytes of a body.",
        Spelling("transformation", broker=ACTIVEMQ),
    ),
    # RabbitMQ knows such a subscription by its id and not by a client-id: so must programs that come from there.
    _honoured(
        "A [durable subscription](semantics.md#durable-and-shared-subscriptions) of the user and the `id`: messages "
        "to the topic wait while no session is subscribed. On a queue it has no effect.",
        Spelling("durable", values.BOOLEAN, "durable", RABBITMQ),
        Spelling("persistent", values.BOOLEAN, "durable", f"{RABBITMQ}, {APOLLO}"),
    ),
    # JMS knows it by client-id and name.  The names are kept for good, so they are short.
    _honoured(
        "The same, of that name, the user and the `client-id` of CONNECT. The session that subscribed last has it.",
        Spelling("durable-subscription-name", values.Text(255), "durable_name", ARTEMIS),
        Spelling("durable-subscriber-name", values.Text(255), "durable_name", ARTEMIS),
        Spelling("activemq.subscriptionName", values.Text(255), "durable_name", ACTIVEMQ),
    ),
    _honoured(
        "Subscriptions with the same name share the messages of the topic; with `durable:true` messages wait for them.",
        Spelling("x-queue-name", values.Text(255), "queue_name", RABBITMQ),
    ),
    # Refused where nothing is kept: the program would take silence for "no messages".
    _honoured(
        "The position in the topic's stream from which messages are [replayed](replay.md#numbers-and-starting-points).",
        Spelling("from-seq", values.FROM_SEQ, "start", APOLLO),
        Spelling("x-stream-offset", values.StreamOffset(), "start", RABBITMQ),
        Spelling("activemq.retroactive", values.RETROACTIVE, "start", ACTIVEMQ),
    ),
    # In mode auto nothing is acknowledged, so there is no position to keep.
    _honoured(
        "Replay begins after the last message that was acknowledged [under this name](replay.md#named-resume).",
        Spelling("resume", values.Text(255), "resume"),
    ),
    _honoured(
        "A header for the number of each message, on a topic with a stream or on a queue.",
        Spelling("include-seq", values.HeaderName(), "include_seq", APOLLO),
    ),
    # All watchers of the topic's presence get it with each list.
    _honoured(
        "What the topic's [presence](presence.md) tells of the user, like its name for people. Elsewhere it has no "
        "effect.",
        Spelling("presence-info", values.Text(1_000), "presence_info"),
    ),
    # Refused and not ignored: the program would get messages that it has asked to be left out.
    _refused(
        _NOT_STREAMED,
        Spelling("x-stream-filter", broker=RABBITMQ),
        Spelling("x-stream-match-unfiltered", broker=RABBITMQ),
    ),
)
