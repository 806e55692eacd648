"""Octets in and out: TCP and WebSocket below one connection loop."""

from .entrance import Entrance
from .forwarded import Client, Trusted
from .hub import Hub, Options
from .listen import AddressError, Listening, close, inherit_listeners, open_listeners, unlinking
from .login import identify

__all__ = [
    "AddressError",
    "Client",
    "Entrance",
    "Hub",
    "Listening",
    "Options",
    "Trusted",
    "close",
    "identify",
    "inherit_listeners",
    "open_listeners",
    "unlinking",
]
