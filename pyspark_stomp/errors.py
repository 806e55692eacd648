"""What can go wrong, as the user of Spark sees it: one sentence that names the option or repeats the server's message.

Spark carries the text of an exception from a Python process into the failure of the query or job.
"""

from __future__ import annotations


class StompError(Exception):
    """The base of all errors of this package."""


class OptionError(StompError, ValueError):
    """An option, a column or a schema that cannot be meant."""


class ServerError(StompError):
    """The server sent an ERROR, or octets that are no STOMP."""


class ConnectionLost(StompError):
    """The connection ended or could not be made; another attempt may succeed."""


class DataLost(StompError):
    """Messages or rows that a query had to read are gone."""
