"""What the queue arguments of clients came to, in the log.

Arguments that come into force hold for everybody who uses the queue, so an operator must be able to see whose they are;
those that come too late change nothing, and whoever wrote them may wonder.  A client may send them with each frame: of
each queue and user a line of one kind is written once, and of all clients together so many lines in a minute.
"""

from __future__ import annotations

import structlog

from gateway.broker.core.queue_arguments import ArgumentsNotice

from .flow.log_limiter import LogLimiter

log = structlog.get_logger("gateway.arguments")


class Wishes:
    """Tells the log."""

    def __init__(self) -> None:
        self._limiter = LogLimiter()

    def tell(self, wish: ArgumentsNotice) -> None:
        """A client's arguments came into force, or did not."""
        untold = self._limiter.admit((wish.queue, wish.login, wish.heard, tuple(wish.values)))
        if untold is None:
            return
        values = dict(wish.values)
        if wish.heard:
            log.info(
                "queue arguments of a client are in force, for everybody",
                queue=wish.queue,
                values=values,
                session=wish.session,
                login=wish.login,
                untold=untold,
            )
        else:
            log.warning(
                "queue arguments of a client are not heard",
                queue=wish.queue,
                values=values,
                session=wish.session,
                login=wish.login,
                hint="the queue was there without them: write them into a [[policy]], or leave them out",
                untold=untold,
            )
