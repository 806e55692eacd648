"""Naming: which subscription an UNSUBSCRIBE means, and which delivery an ACK or NACK; each version has its own headers.

UNSUBSCRIBE    by `id`; in 1.0 also by `destination`, where SUBSCRIBE gave no id
ACK, NACK      1.2: `id`, the value of the MESSAGE's `ack`; 1.1: `message-id` and `subscription`; 1.0: `message-id`

With the setting `lenient` the later versions may name things as earlier ones do, because clients exist that do so:

SUBSCRIBE, UNSUBSCRIBE    1.1, 1.2: without `id` the destination is the id
ACK, NACK                 1.2: the message-id, in `id` or `message-id`; 1.1: `subscription` may be missing or wrong
"""

from collections.abc import Mapping

from gateway.codec import V10, V11, V12, Frame, Version

from ..errors import HeaderMissing, NotAllowed
from ..model.message import Message
from ..queue.subscription import Delivery, Subscription

_LENIENT = "with lenient = true in its settings the server {}"


class DeliveriesByMessageId:
    """The unsettled deliveries of a session, by message-id."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        # Two subscriptions of one topic have a delivery each, under the same message-id.
        self._found: dict[str, list[Delivery]] = {}

    def add(self, delivery: Delivery) -> None:
        """Add a delivery that is to be acknowledged."""
        self._found.setdefault(delivery.message.id.decode(), []).append(delivery)

    def remove(self, delivery: Delivery) -> None:
        """Remove a delivery that is settled, or has come back."""
        message_id = delivery.message.id.decode()
        others = self._found[message_id]
        others.remove(delivery)
        # An empty list would stay for each message that the session ever had.
        if not others:
            del self._found[message_id]

    def find_in(self, message_id: str, subscription: Subscription) -> Delivery | None:
        """The delivery of that message to that subscription."""
        return next((each for each in self._found.get(message_id, ()) if each.subscription is subscription), None)

    def find(self, message_id: str, but_of: str | None = None) -> Delivery | None:
        """The delivery of that message, not to the destination `but_of`."""
        found = [each for each in self._found.get(message_id, ()) if each.subscription.destination != but_of]
        # 1.0 and lenient clients settle their copies of a topic's message one by one: the second ACK in a transaction
        # means the next copy.
        free = [each for each in found if not each.held]
        return next(iter(free or found), None)


class Naming:
    """The names by which the frames of one session mean its subscriptions and deliveries."""

    __slots__ = ("_lenient", "_subscriptions", "_version", "acknowledging", "by_message_id")

    def __init__(
        self, version: Version, subscriptions: Mapping[str | tuple[str], Subscription], *, lenient: bool
    ) -> None:
        self._version = version
        self._subscriptions = subscriptions
        self._lenient = lenient
        # Subscriptions that must acknowledge messages, by the key that starts their `ack` handles.
        self.acknowledging: dict[str, Subscription] = {}
        # An index costs time and memory for each delivery.  Other clients name the subscription or the handle, and find
        # the delivery in its ledger.
        by_message_id = not version.subscription_id or lenient
        self.by_message_id = DeliveriesByMessageId() if by_message_id else None  # unsettled ones

    def subscription_id_of(self, frame: Frame) -> str | None:
        """The id that a SUBSCRIBE gives; None: none, in 1.0.  Raises HeaderMissing: it must have one (SUB-05)."""
        subscription_id = frame.headers.get("id")
        if subscription_id is None and self._version.subscription_id:
            if not self._lenient:
                raise HeaderMissing("SUBSCRIBE", "id", _LENIENT.format("takes the destination for it"))
            return frame.headers.get("destination")
        return subscription_id

    def subscription_named(self, frame: Frame) -> str | tuple[str]:
        """The key of the subscription that an UNSUBSCRIBE means.  Raises HeaderMissing or NotAllowed: it means none."""
        key = self._key_of(frame)
        if key is None:
            hint = _LENIENT.format("takes the destination for it") if self._version.subscription_id else ""
            raise HeaderMissing("UNSUBSCRIBE", "id", hint)
        if key not in self._subscriptions:
            shown = key if isinstance(key, str) else key[0]
            raise NotAllowed(
                "unknown subscription", f"this connection has no subscription {shown[:80]!r}; SUBSCRIBE first"
            )
        return key

    def is_named(self, frame: Frame) -> bool:
        """True if an UNSUBSCRIBE means a subscription that the session has."""
        return self._key_of(frame) in self._subscriptions

    def _key_of(self, frame: Frame) -> str | tuple[str] | None:
        subscription_id, destination = frame.headers.get("id"), frame.headers.get("destination")
        if subscription_id is not None or destination is None:
            return subscription_id
        # In a tuple, as `Subscriptions.add` has it, so that it is never taken for the id of another subscription.
        if not self._version.subscription_id:
            return (destination,)
        return destination if self._lenient else None

    def delivery_named(self, frame: Frame) -> Delivery | None:
        """The unacknowledged delivery that an ACK or NACK names; None: its time was over (`ack_timeout`).

        Raises HeaderMissing: it lacks what its version asks for (ACK-09, NAK-06); NotAllowed: there is none (ACK-10).
        """
        headers = frame.headers
        if self._version is V12:
            handle = headers.get("id")
            if handle is None:
                return self._without_id(frame)
            # A handle begins with the key of its subscription, so no index of all deliveries is needed.
            subscription = self.acknowledging.get(handle.partition("-")[0])
            delivery = subscription.ledger.get(handle) if subscription is not None and subscription.ledger else None
            # Lenient clients put the message-id there; for all others that look-up ends in the ERROR.
            return delivery or self._with_message_id(frame, handle)
        message_id = headers.get("message-id")
        if message_id is None:
            raise HeaderMissing(frame.command, "message-id")
        # STOMP 1.1, ACK: both headers are needed.  1.0 knows no subscription there.
        if self._version is V11 and "subscription" not in headers and not self._lenient:
            raise HeaderMissing(frame.command, "subscription", _LENIENT.format("finds it by its message-id"))
        return self._with_message_id(frame, message_id)

    def _without_id(self, frame: Frame) -> Delivery | None:
        """The delivery that an ACK or NACK of 1.2 without `id` means."""
        message_id = frame.headers.get("message-id")
        if message_id is None:
            raise HeaderMissing(frame.command, "id")
        # A client that was written for 1.1 sends this; it is worth a sentence of its own where it is refused.
        if self._lenient:
            return self._with_message_id(frame, message_id)
        raise NotAllowed(
            f"{frame.command} needs the header id",
            "in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE; message-id is no substitute; "
            + _LENIENT.format("accepts it"),
        )

    def _with_message_id(self, frame: Frame, message_id: str) -> Delivery | None:
        """The delivery that an ACK or NACK names by its message-id, and perhaps its subscription."""
        # An ACK of 1.0 has no such header.
        named = None if self._version is V10 else self._subscriptions.get(frame.headers.get("subscription", ""))
        # In 1.1 the keys of the ledger are message-ids; in 1.2 they are handles, and a message-id is none.
        if named is not None and named.ledger and not self._version.ack_id and message_id in named.ledger:
            return named.ledger[message_id]
        if self.by_message_id is not None:
            if named is not None and (delivery := self.by_message_id.find_in(message_id, named)) is not None:
                return delivery
            # Lenient: another subscription may be meant, but never one that has its own copy of the same topic.
            found = self.by_message_id.find(message_id, None if named is None else named.destination)
            if found is not None:
                return found
        for each in self.acknowledging.values() if named is None else [named]:
            if each.deadlines is not None and each.deadlines.take_late(each, message_id, frame.command):
                return None
        raise self._unknown(frame, message_id)

    def _unknown(self, frame: Frame, handle: str) -> NotAllowed:
        """The error of an ACK or NACK that names no delivery; it says what would help."""
        hint = ""
        # It starts like our message-ids: the client may have that message, and only name it wrongly.
        if not self._lenient and handle.startswith(Message.run.decode() + "-"):
            if self._version is V12:
                hint = "it is a message-id, and in STOMP 1.2 `id` is the value of the `ack` header of the MESSAGE; "
                hint = f"; {hint}{_LENIENT.format('accepts the message-id')}"
            elif self._version is V11:
                hint = f"; `subscription` must name the one that it came by; {_LENIENT.format('does not look at it')}"
        return NotAllowed(
            f"{frame.command} of an unknown message",
            f"no unacknowledged message of this connection is called {handle[:80]!r}{hint}",
        )
