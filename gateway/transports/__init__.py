"""Transports: TCP and WebSocket below one connection loop.

Each package imports only those to its left: wire, flow, server, connection, accept.
"""

from .accept.accept import ConnectionHandler
from .accept.listener import AddressError, Listening, close, inherit_listeners, open_listeners, unlinking
from .connection.session_expiry import identify
from .flow.connected import TransportOptions
from .server import Server
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
