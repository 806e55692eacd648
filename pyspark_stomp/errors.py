"""Errors for the user of Spark: one sentence that names the option or repeats the server's message.

Spark carries the text of an exception from a Python process into the failure of the query or job.
"""

from __future__ import annotations

from gateway.client import ConnectionLost, ServerError, StompError

__all__ = ["ConnectionLost", "DataLost", "OptionError", "ServerError", "StompError"]


class OptionError(StompError, ValueError):
    """An option, a column or a schema is wrong."""


class DataLost(StompError):
    """Messages or rows that a query had to read are gone."""
