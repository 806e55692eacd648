"""The meaning of frames: sessions, subscriptions, queues, topics, acknowledgement, transactions.

Plain synchronous Python on one thread: no sockets, no tasks, no clock.
"""

from .broker import Broker
from .model.policy import Quotas
from .session.session import Session

__all__ = ["Broker", "Quotas", "Session"]
