"""Bytes in and out: TCP and WebSocket below one connection loop."""

from .accept.accept import ConnectionHandler
from .accept.listener import AddressError, Listening, close, inherit_listeners, open_listeners, unlinking
from .connection.authenticate import identify
from .server import Server, TransportOptions
from .wire.forwarded import ForwardedClient, Trusted

__all__ = [
    "AddressError",
    "ConnectionHandler",
    "ForwardedClient",
    "Listening",
    "Server",
    "TransportOptions",
    "Trusted",
    "close",
    "identify",
    "inherit_listeners",
    "open_listeners",
    "unlinking",
]
