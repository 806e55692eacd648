"""What an UNSUBSCRIBE, ACK or NACK names, which is different in each version.

UNSUBSCRIBE    by `id`; in 1.0 also by `destination`, where SUBSCRIBE gave no id
ACK, NACK      1.2: `id`, the value of the MESSAGE's `ack`; 1.1: `message-id` and `subscription`; 1.0: `message-id`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.codec import V11, V12, Frame

from .errors import HeaderMissing, NotAllowed

if TYPE_CHECKING:
    from .session import Session
    from .subscription import Subscription


def subscription_named(frame: Frame, session: Session) -> str | tuple[str]:
    """The key of the subscription that an UNSUBSCRIBE means: by id, in 1.0 also by destination."""
    subscription_id = frame.headers.get("id")
    if subscription_id is not None and subscription_id in session.subscriptions:
        return subscription_id
    destination = frame.headers.get("destination")
    if session.version.subscription_id or destination is None:
        if subscription_id is None:
            raise HeaderMissing("UNSUBSCRIBE", "id")
    elif subscription_id is None and (destination,) in session.subscriptions:
        return (destination,)
    shown = destination if subscription_id is None else subscription_id
    raise NotAllowed("unknown subscription", f"this connection has no subscription {str(shown)[:80]!r}")


def is_named(frame: Frame, session: Session) -> bool:
    """Whether an UNSUBSCRIBE means a subscription that the session has."""
    subscription_id, destination = frame.headers.get("id"), frame.headers.get("destination")
    return subscription_id in session.subscriptions if subscription_id else (destination,) in session.subscriptions


def delivery_named(frame: Frame, session: Session) -> tuple[Subscription | None, str]:
    """The subscription and the ledger's key that an ACK or NACK names; each version has its own headers."""
    headers = frame.headers
    if session.version is V12:
        handle = headers.get("id")
        if handle is None and "message-id" in headers:
            raise NotAllowed(
                f"{frame.command} needs the header id",
                "in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE; message-id is no substitute",
            )
        if handle is None:
            raise HeaderMissing(frame.command, "id")
        return session.subscriptions.acknowledging.get(handle.partition("-")[0]), handle
    message_id = headers.get("message-id")
    if message_id is None:
        raise HeaderMissing(frame.command, "message-id")
    if session.version is V11:
        subscription_id = headers.get("subscription")
        if subscription_id is None:
            raise HeaderMissing(frame.command, "subscription")
        return session.subscriptions.get(subscription_id), message_id
    return _subscription_with(message_id, session), message_id


def _subscription_with(message_id: str, session: Session) -> Subscription | None:
    """Who has that message outstanding; of several (one topic twice), one that no transaction holds."""
    holding = [
        each for each in session.subscriptions.acknowledging.values() if each.ledger and message_id in each.ledger
    ]
    free = [each for each in holding if each.ledger and each.ledger[message_id].transaction is None]
    return next(iter(free or holding), None)
