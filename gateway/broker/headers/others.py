"""Rows of CONNECT, UNSUBSCRIBE, ACK, NACK, BEGIN, COMMIT, ABORT and DISCONNECT."""

from .row import ACTIVEMQ, APOLLO, ARTEMIS, RABBITMQ, HeaderRow, Spelling, honoured, without_effect
from .values import BOOLEAN, Anything, Text

_CONNECT = ("CONNECT", "STOMP")
_UNSUBSCRIBE = ("UNSUBSCRIBE",)
_SETTLING = ("ACK", "NACK")
_TRANSACTION = ("BEGIN", "COMMIT", "ABORT")


# A spelling without a field: `connect` and the session read STOMP's own headers by name.  The rows are there for
# docs/headers.md.
def _standard(frames: tuple[str, ...], name: str, allowed: str, meaning: str) -> HeaderRow:
    return honoured(frames, meaning, Spelling(name, Anything(allowed)))


CONNECT = (
    _standard(
        _CONNECT,
        "accept-version",
        "versions with commas between them",
        "The versions of the client; the highest common one is used. Default: 1.0.",
    ),
    _standard(
        _CONNECT,
        "heart-beat",
        "two whole numbers of milliseconds",
        "The heart-beats that the client can send, and those that it wants.",
    ),
    honoured(
        _CONNECT,
        "The user.",
        Spelling("login", Anything("a user's name")),
        # LEN-11: only in 1.0.
        Spelling("username", Anything("a user's name"), broker="STOMP 1.0"),
    ),
    honoured(_CONNECT, "The user's secret: a passcode, a token (JWT) or a ticket.", Spelling("passcode")),
    honoured(
        _CONNECT,
        "`Bearer` and a token (JWT) or a ticket. It takes precedence over login and passcode.",
        Spelling("Authorization", broker="Spring's clients"),
    ),
    without_effect(
        _CONNECT, "Send a token as passcode, or in Authorization.", Spelling("token", broker="Spring's clients")
    ),
    without_effect(_CONNECT, "There is one virtual host, and it accepts every name.", Spelling("host")),
    honoured(
        _CONNECT,
        "Identifies the client when it connects again: its older session [ends](semantics.md#session-take-over), and "
        "its named durable subscriptions are its own.",
        Spelling("client-id", Anything("a name"), broker=f"{ACTIVEMQ}, {ARTEMIS}"),
    ),
    without_effect(
        _CONNECT,
        "CONNECTED has no response-id.",
        Spelling("request-id", broker=f"{ACTIVEMQ}, {ARTEMIS}"),
    ),
)

OTHERS = (
    _standard(_UNSUBSCRIBE, "id", "a subscription", "The subscription that ends."),
    _standard(_UNSUBSCRIBE, "destination", "a destination", "The subscription that ends, where it has no id."),
    # Under the names of SUBSCRIBE, so that a client can repeat its headers: RabbitMQ and ActiveMQ read them so.
    honoured(
        _UNSUBSCRIBE,
        "The durable subscription itself ends, with its messages.",
        Spelling("durable", BOOLEAN, "durable", RABBITMQ),
        Spelling("persistent", BOOLEAN, "durable", f"{RABBITMQ}, {APOLLO}"),
    ),
    honoured(
        _UNSUBSCRIBE,
        "The same, of that name; the session need not consume it.",
        Spelling("durable-subscription-name", Text(255), "durable_name", ARTEMIS),
        Spelling("durable-subscriber-name", Text(255), "durable_name", ARTEMIS),
        Spelling("activemq.subscriptionName", Text(255), "durable_name", ACTIVEMQ),
    ),
    honoured(
        _UNSUBSCRIBE,
        "The gateway forgets the offset that is kept under that name.",
        Spelling("resume", Text(255), "resume"),
    ),
    # How each version names a delivery: `session/naming.py`.
    _standard(_SETTLING, "id", "the `ack` of a MESSAGE", "The delivery, in 1.2."),
    _standard(
        _SETTLING,
        "message-id",
        "the `message-id` of a MESSAGE",
        "The message, in 1.0 and 1.1; with `lenient` in 1.2 too.",
    ),
    _standard(
        _SETTLING,
        "subscription",
        "a subscription",
        "The subscription of the message, in 1.1; optional with `lenient`.",
    ),
    _standard(_SETTLING, "transaction", "a transaction", "The frame takes effect when the transaction is committed."),
    # No field: `is_in_progress` reads it.
    honoured(
        ("ACK",),
        "true: no ACK. The consumer needs more time than [`ack_timeout`](semantics.md#time-for-an-ack); in mode client "
        "also for the messages before it.",
        Spelling("in-progress", BOOLEAN),
    ),
    # No field: `may_requeue` reads it, because a NACK has no other option.
    honoured(
        ("NACK",),
        "false: the message becomes a dead letter. Otherwise the policy (`on_nack`) decides.",
        Spelling("requeue", BOOLEAN, broker=RABBITMQ),
    ),
    _standard(
        ("NACK",),
        "reason",
        "anything",
        "The consumer's reason, which the dead letter gets.",
    ),
    _standard(_TRANSACTION, "transaction", "a transaction", "The transaction."),
    # CONNECT has none: CONNECTED is its answer.
    _standard(
        (*_UNSUBSCRIBE, *_SETTLING, *_TRANSACTION, "DISCONNECT"),
        "receipt",
        "anything",
        "Asks for a RECEIPT when the frame is carried out.",
    ),
)
