"""A second, much simpler broker: lists that are searched, no windows kept up to date, no cleverness.

It does not decide who gets a message.  It is told what clients did (`publish`, `settle`, ...) and then reads what the
broker put into their outboxes (`observe`); whatever could not have happened is a failure there:

* a message that somebody else has, or that was consumed before;
* a redelivery that is not marked and counted as one, or a first delivery that is;
* a message to a consumer behind a later one that nobody had before, either;
* a message that waits while a consumer has room, or that waits on one side only;
* other octets, destinations or counts than those that follow from what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.broker.message import Message
from gateway.broker.queue import Queue
from gateway.codec import V10, Head

from .client import Client, Scene, waiting
from .wire import Received, build, parse


@dataclass(eq=False)
class Copy:
    """A message in a store.

    Attributes:
        cost: octets that keeping it costs.
        at: who has it: it is in that consumer's ledger or, in mode auto, in its client's outbox.
        transaction: the open one that holds it.
        attempts: deliveries so far.
        fresh: no outbox ever had it.
    """

    store: Store
    number: int
    body: bytes
    cost: int
    at: Consumer | None = None
    transaction: Transaction | None = None
    attempts: int = 0
    fresh: bool = True
    message: Received | None = None


@dataclass(eq=False)
class Store:
    """A queue, or what one subscription of a topic has not acknowledged; `copies` in order of arrival."""

    owner: Consumer | None = None
    copies: list[Copy] = field(default_factory=list)


@dataclass(eq=False)
class Consumer:
    """A subscription.

    Attributes:
        store: where its messages come from; None for a topic in mode auto.
        ledger: what it has not acknowledged, in order of delivery.
        due: what a topic must have written to it by now.
        latest: number of the latest message that it was the first to get.
    """

    client: Client
    id: str
    destination: str
    mode: str
    store: Store | None = None
    ended: bool = False
    ledger: list[Copy] = field(default_factory=list)
    due: list[bytes] = field(default_factory=list)
    latest: int = 0


@dataclass(eq=False)
class Transaction:
    """What will happen at COMMIT."""

    client: Client
    name: str
    sends: list[tuple[str, bytes, int]] = field(default_factory=list)
    settled: list[tuple[list[Copy], bool]] = field(default_factory=list)

    @property
    def held(self) -> list[Copy]:
        return [copy for copies, _ in self.settled for copy in copies]


class Model:
    """What the broker of a scene must have and do."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.queues: dict[str, Store] = {}
        self.consumers: list[Consumer] = []
        self.transactions: list[Transaction] = []
        self._number = 0
        self._read: dict[Client, int] = {}
        self._parted: list[Store] = []  # of topic subscriptions that are gone, for what transactions still hold

    # what clients do

    def subscribe(self, client: Client, id: str, destination: str, mode: str) -> None:
        consumer = Consumer(client, id, destination, mode)
        if destination.startswith("/queue/"):
            consumer.store = self.queues.setdefault(destination, Store())
        elif mode != "auto":
            consumer.store = Store(owner=consumer)
        self.consumers.append(consumer)

    def unsubscribe(self, consumer: Consumer) -> None:
        consumer.ended = True
        self.consumers.remove(consumer)
        store = consumer.store
        if store is None:
            return
        for copy in [copy for copy in consumer.ledger if copy.transaction is None]:
            self._give_back(copy)
        if store.owner is not None:
            store.copies = [copy for copy in store.copies if copy.at is not None]
            self._parted.append(store)

    def publish(self, destination: str, body: bytes, cost: int, transaction: Transaction | None = None) -> None:
        if transaction is not None:
            transaction.sends.append((destination, body, cost))
            return
        self._number += 1
        if destination.startswith("/queue/"):
            stores = [self.queues.setdefault(destination, Store())]
        else:
            current = [consumer for consumer in self.consumers if consumer.destination == destination]
            stores = [consumer.store for consumer in current if consumer.store is not None]
            for consumer in current:
                if consumer.store is None:
                    consumer.due.append(body)
        for store in stores:
            store.copies.append(Copy(store, self._number, body, cost))

    def covered(self, copy: Copy) -> list[Copy]:
        """What an ACK or NACK of that one settles."""
        consumer = copy.at
        assert consumer is not None
        assert copy.message is not None
        if consumer.client.version is V10:  # names the message alone; the oldest subscription that has it is meant
            id = copy.message.message_id
            own = [each for each in self.consumers if each.client is consumer.client]
            copies = [each for one in own for each in one.ledger if each.message and each.message.message_id == id]
            copy = next(each for each in copies if each.transaction is None)
            assert copy.at is not None
            consumer = copy.at
        if consumer.mode == "client-individual":
            return [copy]
        upto = consumer.ledger[: consumer.ledger.index(copy) + 1]
        return [each for each in upto if each.transaction is None]

    def settle(self, copies: list[Copy], acknowledged: bool, transaction: Transaction | None = None) -> None:
        if transaction is not None:
            transaction.settled.append((copies, acknowledged))
        for copy in copies:
            copy.transaction = transaction
            if transaction is None and acknowledged:
                self._consume(copy)
            elif transaction is None:
                self._give_back(copy)

    def commit(self, transaction: Transaction) -> None:
        self.transactions.remove(transaction)
        for destination, body, cost in transaction.sends:
            self.publish(destination, body, cost)
        for copies, acknowledged in transaction.settled:
            self.settle(copies, acknowledged)

    def abort(self, transaction: Transaction) -> None:
        self.transactions.remove(transaction)
        for copy in transaction.held:
            copy.transaction = None
            if copy.at is not None and copy.at.ended:
                self._give_back(copy)

    def leave(self, client: Client, *, taken: bool) -> None:
        """The client is gone; whether what lay in its outbox was `taken`, so that it may have reached the client."""
        for transaction in [each for each in self.transactions if each.client is client]:
            self.abort(transaction)
        for consumer in [each for each in self.consumers if each.client is client]:
            self.unsubscribe(consumer)
        for copy in self._unwritten(client):
            copy.at = None
            if not taken:
                copy.attempts -= 1

    def written(self, client: Client) -> None:
        """The client's outbox was written; what was in there in mode auto is consumed."""
        for copy in self._unwritten(client):
            copy.store.copies.remove(copy)

    def _unwritten(self, client: Client) -> list[Copy]:
        return [
            copy
            for store in self.queues.values()
            for copy in store.copies
            if copy.at is not None and copy.at.client is client and copy.at.mode == "auto"
        ]

    def _consume(self, copy: Copy) -> None:
        assert copy.at is not None
        copy.at.ledger.remove(copy)
        copy.store.copies.remove(copy)

    def _give_back(self, copy: Copy) -> None:
        assert copy.at is not None
        copy.at.ledger.remove(copy)
        copy.at = None
        if copy.store.owner is not None and copy.store.owner.ended:
            copy.store.copies.remove(copy)

    # what the broker does

    def has_room(self, consumer: Consumer) -> bool:
        outbound = consumer.client.session.outbound
        limit = self.scene.broker.quotas.max_unacknowledged
        return outbound.size < outbound.window and len(consumer.ledger) < limit

    def rivals(self, consumer: Consumer) -> list[Consumer]:
        """Others that have room for what it gives back."""
        others = [each for each in self.consumers if each.store is consumer.store and each is not consumer]
        return [each for each in others if self.has_room(each)]

    def observe(self, *, in_order: bool = True) -> None:
        """Read all that came into outboxes since the last time, and compare what is left.

        What was delivered is older than what waits, unless the step gave something back behind it (`in_order`).
        """
        delivered: dict[Store, int] = {}
        for client in self.scene.clients:
            if not client.closed:
                octets = client.written + b"".join(client.session.outbound.parts)
                start, self._read[client] = self._read.get(client, 0), len(octets)
                for message in parse(octets[start:], client.version):
                    copy = self._delivered(client, message)
                    if copy is not None:
                        delivered[copy.store] = max(copy.number, delivered.get(copy.store, 0))
                if not client.stalled:
                    self.written(client)
        for store, latest in delivered.items():
            assert not in_order or all(copy.number > latest for copy in store.copies if copy.at is None)
        for consumer in self.consumers:
            assert not consumer.due, f"{consumer.destination} did not write everything"
        for name in [name for name, store in self.queues.items() if not store.copies and not self._consumers(store)]:
            del self.queues[name]
        self._compare()

    def _consumers(self, store: Store) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.store is store]

    def _delivered(self, client: Client, message: Received) -> Copy | None:
        (consumer,) = [
            each for each in self.consumers if each.client is client and each.id == message.headers.get("subscription")
        ]
        if consumer.store is None:
            assert consumer.due.pop(0) == message.body
            return None
        (copy,) = [each for each in consumer.store.copies if each.body == message.body]
        assert copy.at is None, f"{message} is with {copy.at} already"
        assert message.redelivered is (copy.attempts > 0)
        assert message.headers.get("delivery-count", "1") == str(copy.attempts + 1)
        copy.attempts += 1
        if copy.fresh:
            assert copy.number > consumer.latest, f"{message} comes too late"
            consumer.latest = copy.number
            copy.fresh = False
        copy.at = consumer
        copy.message = message
        if consumer.mode != "auto":
            consumer.ledger.append(copy)
            assert len(consumer.ledger) <= self.scene.broker.quotas.max_unacknowledged
        return copy

    def _compare(self) -> None:
        broker = self.scene.broker
        cost = sum(cost for transaction in self.transactions for _, _, cost in transaction.sends)
        private = [each.store for each in self.consumers if each.store is not None and each.store.owner is not None]
        for store in (*self.queues.values(), *private, *self._parted):
            kept = [copy for copy in store.copies if copy.at is None or copy.at.mode != "auto"]
            cost += sum(copy.cost for copy in kept)
            if any(copy.at is None for copy in kept):
                assert not any(self.has_room(consumer) for consumer in self._consumers(store))
        assert broker.stored_octets == cost
        for name, store in self.queues.items():
            bodies = [copy.body for copy in store.copies if copy.at is None]
            target = broker.destinations.get(name)
            assert bodies == ([message.body for message in waiting(target)] if isinstance(target, Queue) else [])
        wanted = {consumer.destination for consumer in self.consumers}
        wanted |= {name for name, store in self.queues.items() if any(copy.at is None for copy in store.copies)}
        assert wanted == set(broker.destinations)


def cost_of(client: Client, headers: dict[str, str], body: bytes) -> int:
    """What keeping that SEND costs."""
    block = build("SEND", headers, version=client.version).index(b"\n\n")
    return Message(0, Head("SEND", headers, -1, block), body).size
