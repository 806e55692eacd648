"""A STOMP client for programs that are no event loop: commands, the relay, and the code that Spark runs."""

from .blocking import Client, ConnectionLost, ServerError, StompError
from .server import StompServer

Server = StompServer  # the public name

__all__ = ["Client", "ConnectionLost", "Server", "ServerError", "StompError", "StompServer"]
