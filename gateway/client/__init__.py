"""A STOMP client for programs of our own that are no event loop: commands, and what Spark runs."""

from .blocking import Client
from .errors import ConnectionLost, ServerError, StompError
from .server import Server

__all__ = ["Client", "ConnectionLost", "Server", "ServerError", "StompError"]
