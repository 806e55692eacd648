"""Watches the broker and compares: whatever the model of it says could not have happened is a failure here.

After each step of a client, or of time, `Watch.look` reads what came into the outboxes.  Octets are compared, and the
order among different outboxes is recorded where queues give out messages (`Subscription.deliver`).  A failure is

* a message that somebody else has, that was settled before, or that nobody sent, or not here, or not yet;
* a redelivery that is not marked and counted as one, or a first delivery that is;
* a message to a consumer behind a later one of its priority that nobody had before, either;
* a message that overtakes one which waited before it and which the consumer could have had;
* a message to somebody who does not want it, stands by, has too many, or is not the owner of its group;
* a message to somebody while another of higher priority has room, or to him who rejected it while another has;
* a message whose time is over, or has not come;
* a message that waits while a consumer has room, or that waits on one side only;
* one that was given up though its queue was not full, or not the one whose turn it was;
* other headers, counts, books, or destinations than those that follow from what is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pytest

from gateway.broker import Session
from gateway.broker.errors import SlowConsumer
from gateway.broker.message import Message
from gateway.broker.queue import Queue
from gateway.broker.subscription import Subscription
from gateway.codec import ProtocolError

from .client import Client, waiting
from .model import Model
from .model_books import Consumer, Copy, Due, Store
from .wire import Received, parse

# Of a SEND: what only steers the broker.
_NOT_FOR_SUBSCRIBERS = {"transaction", "receipt", "x-delay", "_AMQ_SCHED_DELIVERY", "dedup-id", "retain"}
Name = tuple[bytes, str, str]
Delivered = set[tuple[Store, Name]]


class Watch:
    """Reads what the broker does and tells the model.

    Attributes:
        failing: a client whose last frame was wrong, and who is to be closed for it.
        names: what outstanding messages were ever called by: client, subscription and the headers of the MESSAGE.
    """

    def __init__(self, model: Model, patch: pytest.MonkeyPatch) -> None:
        self.model = model
        self.scene = model.scene
        self.failing: Client | None = None
        self.names: list[tuple[Client, str, Received]] = []
        self._log: list[tuple[Subscription, Message] | tuple[Session, ProtocolError]] = []
        self._read_up_to: dict[Client, int] = {}
        self._came: dict[Client, int] = {}  # octets in this step
        self._frames: dict[Client, deque[Received]] = {}
        self._had_room: dict[Consumer, int] = {}  # octets in the outbox when the step began
        self._messages = 0
        self._unread = False  # what came last to somebody did not reach him
        self._record(patch)

    def _record(self, patch: pytest.MonkeyPatch) -> None:
        deliver, fail, log = Subscription.deliver, Session.fail, self._log

        def delivered(subscription: Subscription, message: Message) -> None:
            log.append((subscription, message))
            deliver(subscription, message)

        def failed(session: Session, error: ProtocolError, *frame: object) -> None:
            log.append((session, error))
            fail(session, error, *frame)  # type: ignore[arg-type]

        patch.setattr(Subscription, "deliver", delivered)
        patch.setattr(Session, "fail", failed)

    def look(self) -> None:
        """Read all that came since the last time, and compare what is left."""
        model = self.model
        for client in self.scene.clients:
            self._read(client)
        self._find_given_up({self._store_of(*each) for each in self._log if isinstance(each[1], Message)})
        for entry in self._log:
            if isinstance(entry[1], Message):
                self._deliver(*entry)  # type: ignore[arg-type]
            else:
                self._fail(*entry)  # type: ignore[arg-type]
        for client, frames in self._frames.items():
            self._pass_by(client, frames, None)
            if not client.stalled and not client.closed:
                model.written(client)
        assert self.failing is None, "a wrong frame was taken"
        self._find_given_up(set())
        self._compare()
        self._had_room = {each: each.client.session.outbound.size for each in model.consumers if self.has_room(each)}
        self._log.clear()
        model.step += 1

    def has_room(self, consumer: Consumer) -> bool:
        """Whether a queue could give it something."""
        outbound = consumer.client.session.outbound
        return not consumer.browser and outbound.size < outbound.window and self._may_have_more(consumer)

    def _may_have_more(self, consumer: Consumer) -> bool:
        asked = consumer.prefetch
        most = self.scene.broker.quotas.max_unacknowledged if asked is None else asked
        held = sum(copy.size for copy in consumer.ledger)
        return (not most or len(consumer.ledger) < most) and (consumer.octets is None or held < consumer.octets)

    # outboxes

    def _read(self, client: Client) -> None:
        self._frames[client] = deque()
        if client.closed and client not in self._read_up_to:
            return
        octets = client.written + b"".join(client.session.outbound.parts)
        start, self._read_up_to[client] = self._read_up_to.get(client, 0), len(octets)
        frames = parse(octets[start:], client.version)
        self._came[client] = len(octets) - start
        self._frames[client].extend(frame for frame in frames if frame.command == "MESSAGE")
        if client.closed:
            del self._read_up_to[client]

    def _consumer(self, client: Client, id: str | None) -> Consumer:
        found = [each for each in self.model.consumers if each.client is client and each.id == id]
        assert found, f"{client} gets something for {id}, which it does not have"
        return found[0]

    def _client(self, session: Session) -> Client:
        return next(each for each in self.scene.clients if each.session is session)

    def _pass_by(self, client: Client, frames: deque[Received], until: Consumer | None) -> None:
        """Read frames of topics and browsers, up to that which a queue gave to a consumer; None: all."""
        while frames and (until is None or frames[0].subscription != until.id):
            frame = frames.popleft()
            consumer = self._consumer(client, frame.headers.get("subscription"))
            if frame.headers.get("browser") == "end":
                assert consumer.browser == "end"
                assert not [each for each in consumer.due if each.copy is None or each.copy.waits]
                assert consumer.store is not None
                consumer.store.browsers.remove(consumer)
                consumer.browser, consumer.store = "ended", None
                continue
            self._messages += 1
            self._is_due(consumer, frame)

    def _is_due(self, consumer: Consumer, frame: Received) -> None:
        """A topic's message, or one that a browser is shown."""
        name = _name(frame.body, frame.headers)
        while True:
            assert consumer.due, f"{frame} is nothing for {consumer.destination}"
            now = [each for each in consumer.due if each.number == consumer.due[0].number]
            found = [each for each in now if each.name == name]
            if found:
                break
            skipped = consumer.due.pop(0)
            assert skipped.copy is not None, f"{frame} comes before {skipped.name}"
            assert not skipped.copy.waits or skipped.copy.since == self.model.step, f"{skipped.name} was left out"
        consumer.due.remove(found[0])
        assert not frame.redelivered
        self._check_headers(frame, found[0].told)

    def _check_headers(self, frame: Received, told: Mapping[str, str]) -> None:
        for name in ("retained", "reason", *(name for name in (*frame.headers, *told) if name.startswith("dlq-"))):
            assert frame.headers.get(name) == told.get(name), f"{name} of {frame} is not {told.get(name)}"
        assert not _NOT_FOR_SUBSCRIBERS & set(frame.headers)
        assert not told.get("dlq-source") or "expires" not in frame.headers

    # deliveries of queues

    def _store_of(self, subscription: Subscription, message: Message) -> tuple[Store, Name]:
        consumer = self._consumer(self._client(subscription.session), subscription.id)
        assert consumer.store is not None
        return consumer.store, _name(message.body, message.head.headers)

    def _deliver(self, subscription: Subscription, message: Message) -> None:
        client = self._client(subscription.session)
        consumer = self._consumer(client, subscription.id)
        store, name = self._store_of(subscription, message)
        found = [each for each in store.copies if each.name == name]
        assert found, f"{consumer.id} gets {name}, which {store.name} does not have"
        (copy,) = found
        self._check_delivery(copy, consumer)
        frames = self._frames[client]
        if not (client.stalled and any(isinstance(error, SlowConsumer) for error in client.failures)):
            self._pass_by(client, frames, consumer)
            frame = frames.popleft()
            assert _name(frame.body, frame.headers) == name
            assert frame.redelivered is (copy.attempts > 0)
            assert frame.headers.get("delivery-count", "1") == str(copy.attempts + 1)
            self._check_headers(frame, copy.told)
            copy.message = frame
        self._note_delivery(copy, consumer)
        copy.size = message.size

    def _note_delivery(self, copy: Copy, consumer: Consumer) -> None:
        self._messages += 1
        self.model.counts["redelivered"] += copy.attempts > 0
        copy.attempts += 1
        copy.at = consumer
        if copy.fresh and not copy.held and not copy.vague:
            priority = copy.sent.priority
            assert copy.place >= consumer.latest.get(priority, 0), f"{copy} comes too late"
            consumer.latest[priority] = copy.place
        copy.fresh = False
        group = copy.sent.group
        if group is not None:
            copy.store.groups[group] = consumer
        if copy.sent.closes_group:
            copy.store.groups.pop(group or "", None)
        copy.store.free_groups()
        if consumer.mode != "auto":
            consumer.ledger.append(copy)
            if copy.message is not None:
                self.names.append((consumer.client, consumer.id, copy.message))

    def _check_delivery(self, copy: Copy, consumer: Consumer) -> None:
        store, now = copy.store, self.scene.now
        assert copy.at is None, f"{copy} is with {copy.at.id} already"
        assert copy.back is None, f"{copy} comes back too early"
        assert not copy.expires or copy.expires > now, f"{copy} has expired"
        assert consumer.wants(copy.sent), f"{copy} does not fulfil {consumer.selector}"
        assert not store.stands_by(consumer), f"{consumer.id} stands by"
        assert store.is_for(copy, consumer, self.model.step), f"{copy} is of a group of {store.owner_of(copy)}"
        assert self._may_have_more(consumer), f"{consumer.id} has enough"
        for other in store.waiting:
            if (
                not other.vague
                and not copy.vague
                and other.order < copy.order
                and other.since < self.model.step
                and other.avoid is not consumer
            ):
                gone = other.expires and other.expires <= now
                assert gone or not store.is_for(other, consumer, self.model.step), f"{copy} overtakes {other}"
        if store.owner_of(copy) is None:
            for rival in store.consumers:
                if rival is not consumer and self._could_have(rival, copy):
                    assert rival.priority <= consumer.priority or copy.avoid is rival, f"{rival.id} has priority"
                    assert copy.avoid is not consumer, f"{rival.id} had room, too"

    def _could_have(self, rival: Consumer, copy: Copy) -> bool:
        """Whether it had room when the step began, and has it now, whatever came in between."""
        octets = self._had_room.get(rival)
        outbound = rival.client.session.outbound
        if octets is None or octets + self._came.get(rival.client, 0) >= outbound.window:
            return False
        return copy.store.is_for(copy, rival, self.model.step) and self._may_have_more(rival)

    def _fail(self, session: Session, error: ProtocolError) -> None:
        """The broker ends a session."""
        client = self._client(session)
        if isinstance(error, SlowConsumer):
            own = [each.store for each in self.model.consumers if each.client is client and each.store is not None]
            full = [each for each in own if each.action == "disconnect" and len(each.waiting) > each.limit]
            assert full, f"{client} was closed for no reason"
            self.model.counts["slow_consumers"] += 1
        else:
            assert client is self.failing, error
            self.failing = None
        self.model.counts["errors"] += 1
        self._pass_by(client, self._frames[client], None)
        if not client.stalled:
            self.model.written(client)
        self.model.leave(client, taken=True, lost=True)
        self._unread = client.stalled and isinstance(error, SlowConsumer)

    # what waits

    def _queue_of(self, store: Store) -> Queue | None:
        if store.owner is not None:
            return None if store.parted else store.owner.subscription.queue
        found = self.scene.broker.destinations.get(store.name)
        assert found is None or isinstance(found, Queue)
        return found

    def _waiting(self, store: Store) -> list[Name]:
        queue = self._queue_of(store)
        return [] if queue is None else [_name(each.body, each.head.headers) for each in waiting(queue)]

    def _find_given_up(self, delivered: Delivered) -> None:
        """Messages that neither wait any more nor went to a consumer: there must be a reason."""
        for store in self.model.stores:
            if store.action not in ("", "block") or store.conflate_by or any(each.key for each in store.copies):
                there = set(self._waiting(store)) if not self._is_closed(store) else set()
                gone = [
                    copy for copy in store.waiting if copy.name not in there and (store, copy.name) not in delivered
                ]
                if gone and not self._is_closed(store):
                    self._give_up(store, gone, delivered)

    def _is_closed(self, store: Store) -> bool:
        """Its client was closed in this step, and the model has not been told yet."""
        return store.parted or (store.owner is not None and store.owner.client.closed)

    def _give_up(self, store: Store, gone: list[Copy], delivered: Delivered) -> None:
        step = self.model.step
        for copy in sorted([copy for copy in gone if copy.key is not None], key=lambda copy: copy.number):
            news = [each for each in store.copies if each.key == copy.key and each.number > copy.number]
            news = [each for each in news if each.waits or each.since == step]
            if news:
                self.model.conflated(copy, min(news, key=lambda each: each.number))
                gone.remove(copy)
        if not gone:
            return
        assert store.limit, f"{[copy.name for copy in gone]} lost"
        left = [copy for copy in store.waiting if copy not in gone and (store, copy.name) not in delivered]
        assert len(left) + len(delivered) >= store.limit, f"{store.name} was not full"
        if store.action == "drop-newest":
            assert all(copy.since == step for copy in gone)
        else:
            assert store.action in ("drop-oldest", "dead-letter")
            last = max(copy.number for copy in gone)
            before = [each for each in left if not (each.since == step and each.is_back)]
            assert all(each.number > last for each in before), f"not the oldest: {[each.name for each in gone]}"
        for copy in gone:
            self.model.queue_is_full(copy)

    # comparison

    def _compare(self) -> None:
        model, broker = self.model, self.scene.broker
        for store in model.stores:
            self._compare_store(store)
        for consumer in model.consumers:
            self._compare_consumer(consumer)
        names = {name for name in model.queues if self._is_used(model.queues[name])}
        topics = {each.destination for each in model.consumers if not each.destination.startswith("/queue/")}
        patterns = {name for name in topics if "*" in name or "#" in name}
        assert set(broker.destinations) == names | (topics - patterns)
        assert {each.name for each in broker.router.patterns.values()} == patterns
        for name in [name for name, store in model.queues.items() if not store.copies and not self._is_used(store)]:
            del model.queues[name]
        assert broker.router.delayed == len(model.delayed)
        assert len(broker.router.retained) == len(model.retained)
        self._compare_counts()

    def _is_used(self, store: Store) -> bool:
        comes = [copy for copy in store.copies if copy.at is None]
        return bool(store.consumers or store.browsers or comes)

    def _compare_store(self, store: Store) -> None:
        queue = self._queue_of(store)
        mine = store.waiting
        assert sorted(self._waiting(store)) == sorted(copy.name for copy in mine), store.name
        assert queue is None or queue.delayed == sum(copy.back is not None for copy in store.copies)
        places = {copy.name: copy.order for copy in mine if not copy.vague}
        order = [places[name] for name in self._waiting(store) if name in places]
        assert order == sorted(order)
        returned = sum(copy.since == self.model.step and copy.is_back for copy in mine)
        store.most = max(store.limit, min(store.most, len(mine)) + returned)
        assert not store.limit or store.action == "block" or len(mine) <= store.most, f"{store.name} is too full"
        assert not (queue and queue.full) or len(mine) >= store.limit > 0
        keys = [copy.key for copy in mine if copy.key is not None]
        assert len(keys) == len(set(keys)), "a newer one did not replace an older one"
        store.free_groups()
        for copy in mine:
            copy.held = copy.held or store.owner_of(copy) is not None
            for consumer in store.consumers:
                free = self.has_room(consumer) and store.is_for(copy, consumer, self.model.step + 1)
                assert not free, f"{copy} waits, and {consumer.id} has room"

    def _compare_consumer(self, consumer: Consumer) -> None:
        outbound = consumer.client.session.outbound
        if consumer.browser != "ended" and (not consumer.browser or outbound.size < outbound.window):
            left = [each for each in consumer.due if each.copy is None or each.copy.waits]
            assert not left, f"{consumer.destination} did not tell everything"
            assert consumer.browser != "end", "the browser has no end"
        subscription = consumer.subscription
        ledger = (subscription.ledger or {}).values()
        held = [_name(each.message.body, each.message.head.headers) for each in ledger]
        assert held == [copy.name for copy in consumer.ledger]
        assert subscription.held_octets == sum(copy.size for copy in consumer.ledger)

    def _compare_counts(self) -> None:
        counters, counts = self.scene.broker.counters, self.model.counts
        exact = "published redelivered unroutable acknowledged rejected dead_lettered expired duplicates errors"
        for name in [*exact.split(), "slow_consumers"]:
            assert getattr(counters, name) == counts[name], name
        if self._unread:
            self._messages, self._unread = counters.delivered, False
        assert counters.delivered == self._messages
        # Whether a limit or a newer one ended it cannot always be seen; what was under way is not thrown away.
        least = counts["dropped"] + counts["conflated"]
        assert least <= counters.dropped + counters.conflated <= least + counts["parted"]


def _name(body: bytes, headers: Mapping[str, str]) -> Name:
    return body, headers["destination"], headers.get("dlq-source", "")


__all__ = ["Due", "Watch"]
