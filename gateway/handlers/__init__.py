"""Python functions of the operator that handle what clients send to `/app/` and subscribe there.

    templates   /app/greet/{name}: which names a function is for
    registry    which functions there are, and the queue of each
    request     one message, and what its function answers
    runner      the functions at work: a client of the broker without a connection
    loading     the module that the setting `handlers` names

A function is a consumer like any other: what clients send to it waits in its queue, is acknowledged when the function
has returned, and delivered again when it has failed.  The broker knows nothing of Python functions.
"""

from .loading import HandlersError, load
from .registry import DEAD_LETTERS, OF_SENDS, Handlers
from .request import CannotSend, Reject, Request
from .runner import Runner

__all__ = [
    "DEAD_LETTERS",
    "OF_SENDS",
    "CannotSend",
    "Handlers",
    "HandlersError",
    "Reject",
    "Request",
    "Runner",
    "load",
]
