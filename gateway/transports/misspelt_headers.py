"""Misspelt headers: the log line about a SUBSCRIBE header that is not known and looks like one that is.

Such a header has no effect, and no ERROR names it: other brokers ignore it, too, and programs that were written for
them come here unedited.  The line tells an operator why a subscription does not do what its header says.
"""

from __future__ import annotations

import structlog

from gateway.broker.headers.parse import Misspelt

from .flow.log_limiter import LogLimiter

log = structlog.get_logger("gateway.headers")


class MisspeltHeaders:
    """Writes the line once for each header and user."""

    def __init__(self) -> None:
        self._limiter = LogLimiter()

    def tell(self, header: Misspelt, session: str, login: str) -> None:
        """A session used such a header."""
        untold = self._limiter.admit((header.name, login))
        if untold is not None:
            log.warning(
                "a header of SUBSCRIBE has no effect",
                header=header.name,
                hint=f"it is not known; did you mean {header.known}?",
                session=session,
                login=login,
                untold=untold,
            )
