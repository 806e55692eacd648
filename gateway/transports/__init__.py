"""Octets in and out: TCP and WebSocket below one connection loop."""

from .hub import Hub, Options
from .listen import AddressError, Listening, close, open_listeners, serve_tcp, serve_websocket, unlinking

__all__ = [
    "AddressError",
    "Hub",
    "Listening",
    "Options",
    "close",
    "open_listeners",
    "serve_tcp",
    "serve_websocket",
    "unlinking",
]
