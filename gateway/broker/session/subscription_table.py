"""Subscriptions of a session, by the ids that their SUBSCRIBE gave them: how one comes, and how it goes.

A subscription that goes leaves its queue first; the messages that it did not settle are collected (`Returned`).  The
queues take them back when all subscriptions that go together have gone.
"""

from collections.abc import Iterator
from itertools import chain

from gateway.codec import Frame, Version

from ..core.context import Context
from ..core.outbox import Outbox
from ..core.ports import Peer
from ..errors import HeaderMissing, NotAllowed, hint
from ..headers.parse import misspelt, subscribe_options, unsubscribe_options
from ..headers.table import ack_mode
from ..model.destinations import is_temporary
from ..model.options import AckMode, SubscribeOptions
from ..queue.subscription import ConsumedQueue, Returned, Subscription, take_back_all
from ..routing.router import Router
from ..topic.durable_subscriptions import SubscriptionName, name_of
from .join import join
from .naming import Naming
from .temporary import TemporaryDestinations

_MODES = {mode.value: mode for mode in AckMode}
ENDS_PER_STEP = 16
"""Subscriptions that end in one step: some 0.2 ms."""


class SessionQuota:
    """The browsers, selectors and names that the subscriptions of one session may have, because others pay for them."""

    __slots__ = ("_browsers", "_most_names", "_names", "_selectors")

    # Each is a list of all that waits in a queue.
    MOST_BROWSERS = 16
    # Characters; a selector is asked about each message that other sessions send.
    MOST_SELECTORS = 64 * 1024

    def __init__(self, most_names: int) -> None:
        self._browsers = self._selectors = self._names = 0
        self._most_names = most_names  # characters, see `WorkLimits`

    def check(self, options: SubscribeOptions, names: int) -> None:
        """Raise NotAllowed if a limit would be exceeded.  `names`: characters of the id and the destination."""
        if options.browser and self._browsers >= self.MOST_BROWSERS:
            raise NotAllowed("too many browsers", f"a session may have {self.MOST_BROWSERS} at the same time")
        if options.selector_text and self._selectors + len(options.selector_text) > self.MOST_SELECTORS:
            raise NotAllowed(
                "too many selectors", f"the selectors of a session may have {self.MOST_SELECTORS} characters together"
            )
        if self._names + names > self._most_names:
            raise NotAllowed(
                "subscription names are too long",
                "the ids and destinations of a session's subscriptions may have "
                f"{self._most_names} characters together",
            )

    def count(self, options: SubscribeOptions, names: int, *, sign: int) -> None:
        """Count a subscription that begins (`sign` 1), or has ended (-1)."""
        self._browsers += sign * options.browser
        self._selectors += sign * len(options.selector_text)
        self._names += sign * names


