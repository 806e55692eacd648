"""The subscriptions of a session, by what their SUBSCRIBE called them: how one comes, and how it goes.

In 1.0 a SUBSCRIBE may have no `id`; then its destination stands in its place, in a tuple, so that it is never taken for
an id.

A subscription that goes leaves its queue first; what it did not settle is collected (`Returned`), and whoever ends it
has the queues take that back when all are gone that go together: else the first of two that leave would have its
messages given to the second.  A session's are stopped first and then end in steps, one queue's behind another's, for
thousands of them take their time.  Those of one queue end in one step: what is on its way back must not be overtaken.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from gateway.codec import Frame

from ..errors import HeaderMissing, NotAllowed
from ..headers.parse import misspelt, subscribe_options, unsubscribe_options
from ..headers.table import ack_mode
from ..model.destinations import is_temporary
from ..model.options import SubscribeOptions
from ..queue.redelivery import Returned, take_back, take_back_all
from ..queue.subscription import AckMode, Subscription
from ..topic.durable_subscriptions import SubscriptionName, name_of
from .naming import DeliveriesByMessageId, is_named, subscription_id_of, subscription_named
from .quota import SessionQuota
from .subscribe import subscribe

if TYPE_CHECKING:
    from ..queue.queue import Queue
    from .session import Session

_MODES = {mode.value: mode for mode in AckMode}
ENDS_PER_STEP = 16
"""Subscriptions that end in one step: some 0.2 ms."""


class Subscriptions(dict[str | tuple[str], Subscription]):
    """What one session has.

    Attributes:
        acknowledging: those whose messages must be acknowledged, by what their `ack` handles start with.
        by_message_id: what is not settled; None: the session cannot name messages by that alone.
    """

    __slots__ = ("_allowance", "_keys", "_session", "acknowledging", "by_message_id")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._allowance = SessionQuota()
        self._keys = 0
        self.acknowledging: dict[str, Subscription] = {}
        by_message_id = not session.version.subscription_id or session.broker.quotas.lenient
        self.by_message_id = DeliveriesByMessageId() if by_message_id else None

    def subscribe(self, frame: Frame, *, paused: bool) -> Subscription:
        """Add what a SUBSCRIBE asks for.

        Args:
            paused: it gets nothing until it is started.

        Raises:
            ProtocolError: it is not whole, or not allowed; nothing is added.
        """
        headers = frame.headers
        destination = headers.get("destination")
        if destination is None:
            raise HeaderMissing("SUBSCRIBE", "destination")
        subscription_id = subscription_id_of(frame, self._session)
        mode = _MODES.get(ack_mode(headers.get("ack", "auto")))
        if mode is None:
            raise NotAllowed("unknown ack mode", f"{headers['ack'][:40]!r} is none of {', '.join(_MODES)}")
        subscription = self.add(destination, subscription_id, mode, subscribe_options(headers), paused=paused)
        for header in misspelt(headers):
            broker = self._session.broker
            broker.counters.misspelt_headers += 1
            broker.on_misspelt(header, self._session.id, self._session.login)
        return subscription

    def add(
        self,
        destination: str,
        subscription_id: str | None,
        mode: AckMode,
        options: SubscribeOptions,
        *,
        paused: bool = False,
    ) -> Subscription:
        """Add one.

        Raises:
            ProtocolError: it is not allowed, or too many; nothing is added.
        """
        session = self._session
        name: str | tuple[str] = (destination,) if subscription_id is None else subscription_id
        if name in self:
            raise NotAllowed(
                "subscription id in use",
                f"this connection already has a subscription {(subscription_id or destination)[:80]!r}",
            )
        limit = session.broker.quotas.max_subscriptions
        if len(self) >= limit:
            raise NotAllowed("too many subscriptions", f"a session may have {limit} (max_subscriptions)")
        if options.browser and mode is not AckMode.AUTO:
            raise NotAllowed("a browser consumes nothing", "with browser:true the ack mode must be auto")
        names = len(destination) + len(subscription_id or "")
        self._allowance.check(options, names)
        self._keys += 1
        subscription = Subscription(session, subscription_id, str(self._keys), destination, mode, options)
        if paused:
            subscription.pause()
        subscribe(subscription)
        session.broker.subscriptions += 1
        self._allowance.use(options, names)
        self[name] = subscription
        if subscription.records is not None:
            subscription.records.subscribed(subscription)
        if subscription.ledger is not None:
            self.acknowledging[subscription.key] = subscription
        return subscription

    def unsubscribe(self, frame: Frame) -> None:
        """End the one that an UNSUBSCRIBE names, or a durable one for good, or both.

        Raises:
            ProtocolError: it names none, or two; nothing is ended.
        """
        session = self._session
        ends = unsubscribe_options(frame.headers)
        durable = None
        if ends is not None and ends.durable_name:  # the only one that can be named without being consumed here
            durable = name_of(ends, session, None, "")
        if durable is None or is_named(frame, session):
            key = subscription_named(frame, session)
            subscription = self[key]
            feed = subscription.queue.feed if subscription.queue is not None else None
            if durable is not None and (feed is None or feed.name != durable.text):
                raise NotAllowed(
                    "UNSUBSCRIBE names two subscriptions",
                    f"what it ends for good is {durable.text[:80]!r}, and its id is that of another one",
                )
            if ends is not None and ends.resume:
                session.broker.router.replay.offsets.end(session, ends.resume)
            if ends is not None and ends.durable and feed is not None:
                durable = SubscriptionName(feed.name, lasts=True)
            returned: Returned = {}
            self.end(key, returned)
            take_back_all(returned)
            if is_temporary(subscription.destination):
                session.temporaries.release(subscription.destination)
            if feed is not None and session.broker.registry.durable_subscriptions.get(feed.name) is None:
                return  # it has gone with its last consumer
        if durable is not None:
            session.broker.registry.durable_subscriptions.end(durable.text)

    def stop(self) -> None:
        """Get nothing more from any queue: all of them end soon."""
        queues: dict[Queue, None] = {}
        for subscription in self.values():
            queue = subscription.queue
            if queue is not None and not subscription.ended:
                subscription.stop()
                if subscription in queue.subscriptions:  # and does not only browse
                    queues[queue] = None
        for queue in queues:
            queue.stopped()

    def ending(self, returned: Returned, *, lost: bool) -> Iterator[None]:
        """End all, which are stopped, in steps; each queue takes back what it gave as soon as its own have gone.

        Args:
            returned: what queues are to take back besides.
            lost: see `end`.
        """
        by_queue: dict[Queue, list[str | tuple[str]]] = {queue: [] for queue in returned}
        topics = []
        for key, subscription in self.items():
            if subscription.queue is None:
                topics.append(key)
            else:
                by_queue.setdefault(subscription.queue, []).append(key)
        ended = 0
        for queue, keys in chain(by_queue.items(), ((None, [key]) for key in topics)):
            if ended >= ENDS_PER_STEP:
                ended = 0
                yield
            ended += len(keys)
            for key in keys:
                if key in self:  # the session may have been closed meanwhile
                    self.end(key, returned, lost=lost, why="session ended")
            if queue is not None:
                take_back(queue, returned.pop(queue, ()))

    def end(self, key: str | tuple[str], returned: Returned, *, lost: bool = False, why: str | None = None) -> None:
        """End one; what its queue must take back goes into `returned`.

        Args:
            lost: the client did not say goodbye: what it was at work on has failed.
            why: for the records; None: the client asked for it.
        """
        subscription = self.pop(key)
        self.acknowledging.pop(subscription.key, None)
        self._session.broker.subscriptions -= 1
        if subscription.records is not None:
            subscription.records.unsubscribed(subscription, why)
        self._allowance.give_back(subscription.options, len(subscription.destination) + len(subscription.id or ""))
        if subscription.topic is not None:
            subscription.topic.leave(subscription, lost=lost)
            return
        queue = subscription.queue
        assert queue is not None  # no topic, so a queue
        if subscription.reader is not None:
            subscription.reader.end()
        returned.setdefault(queue, []).extend(queue.drop(subscription, lost=lost))
