"""Which header an identifier of a selector means.

An identifier is the name of a header, letter by letter.  The header fields of JMS are other headers in STOMP; a header
that has the JMS name itself comes first, for that is what its sender wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .values import boolean_of

Headers = Mapping[str, str]
Reader = Callable[[Headers], str | None]
"""Takes a header out of a message; None: the message does not have it."""

_DEFAULT_PRIORITY = "4"

# The field of JMS, the header that STOMP has for it.
_FIELDS = {
    "JMSCorrelationID": "correlation-id",
    "JMSDestination": "destination",
    "JMSExpiration": "expires",
    "JMSPriority": "priority",
    "JMSReplyTo": "reply-to",
    "JMSTimestamp": "timestamp",
    "JMSType": "type",
    "JMSXGroupID": "message_group",
    "JMSXUserID": "user-id",
}
# What a sender writes there steers its own session, or is the server's to say, and no subscriber sees it; and what the
# server says of a delivery is not known before there is one.
_NOT_OF_THE_MESSAGE = frozenset(
    "JMSMessageID JMSRedelivered JMSXDeliveryCount "
    "ack content-length delivery-count message-id receipt redelivered subscription transaction".split()
)
_DEFAULTS = {"JMSPriority": _DEFAULT_PRIORITY}
_DELIVERY_MODE = "JMSDeliveryMode"


def is_plain(name: str) -> bool:
    """Whether an identifier means the header of that very name, and nothing else."""
    return name not in _NOT_OF_THE_MESSAGE and name not in _FIELDS and name != _DELIVERY_MODE


def reader(name: str) -> Reader:
    """What reads the header that an identifier means; one that no message has is never there."""
    if name in _NOT_OF_THE_MESSAGE:
        return _nothing
    if name == _DELIVERY_MODE:
        return _delivery_mode
    if name in _FIELDS:
        return _field(name, _FIELDS[name], _DEFAULTS.get(name))
    # A closure calls it for two thirds of what `operator.methodcaller` takes.
    return lambda headers: headers.get(name)


def _nothing(headers: Headers) -> None:
    return None


def _field(name: str, header: str, default: str | None) -> Reader:
    def read(headers: Headers) -> str | None:
        value = headers.get(name)
        if value is None:
            value = headers.get(header)
        return default if value is None else value

    return read


def _delivery_mode(headers: Headers) -> str:
    stated = headers.get(_DELIVERY_MODE)
    if stated is not None:
        return stated
    return "PERSISTENT" if boolean_of(headers.get("persistent", "")) else "NON_PERSISTENT"
