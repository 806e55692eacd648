"""Header logs: lines about headers of clients that had an effect on others, or none."""

from __future__ import annotations

import structlog

from gateway.broker.core.arguments_check import ArgumentsNotice
from gateway.broker.headers.parse import Misspelt
from gateway.log_limiter import LogLimiter

arguments_log = structlog.get_logger("gateway.arguments")
headers_log = structlog.get_logger("gateway.headers")

_HEARD = "queue arguments of a client are in force, for everybody"
_NOT_HEARD = "queue arguments of a client are not heard"
_NO_EFFECT = "a header of SUBSCRIBE has no effect"
# Lines in a minute, of all clients together.
_LINES = 20


class HeaderLogs:
    """Says each thing once, to each user."""

    def __init__(self) -> None:
        self._arguments = LogLimiter(lines=_LINES)
        self._misspelt = LogLimiter(lines=_LINES)

    def tell_arguments(self, notice: ArgumentsNotice) -> None:
        """A client's queue arguments came into force, for all clients of the queue, or came too late."""
        untold = self._arguments.admit((notice.queue, notice.login, notice.in_force, tuple(notice.values)))
        if untold is None:
            return
        queue, values, session, login = notice.queue, dict(notice.values), notice.session, notice.login
        if notice.in_force:
            arguments_log.info(_HEARD, queue=queue, values=values, session=session, login=login, untold=untold)
            return
        hint = "the queue was there without them: write them into a [[policy]], or leave them out"
        arguments_log.warning(
            _NOT_HEARD, queue=queue, values=values, session=session, login=login, hint=hint, untold=untold
        )

    def tell_misspelt(self, header: Misspelt, session: str, login: str) -> None:
        """A SUBSCRIBE header is not known and looks like one that is.

        No ERROR names it: other brokers ignore it, too, and programs that were written for them come here unedited.
        """
        untold = self._misspelt.admit((header.name, login))
        if untold is not None:
            hint = f"it is not known; did you mean {header.known}?"
            headers_log.warning(_NO_EFFECT, header=header.name, hint=hint, session=session, login=login, untold=untold)
