"""Recheck of sessions after the rules have changed: those with a subscription that is not allowed end, in turns."""

from collections.abc import Iterable, Iterator

from ..core import authorization
from ..core.context import Context
from .session import Session


def recheck(sessions: Iterable[Session], context: Context) -> None:
    """End the sessions with a subscription that the rules do not allow."""
    context.scheduler.run(_recheck(list(sessions), context.work_limits.recheck_looks))


def _recheck(sessions: Iterable[Session], most: int) -> Iterator[None]:
    looks = 0
    for session in sessions:
        # Sessions without subscriptions take time, too.
        looks += 1 + len(session.subscriptions)
        recheck_session(session)
        if looks >= most:
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
