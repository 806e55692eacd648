"""The rows of all frames but SEND and SUBSCRIBE."""

from __future__ import annotations

from .row import ACTIVEMQ, APOLLO, ARTEMIS, RABBITMQ, HeaderRow, Spelling, honoured, without_effect
from .values import BOOLEAN, Anything, Text

_CONNECT = ("CONNECT", "STOMP")
_UNSUBSCRIBE = ("UNSUBSCRIBE",)
_SETTLING = ("ACK", "NACK")
_TRANSACTION = ("BEGIN", "COMMIT", "ABORT")


def _standard(frames: tuple[str, ...], name: str, allowed: str, meaning: str) -> HeaderRow:
    return honoured(frames, meaning, Spelling(name, Anything(allowed)))


CONNECT = (
    _standard(
        _CONNECT,
        "accept-version",
        "versions with commas between them",
        "What the client speaks; the highest that both sides know is used. Without the header it is 1.0.",
    ),
    _standard(
        _CONNECT, "heart-beat", "two whole numbers of milliseconds", "What the client can send, and what it wants."
    ),
    honoured(
        _CONNECT,
        "Who the client is.",
        Spelling("login", Anything("a user's name")),
        Spelling("username", Anything("a user's name"), broker="STOMP 1.0"),
    ),
    honoured(_CONNECT, "The proof of it: a passcode, a token (JWT) or a ticket.", Spelling("passcode")),
    honoured(
        _CONNECT,
        "`Bearer`, and behind it a token (JWT) or a ticket; comes before login and passcode.",
        Spelling("Authorization", broker="Spring's clients"),
    ),
    without_effect(
        _CONNECT,
        "A token is shown as passcode, or in Authorization.",
        Spelling("token", broker="Spring's clients"),
    ),
    without_effect(_CONNECT, "There is one virtual host, and every name is its name.", Spelling("host")),
    honoured(
        _CONNECT,
        "By what the client is known when it comes back: it takes over from its older session, which is ended, and its "
        "durable subscriptions that have a name are its own. Without the header it is a new client.",
        Spelling("client-id", Anything("a name"), broker=f"{ACTIVEMQ}, {ARTEMIS}"),
    ),
    without_effect(
        _CONNECT,
        "CONNECTED has no response-id: a connection has one CONNECT, so there is one answer.",
        Spelling("request-id", broker=f"{ACTIVEMQ}, {ARTEMIS}"),
    ),
)

OTHERS = (
    _standard(_UNSUBSCRIBE, "id", "a subscription", "Which one ends."),
    _standard(_UNSUBSCRIBE, "destination", "a destination", "The same, for a subscription that has no id."),
    honoured(
        _UNSUBSCRIBE,
        "Not only does the session consume the durable subscription no more: it ends, and what waits for it is gone.",
        Spelling("durable", BOOLEAN, "durable", RABBITMQ),
        Spelling("persistent", BOOLEAN, "durable", f"{RABBITMQ}, {APOLLO}"),
    ),
    honoured(
        _UNSUBSCRIBE,
        "The same for the one of that name; the session need not consume it.",
        Spelling("durable-subscription-name", Text(255), "durable_name", ARTEMIS),
        Spelling("durable-subscriber-name", Text(255), "durable_name", ARTEMIS),
        Spelling("activemq.subscriptionName", Text(255), "durable_name", ACTIVEMQ),
    ),
    honoured(
        _UNSUBSCRIBE,
        "The gateway forgets how far the client has come under that name.",
        Spelling("resume", Text(255), "resume"),
    ),
    _standard(_SETTLING, "id", "the `ack` of a MESSAGE", "Which delivery is meant, in 1.2."),
    _standard(
        _SETTLING,
        "message-id",
        "the `message-id` of a MESSAGE",
        "Which message is meant, in 1.0 and 1.1; with the setting `lenient` in 1.2, too.",
    ),
    _standard(
        _SETTLING,
        "subscription",
        "a subscription",
        "By which subscription it came, in 1.1; with the setting `lenient` it may be missing or another one.",
    ),
    _standard(_SETTLING, "transaction", "a transaction", "The frame counts when that is committed."),
    honoured(
        ("NACK",),
        "false: the message is not delivered again, and goes where dead letters go. true, or no header: the policy "
        "(on_nack) decides.",
        Spelling("requeue", BOOLEAN, broker=RABBITMQ),
    ),
    _standard(
        ("NACK",),
        "reason",
        "anything",
        "The consumer's word for it; the dead letter has it as `reason`, and never the SEND's header of that name.",
    ),
    _standard(_TRANSACTION, "transaction", "a transaction", "Which one it is."),
    _standard(
        (*_UNSUBSCRIBE, *_SETTLING, *_TRANSACTION, "DISCONNECT"),
        "receipt",
        "anything",
        "Asks for a RECEIPT when the frame is carried out.",
    ),
)
