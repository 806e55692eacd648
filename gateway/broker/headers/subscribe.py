"""The rows of SUBSCRIBE; it has those of queue arguments, too, which stand with SEND."""

from __future__ import annotations

from .row import ACTIVEMQ, AMQP, APOLLO, ARTEMIS, RABBITMQ, Spelling, honoured, refused, without_effect
from .values import (
    BOOLEAN,
    FROM_SEQ,
    MOST,
    RETROACTIVE,
    ROUTING,
    Anything,
    Choice,
    Credit,
    HeaderName,
    Integer,
    StreamOffset,
    Text,
)

_FRAMES = ("SUBSCRIBE",)


def _messages(number: int) -> tuple[int, None]:
    return number, None


def _bytes(number: int) -> tuple[int, int | None]:
    """Artemis' window, as messages and bytes."""
    return (1, None) if number == 0 else (0, max(number, 0))


def _limit(number: int) -> int | None:
    return max(number, 0) or None


MODES = Choice(
    {mode: mode for mode in ("auto", "client", "client-individual")}, {"none": ("auto", APOLLO)}, any_case=False
)
"""The `ack` of SUBSCRIBE."""
_COUNT = Integer(0, MOST, "messages", "; 0 sets no limit", _messages)
_PREFETCH_SIZE = Integer(1, MOST, "messages", convert=_messages)
_WINDOW = Integer(-1, MOST, "octets", "; -1 sets no limit, 0 is one message at a time", _bytes)
_PENDING = Integer(-1, MOST, "messages", "; -1 and 0 leave it to the policy", _limit)
_RANK = Integer(-(2**31), 2**31 - 1)

_NOT_STREAMED = "What a stream is at RabbitMQ is a topic with a log here, and `selector` filters."


