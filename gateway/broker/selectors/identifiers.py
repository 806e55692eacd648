"""Identifiers of selectors: each names a header, letter by letter."""

from collections.abc import Callable, Mapping

from gateway.codec.encoder import NOT_PASSED_ON

from .values import boolean_of

Headers = Mapping[str, str]
Reader = Callable[[Headers], str | None]
"""Returns a header of a message; None: it is missing."""

# Field of JMS -> header of STOMP.
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
# Headers of a SEND that subscribers do not see, and headers that the server writes into a delivery, which does not
# exist yet when a selector is evaluated.
_NOT_OF_THE_MESSAGE = NOT_PASSED_ON | {"JMSMessageID", "JMSRedelivered", "JMSXDeliveryCount"}
# A message without the header has that priority.
_DEFAULTS = {"JMSPriority": "4"}
_DELIVERY_MODE = "JMSDeliveryMode"


def is_plain(name: str) -> bool:
    """True if an identifier means only the header of exactly that name."""
    return name not in _NOT_OF_THE_MESSAGE and name not in _FIELDS and name != _DELIVERY_MODE


def reader(name: str) -> Reader:
    """Reader of the header that an identifier means."""
    if name in _NOT_OF_THE_MESSAGE:
        return lambda headers: None
    if name == _DELIVERY_MODE:
        return _delivery_mode
    if name in _FIELDS:
        return _field(name, _FIELDS[name], _DEFAULTS.get(name))
    # A closure calls it for two thirds of what `operator.methodcaller` takes.
    return lambda headers: headers.get(name)


def _field(name: str, header: str, default: str | None) -> Reader:
    def read(headers: Headers) -> str | None:
        # A header with the JMS name itself takes precedence: the sender can only mean that one.
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
