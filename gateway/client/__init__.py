"""STOMP clients: a blocking one for programs that are no event loop, and an async one for Trio and asyncio.

The blocking client serves commands, the relay, and the code that Spark runs.  The async one (docs/python-client.md) is
imported when it is first named, because AnyIO takes as long to import as all the rest.
"""

from typing import TYPE_CHECKING, Any

from .blocking import Client
from .errors import ConnectionLost, NoAnswer, ServerError, StompError, TimedOut
from .server import StompServer

if TYPE_CHECKING:
    from .asynchronous import AsyncClient, connect
    from .messages import ClientTransaction, Message, Subscription

Server = StompServer  # the public name

_ASYNC = {
    "AsyncClient": "asynchronous",
    "Message": "messages",
    "Subscription": "messages",
    "ClientTransaction": "messages",
    "connect": "asynchronous",
}

__all__ = [
    "AsyncClient",
    "Client",
    "ClientTransaction",
    "ConnectionLost",
    "Message",
    "NoAnswer",
    "Server",
    "ServerError",
    "StompError",
    "StompServer",
    "Subscription",
    "TimedOut",
    "connect",
]


def __getattr__(name: str) -> Any:
    if name not in _ASYNC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_ASYNC[name]}", __name__), name)
