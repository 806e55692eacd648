"""A STOMP broker: browsers over WebSocket and workers over TCP meet in one core."""

__version__ = "0.1.0"
