"""Handlers: Python functions of the operator that handle SEND and SUBSCRIBE frames of clients to `/app/`.

    registry    the functions, and the queue of each
    request     one message, and the answers of its function
    typed       the arguments of a function, by its annotations
    runner      the session that runs the functions: a client of the broker without a connection

A function is a consumer like any other: its messages wait in its queue, are acknowledged when the function returns, and
are redelivered when it fails.  The broker knows nothing of Python functions.
"""

from .registry import DEAD_LETTERS, OF_SENDS, Handlers, HandlersError, load
from .request import CannotSend, Reject, Request
from .runner import Runner

__all__ = ["DEAD_LETTERS", "OF_SENDS", "CannotSend", "Handlers", "HandlersError", "Reject", "Request", "Runner", "load"]