class Subscriptions(dict[str | tuple[str], Subscription]):
    """The subscriptions of one session, by their keys."""

    __slots__ = ("_context", "_form", "_keys", "_outbox", "_peer", "_quota", "_router", "_temporaries", "naming")

    def __init__(
        self,
        context: Context,
        router: Router,
        peer: Peer,
        outbox: Outbox,
        temporaries: TemporaryDestinations,
        version: Version,
        form: int,
    ) -> None:
        super().__init__()
        self._context = context
        self._router = router
        self._peer = peer
        self._outbox = outbox
        self._temporaries = temporaries
        self._form = form  # in which their MESSAGEs are written, see `encoder.FORMS`
        self._quota = SessionQuota(context.work_limits.subscription_characters)
        self._keys = 0
        self.naming = Naming(version, self, lenient=context.quotas.lenient)  # how frames mean them

    @property
    def acknowledging(self) -> dict[str, Subscription]:
        """The subscriptions that must acknowledge messages, by the key of their `ack` handles."""
        return self.naming.acknowledging

    def subscribe(self, frame: Frame, *, paused: bool) -> Subscription:
        """Add what a SUBSCRIBE asks for; `paused`: it waits for `start`.  Raises ProtocolError: nothing is added."""
        headers = frame.headers
        destination = headers.get("destination")
        if destination is None:
            raise HeaderMissing("SUBSCRIBE", "destination")
        subscription_id = self.naming.subscription_id_of(frame)
        mode = _MODES.get(ack_mode(headers.get("ack", "auto")))
        if mode is None:
            mode_hint = hint(headers["ack"], _MODES)
            raise NotAllowed("unknown ack mode", f"{headers['ack'][:40]!r} is none of {', '.join(_MODES)}{mode_hint}")
        subscription = self.add(destination, subscription_id, mode, subscribe_options(headers), paused=paused)
        # Told of behind `add`: what is refused has an ERROR, and needs no line in the log.
        for header in misspelt(headers):
            self._context.counters.misspelt_headers += 1
            self._context.on_misspelt(header, self._peer.id, self._peer.login)
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
        """Add one.  Raises ProtocolError: it is not allowed, or too many; nothing is added."""
        # In 1.0 a SUBSCRIBE may have no `id`.  Its destination stands in a tuple, so that it is never taken for an id.
        name: str | tuple[str] = (destination,) if subscription_id is None else subscription_id
        if name in self:
            raise NotAllowed(
                "subscription id in use",
                f"this connection has the subscription {(subscription_id or destination)[:80]!r}; choose another id",
            )
        limit = self._context.quotas.max_subscriptions
        if len(self) >= limit:
            raise NotAllowed("too many subscriptions", f"a session may have {limit} (max_subscriptions)")
        if options.browser and mode is not AckMode.AUTO:
            raise NotAllowed("a browser consumes nothing", "with browser:true the ack mode must be auto")
        names = len(destination) + len(subscription_id or "")
        self._quota.check(options, names)
        # Never used again in this session, so that an ACK of an old handle cannot name a delivery of a later one.
        self._keys += 1
        subscription = Subscription(
            self._context,
            self._peer,
            self._outbox,
            self._form,
            subscription_id,
            str(self._keys),
            destination,
            mode,
            options,
            self.naming.by_message_id,
        )
        if paused:
            subscription.pause()
        # It may raise, so all counts come behind it: nothing has to be taken back.
        join(self._context, self._router, subscription)
        self._context.subscriptions += 1
        self._quota.count(options, names, sign=1)
        self[name] = subscription
        subscription.records.subscribed(subscription)
        if self._context.announcer is not None:
            self._context.announcer.subscribed(subscription)
        if subscription.ledger is not None:
            self.acknowledging[subscription.key] = subscription
        return subscription

    def unsubscribe(self, frame: Frame) -> None:
        """End what an UNSUBSCRIBE names, perhaps for good.  Raises ProtocolError: it names none, or two; none ends."""
        durable_subscriptions = self._router.registry.durable_subscriptions
        ends = unsubscribe_options(frame.headers)
        durable = None
        # The only kind that can be named without being consumed here.
        if ends is not None and ends.durable_name:
            durable = name_of(ends, self._peer, None, "")
        if durable is None or self.naming.is_named(frame):
            key = self.naming.subscription_named(frame)
            subscription = self[key]
            filled = durable_subscriptions.of(subscription.queue)
            # What ends for good loses its messages, so a frame that names two ends none.
            if durable is not None and (filled is None or filled.name != durable.text):
                raise NotAllowed(
                    "UNSUBSCRIBE names two subscriptions",
                    f"what it ends for good is {durable.text[:80]!r}, and its id is that of another one",
                )
            if ends is not None and ends.resume:
                self._router.replay.offsets.end(self._peer, ends.resume)
            if ends is not None and ends.durable and filled is not None:
                durable = SubscriptionName(filled.name, lasts=True)
            returned: Returned = {}
            self.end(key, returned)
            take_back_all(returned)
            if is_temporary(subscription.destination):
                self._temporaries.release(subscription.destination)
            # It has gone with its last consumer.
            if filled is not None and durable_subscriptions.get(filled.name) is None:
                return
        if durable is not None:
            durable_subscriptions.end(durable.text)

    def stop(self) -> None:
        """Get nothing more from queues: all subscriptions end soon."""
        queues: dict[ConsumedQueue, None] = {}
        for subscription in self.values():
            queue = subscription.queue
            if queue is not None and not subscription.ended:
                subscription.stop()
                # One that only browses is no consumer.
                if subscription in queue.subscriptions:
                    queues[queue] = None
        for queue in queues:
            queue.stopped()

    def ending(self, returned: Returned, *, lost: bool) -> Iterator[None]:
        """End all subscriptions, which were stopped, in steps; each queue takes its messages back in one step.

        `returned`: further messages that queues are to take back.  `lost`: the client did not end it: the message that
        it was at work on has failed.
        """
        # All of one queue end in one step: a message on its way back must not be overtaken.  And the queue takes back
        # behind the last of them: else it would give the messages of the first to the second.
        by_queue: dict[ConsumedQueue, list[str | tuple[str]]] = {queue: [] for queue in returned}
        topics = []
        for key, subscription in self.items():
            if subscription.queue is None:
                topics.append(key)
            else:
                by_queue.setdefault(subscription.queue, []).append(key)
        ended = 0
        for queue, keys in chain(by_queue.items(), ((None, [key]) for key in topics)):
            # In steps: a session may have 20,000, and others must have their turn.
            if ended >= ENDS_PER_STEP:
                ended = 0
                yield
            ended += len(keys)
            for key in keys:
                if key in self:  # the session may have been closed meanwhile
                    self.end(key, returned, lost=lost, why="session ended")
            if queue is not None:
                queue.take_back(returned.pop(queue, ()))

    def end(self, key: str | tuple[str], returned: Returned, *, lost: bool = False, why: str | None = None) -> None:
        """End one subscription; the messages that its queue must take back go into `returned`.

        `lost`: as in `ending`.  `why`: for the records; None: the client asked for it.
        """
        subscription = self.pop(key)
        self.acknowledging.pop(subscription.key, None)
        self._context.subscriptions -= 1
        subscription.records.unsubscribed(subscription, why)
        if self._context.announcer is not None:
            self._context.announcer.unsubscribed(subscription)
        names = len(subscription.destination) + len(subscription.id or "")
        self._quota.count(subscription.options, names, sign=-1)
        self._router.replay.offsets.leave(subscription)
        self._router.presence.leave(subscription, is_goodbye=why is None or self._peer.ended)
        # A private queue goes with its topic's subscription: nothing comes back to it.
        if subscription.topic is not None:
            subscription.topic.leave(subscription, lost=lost)
            return
        queue = subscription.queue
        assert queue is not None  # no topic, so a queue
        if subscription.reader is not None:
            subscription.reader.end()
        returned.setdefault(queue, []).extend(queue.drop(subscription, lost=lost))