SUBSCRIBE = (
    honoured(
        _FRAMES,
        "What is subscribed; for topics, it may be a pattern.",
        Spelling("destination", Anything("a destination")),
    ),
    honoured(
        _FRAMES,
        "The name of the subscription, unique in the session; 1.0 may leave it out, and with the setting `lenient` "
        "all versions.",
        Spelling("id"),
    ),
    honoured(
        _FRAMES,
        "How messages are acknowledged; 1.0 may say client-individual, too. Without the header it is auto.",
        Spelling("ack", MODES),
    ),
    honoured(
        _FRAMES,
        "Asks for a RECEIPT when the subscription is there; its messages come behind the RECEIPT.",
        Spelling("receipt"),
    ),
    honoured(
        _FRAMES,
        "What may be unacknowledged at a time. Artemis reads activemq.prefetchSize in octets; here it counts "
        "messages, as in ActiveMQ.",
        Spelling("prefetch-count", _COUNT, "window", RABBITMQ),
        Spelling("activemq.prefetchSize", _PREFETCH_SIZE, "window", ACTIVEMQ),
        Spelling("consumer-window-size", _WINDOW, "window", ARTEMIS),
        Spelling("credit", Credit(), "window", APOLLO),
        Spelling("x-prefetch", _COUNT, "window", AMQP),
    ),
    honoured(
        _FRAMES,
        "Only messages whose headers fulfil the condition.",
        Spelling("selector", Anything("a condition as JMS has it, or nothing, which is as good as no header"), "text"),
    ),
    honoured(
        _FRAMES,
        "Without the messages that the session itself sends. On a queue true is an ERROR.",
        Spelling("no-local", BOOLEAN, "no_local", ARTEMIS),
        Spelling("activemq.noLocal", BOOLEAN, "no_local", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "The queue's only consumer that gets messages; others stand by. For RabbitMQ it makes the queue this "
        "connection's own; here it does not. At a topic it changes nothing.",
        Spelling("exclusive", BOOLEAN, "exclusive", APOLLO),
        Spelling("activemq.exclusive", BOOLEAN, "exclusive", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "A queue's consumers of higher priority get messages first, as long as they have room. Without the "
        "header it is 0.",
        Spelling("x-priority", _RANK, "priority", RABBITMQ),
        Spelling("activemq.priority", _RANK, "priority", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "Reads what waits in the queue without consuming it; a MESSAGE with browser:end comes last. The ack mode must "
        "be auto. On a topic it is an ERROR.",
        Spelling("browser", BOOLEAN, "browser", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "false: the browser has no end, and goes on with what comes.",
        Spelling("browser-end", BOOLEAN, "browser_end", APOLLO),
    ),
    honoured(
        _FRAMES,
        "Whether a destination without a prefix is a queue (ANYCAST) or a topic (MULTICAST). Without the header "
        "it is a queue.",
        Spelling("subscription-type", ROUTING, "multicast", ARTEMIS),
        Spelling("destination-type", ROUTING, "multicast", ARTEMIS),
    ),
    honoured(
        _FRAMES,
        "Messages of a topic that may wait for the subscriber when it is slow.",
        Spelling("activemq.maximumPendingMessageLimit", _PENDING, "slow_messages", ACTIVEMQ),
    ),
    without_effect(
        _FRAMES,
        "Nobody waits for a consumer here, so there is nothing to switch.",
        Spelling("activemq.dispatchAsync", broker=ACTIVEMQ),
    ),
    without_effect(
        _FRAMES,
        "Bodies are octets here: there are no objects of Java to turn into text.",
        Spelling("transformation", broker=ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "What is sent to the topic waits while nobody is there, and who comes back with the same `id` gets it. "
        "Several sessions of a user share the messages. A queue outlives its consumers anyway.",
        Spelling("durable", BOOLEAN, "durable", RABBITMQ),
        Spelling("persistent", BOOLEAN, "durable", f"{RABBITMQ}, {APOLLO}"),
    ),
    honoured(
        _FRAMES,
        "A durable subscription of that name: what is sent to the topic waits while nobody is there. It belongs to the "
        "user and the `client-id` of CONNECT, and one session has it at a time, the one that came last.",
        Spelling("durable-subscription-name", Text(255), "durable_name", ARTEMIS),
        Spelling("durable-subscriber-name", Text(255), "durable_name", ARTEMIS),
        Spelling("activemq.subscriptionName", Text(255), "durable_name", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "All that give this name share the messages of the topic. With `durable:true` they wait while nobody is there.",
        Spelling("x-queue-name", Text(255), "queue_name", RABBITMQ),
    ),
    honoured(
        _FRAMES,
        "Where in the topic's log to begin; what comes live follows. Numbers are those of the header `seq`. "
        "A topic without a log refuses it, but for -1 and `next`, which replay nothing, and ActiveMQ's name, which is "
        "a wish there. What was not kept is told by `gap:true` on the first MESSAGE.",
        Spelling("from-seq", FROM_SEQ, "start", APOLLO),
        Spelling("x-stream-offset", StreamOffset(), "start", RABBITMQ),
        Spelling("activemq.retroactive", RETROACTIVE, "start", ACTIVEMQ),
    ),
    honoured(
        _FRAMES,
        "Go on behind the last message that was acknowledged under this name, by any session of the same user and "
        "`client-id`. A name that is new begins where `from-seq` says, or with what comes next. The topic must have a "
        "log, and the ack mode must not be auto.",
        Spelling("resume", Text(255), "resume"),
    ),
    honoured(
        _FRAMES,
        "The name of a header that tells each message's number: of a topic with a log, its `seq`; of a queue, a number "
        "that grows. A topic without a log refuses it.",
        Spelling("include-seq", HeaderName(), "include_seq", APOLLO),
    ),
    refused(
        _FRAMES,
        _NOT_STREAMED,
        Spelling("x-stream-filter", broker=RABBITMQ),
        Spelling("x-stream-match-unfiltered", broker=RABBITMQ),
    ),
)
