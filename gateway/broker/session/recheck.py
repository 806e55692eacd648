"""Recheck of sessions after the rules have changed: those with a subscription that is not allowed end, in turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core import authorization
from ..core.scheduler import Scheduler
from .session import Session

# Sessions and subscriptions that are looked at in one turn: 4 ms, or one session that has more.
_LOOKS_PER_TURN = 500


def recheck(sessions: Iterable[Session], scheduler: Scheduler) -> None:
    """End the sessions with a subscription that the rules do not allow."""
    scheduler.run(_recheck(list(sessions)))


def _recheck(sessions: Iterable[Session]) -> Iterator[None]:
    looks = 0
    for session in sessions:
        # Sessions without subscriptions take time, too.
        looks += 1 + len(session.subscriptions)
        recheck_session(session)
        if looks >= _LOOKS_PER_TURN:
            looks = 0
            yield


def recheck_session(session: Session) -> bool:
    """End a session with a subscription that the rules do not allow; False: it ends."""
    # Without rules, or not subject to them, as the server's own sessions are.
    if session.access is None:
        return True
    for subscription in session.subscriptions.values():
        durable = session.durable_subscription_of(subscription)
        # Its queue has a hidden name that no rule mentions; rules speak of the topic.
        name = subscription.source if durable is None else durable.topic.name
        error = authorization.lost(
            session, name, subscription.destination, subscription.options, is_shared=durable is not None
        )
        if error is not None:
            # One is enough: the whole session ends, as STOMP has no frame that ends a single subscription.
            session.end(error)
            return False
    return True
