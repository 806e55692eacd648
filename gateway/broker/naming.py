"""Naming: which subscription an UNSUBSCRIBE means, and which delivery an ACK or NACK; each version has its own headers.

UNSUBSCRIBE    by `id`; in 1.0 also by `destination`, where SUBSCRIBE gave no id
ACK, NACK      1.2: `id`, the value of the MESSAGE's `ack`; 1.1: `message-id` and `subscription`; 1.0: `message-id`

With the setting `lenient` the later versions may name things as earlier ones do, because clients exist that do so:

SUBSCRIBE, UNSUBSCRIBE    1.1, 1.2: without `id` the destination is the id
ACK, NACK                 1.2: the message-id, in `id` or `message-id`; 1.1: `subscription` may be missing or wrong
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from gateway.codec import V11, V12, Frame

from .errors import HeaderMissing, NotAllowed

if TYPE_CHECKING:
    from .message import Delivery
    from .session import Session
    from .subscription import Subscription

_LENIENT = "with lenient = true in its settings the server {}"


def subscription_id_of(frame: Frame, session: Session) -> str | None:
    """The id that a SUBSCRIBE gives its subscription; None: it has none, in 1.0.

    Raises:
        HeaderMissing: the version asks for one (SUB-05), and the settings do not forgive that.
    """
    subscription_id = frame.headers.get("id")
    if subscription_id is None and session.version.subscription_id:
        if not session.broker.quotas.lenient:
            raise HeaderMissing("SUBSCRIBE", "id", _LENIENT.format("takes the destination for it"))
        return frame.headers.get("destination")
    return subscription_id


def subscription_named(frame: Frame, session: Session) -> str | tuple[str]:
    """The key of the subscription that an UNSUBSCRIBE means: by id, else by destination where that may be.

    Raises:
        HeaderMissing: it has neither.
        NotAllowed: there is none of that name.
    """
    subscription_id, destination = frame.headers.get("id"), frame.headers.get("destination")
    by_destination = _by_destination(session, destination)
    if subscription_id is not None:
        if subscription_id in session.subscriptions:
            return subscription_id
    elif by_destination is None:
        hint = _LENIENT.format("takes the destination for it") if session.version.subscription_id else ""
        raise HeaderMissing("UNSUBSCRIBE", "id", hint)
    elif by_destination in session.subscriptions:
        return by_destination
    shown = destination if subscription_id is None else subscription_id
    raise NotAllowed("unknown subscription", f"this connection has no subscription {str(shown)[:80]!r}")


def is_named(frame: Frame, session: Session) -> bool:
    """Whether an UNSUBSCRIBE means a subscription that the session has."""
    subscription_id = frame.headers.get("id")
    if subscription_id:
        return subscription_id in session.subscriptions
    return _by_destination(session, frame.headers.get("destination")) in session.subscriptions


def _by_destination(session: Session, destination: str | None) -> str | tuple[str] | None:
    """The key of a subscription without an id; None: there cannot be one."""
    if destination is None or not session.version.subscription_id:
        return None if destination is None else (destination,)
    return destination if session.broker.quotas.lenient else None


def delivery_named(frame: Frame, session: Session) -> Delivery:
    """The unacknowledged delivery that an ACK or NACK names.

    Raises:
        HeaderMissing: it lacks what its version asks for (ACK-09, NAK-06).
        NotAllowed: there is none of that name (ACK-10).
    """
    headers, version = frame.headers, session.version
    subscription: Subscription | None
    if version is V12:
        handle = headers.get("id")
        if handle is None:
            return _without_id(frame, session)
        subscription = session.subscriptions.acknowledging.get(handle.partition("-")[0])
    else:
        handle = headers.get("message-id")
        if handle is None:
            raise HeaderMissing(frame.command, "message-id")
        if version is V11:
            subscription_id = headers.get("subscription")
            if subscription_id is None and not session.broker.quotas.lenient:
                raise HeaderMissing(frame.command, "subscription", _LENIENT.format("finds it by its message-id"))
            subscription = None if subscription_id is None else session.subscriptions.get(subscription_id)
        else:
            return _with_message_id(handle, session) or _unknown(frame, handle)
    delivery = subscription.ledger.get(handle) if subscription is not None and subscription.ledger else None
    return delivery or _otherwise(frame, handle, session)


def _without_id(frame: Frame, session: Session) -> Delivery:
    """What an ACK or NACK of 1.2 means that has no `id`."""
    message_id = frame.headers.get("message-id")
    if message_id is None:
        raise HeaderMissing(frame.command, "id")
    if session.broker.quotas.lenient:
        return _with_message_id(message_id, session) or _unknown(frame, message_id)
    raise NotAllowed(
        f"{frame.command} needs the header id",
        "in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE; message-id is no substitute; "
        + _LENIENT.format("accepts it"),
    )


def _otherwise(frame: Frame, handle: str, session: Session) -> Delivery:
    """What an ACK or NACK of 1.1 or 1.2 means that names no delivery as its version has it."""
    delivery = _with_message_id(handle, session)
    if delivery is None:
        _unknown(frame, handle)
    elif not session.broker.quotas.lenient:
        if session.version is V12:
            _unknown(
                frame,
                handle,
                "it is a message-id, and in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE",
                _LENIENT.format("accepts the message-id"),
            )
        _unknown(
            frame,
            handle,
            f"the message belongs to subscription {str(delivery.subscription.id)[:80]!r}",
            _LENIENT.format("finds it by its message-id"),
        )
    return delivery


def _unknown(frame: Frame, handle: str, *hints: str) -> NoReturn:
    sentence = f"no unacknowledged message of this connection is called {handle[:80]!r}"
    raise NotAllowed(f"{frame.command} of an unknown message", "; ".join([sentence, *hints]))


def _with_message_id(message_id: str, session: Session) -> Delivery | None:
    """The delivery of that message; of several (one topic subscribed twice), one that no transaction holds."""
    found = [
        delivery
        for each in session.subscriptions.acknowledging.values()
        if (delivery := each.with_message_id(message_id)) is not None
    ]
    free = [each for each in found if each.transaction is None]
    return next(iter(free or found), None)
