"""The meaning of frames: sessions, subscriptions, queues, topics, acknowledgement, transactions.

Plain synchronous Python on one thread: no sockets, no tasks, no clock.

The names below are imported at their first use: the settings and most commands need the names of destinations, and not
the broker.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .broker import Broker
    from .model.policy import Quotas
    from .session.session import Session

__all__ = ["Broker", "Quotas", "Session"]

_HOMES = {"Broker": "broker", "Quotas": "model.policy", "Session": "session.session"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
