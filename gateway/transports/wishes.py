"""What the queue arguments of clients came to, in the log.

Arguments that come into force hold for everybody who uses the queue, so an operator must be able to see whose they are;
those that come too late change nothing, and whoever wrote them may wonder.  A client may send them with each frame: of
each queue and user a line of one kind is written once, and of all clients together so many lines in a minute.
"""

from __future__ import annotations

import math

import structlog
import trio

from gateway.broker.arguments import Wish

log = structlog.get_logger("gateway.arguments")

_MINUTE = 60.0
_MOST_LINES = 20
# Queues and users that are remembered; then all of them may be written once more.
_MOST_KNOWN = 1_000


class Wishes:
    """Tells the log."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, bool, tuple[str, ...]]] = set()
        self._minute = -math.inf
        self._lines = 0
        self._untold = 0

    def tell(self, wish: Wish) -> None:
        """A client's arguments came into force, or did not."""
        key = (wish.queue, wish.login, wish.heard, tuple(wish.values))
        if key in self._known:
            return
        now = trio.current_time()
        if now - self._minute >= _MINUTE:
            self._minute, self._lines = now, 0
        if self._lines >= _MOST_LINES:
            self._untold += 1
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(key)
        self._lines += 1
        untold, self._untold = self._untold, 0
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
