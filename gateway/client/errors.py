"""Errors of the clients, and the meaning of an ERROR frame: may another connection succeed?"""

from gateway.codec import Frame

# RabbitMQ's message when the session's process died, as it does at a SUBSCRIBE to a stream that is just being made.
_CRASHED = "Processing error"
# ERRORs of a server that has no room, or shuts down: neither the message nor the login is wrong.
PASSING = (
    "the store cannot be written",
    "memory limit reached",
    "memory is full",
    "server is shutting down",
    "session ended",
    "slow consumer",
    "too many connections",
    "too many delayed messages",
)
# Another program has the same name: two that both come back would end each other for ever.
FINAL = ("client-id taken over", "subscription taken over")


class StompError(Exception):
    """The base of all errors of the client: one sentence each, with the words of the server or of the system."""


class ServerError(StompError):
    """The server sent an ERROR, or bytes that are not STOMP."""


class ConnectionLost(StompError):
    """The connection ended or could not be made; another attempt may succeed."""


class CertificateRefused(ConnectionLost):
    """The server demands a client certificate, or another one."""


class TimedOut(StompError, TimeoutError):
    """A RECEIPT or an answer did not come in time; the server may have carried out the frame."""


class NoAnswer(StompError):
    """The gateway says that there will be no answer: no consumer is there, or none has taken the question in time,
    or they have rejected it."""


def refusal(error: Frame, name: str) -> StompError:
    """An ERROR frame of the server of that name: ConnectionLost if another connection may succeed, else ServerError."""
    detail = error.body.decode(errors="replace").strip()[:500]
    sentence = f"{name} says: {error.headers.get('message', 'ERROR')}" + (f" ({detail})" if detail else "")
    # With `retry-after` the gateway says that another connection may succeed.
    passes = "retry-after" in error.headers or error.headers.get("message") == _CRASHED
    return ConnectionLost(sentence) if passes else ServerError(sentence)
