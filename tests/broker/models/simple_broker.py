"""A second, much simpler broker: lists that are searched, no windows kept up to date, no cleverness.

It does not decide who gets a message.  It is told what clients did and how time passes (here), and `model_watch` then
reads what the broker put into their outboxes; whatever could not have happened is a failure there.  What is kept stands
in `model_books`, and what becomes of it in `model_fates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.broker.model.message import Message
from gateway.codec import V10, Head

from ..client import Client, Scene
from ..model.pattern_cases import is_match
from ..wire import build
from .model_books import Consumer, Copy, Due, Name, Rules, Sent, Settlement, Store, Transaction
from .model_fates import Fates

DEDUP_WINDOW = 2.0


class Model(Fates):
    """What the broker of a scene must have and do.

    Attributes:
        delayed: due, what, and to which destinations.
        retained: topic -> what it keeps, and the number under which that came.
    """

    def __init__(self, scene: Scene, rules: Mapping[str, Rules]) -> None:
        super().__init__(scene, rules)
        self.transactions: list[Transaction] = []
        self.delayed: list[tuple[float, Sent, list[str]]] = []
        self.retained: dict[str, tuple[Sent, int]] = {}
        self._seen: dict[tuple[str, str], float] = {}

    # SUBSCRIBE, UNSUBSCRIBE

    def subscribe(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        if not consumer.destination.startswith("/queue/"):
            self._subscribe_topic(consumer)
            return
        store = consumer.store = self.queue(consumer.destination)
        if not consumer.browser:
            store.consumers.append(consumer)
            store.free_groups()
            store.abandoned = False
            return
        store.browsers.append(consumer)
        now = self.scene.now
        shown = [copy for copy in store.waiting if consumer.wants(copy.sent) and not copy.has_expired(now)]
        consumer.due += [Due(copy.number, copy.name, copy.told, copy, copy.expires) for copy in shown]

    def _subscribe_topic(self, consumer: Consumer) -> None:
        rules = self.rules_of(consumer.destination)
        blocks = rules.slow_consumer == "block" and consumer.slow is None
        if not blocks or consumer.mode != "auto":
            store = consumer.store = Store(consumer.destination, rules, consumer)
            store.consumers.append(consumer)
            if not blocks:
                store.limit = consumer.slow or rules.slow_messages
                # A client that says how much may wait for it does not want to be waited for.
                store.action = "drop-oldest" if rules.slow_consumer in ("block", "conflate") else rules.slow_consumer
                store.conflate_by = rules.conflate_by if rules.slow_consumer == "conflate" else ""
        for name, (sent, number) in self.retained.items():
            if is_match(consumer.destination, name) and consumer.wants(sent):
                consumer.retained.append((sent, name, number))

    def show(self, consumer: Consumer, name: Name) -> None:
        """A topic's subscriber comes to what was retained under that name."""
        (found,) = [each for each in consumer.retained if (each[0].body, each[1], "") == name]
        consumer.retained.remove(found)
        sent, part, number = found
        if consumer.store is not None and not 0 < sent.expires <= self.scene.now:
            self.to_subscriber(consumer.store, sent, part, number, {"retained": "true"})

    def unsubscribe(self, consumer: Consumer, *, lost: bool = False) -> None:
        """A subscription ends; `lost`: its client did not say so, and failed at what it had longest."""
        consumer.ended = True
        self.consumers.remove(consumer)
        store = consumer.store
        if store is None:
            return
        if consumer.browser:
            store.browsers = [each for each in store.browsers if each is not consumer]
            return
        store.consumers.remove(consumer)
        store.groups = {group: owner for group, owner in store.groups.items() if owner is not consumer}
        free = [copy for copy in consumer.ledger if copy.transaction is None]
        if lost and free:
            free[0].reason = ""
            self.fail(free[0])
        for copy in free:
            if not copy.gone:
                copy.left_by = self.step
                self.give_back(copy)
            consumer.ledger.remove(copy)
        store.abandoned = store.rules.auto_delete and not store.consumers
        if store.parted:
            self.parted.append(store)
        if store.parted or store.abandoned:
            for copy in store.waiting:
                self.end(copy, "dropped")

    # SEND

    def publish(self, sent: Sent, transaction: Transaction | None = None) -> None:
        if transaction is not None:
            transaction.sends.append(sent)
            return
        parts = [part for part in sent.destinations if not sent.dedup_id or self._is_new(part, sent.dedup_id)]
        due = sent.moment or self.scene.now + sent.delay
        if due > self.scene.now and parts:
            self.delayed.append((due, sent, parts))
        else:
            self._arrive(sent, parts)

    def _is_new(self, part: str, dedup_id: str) -> bool:
        if self.scene.now - self._seen.get((part, dedup_id), -DEDUP_WINDOW) < DEDUP_WINDOW:
            self.counts["duplicates"] += 1
            return False
        self._seen[part, dedup_id] = self.scene.now
        return True

    def _arrive(self, sent: Sent, parts: Iterable[str]) -> None:
        for part in parts:
            self.number += 1
            self.counts["published"] += 1
            if part.startswith("/queue/"):
                self.to_queue(sent, part, self.number)
            elif sent.expires and sent.expires <= self.scene.now:
                self.counts["expired"] += 1
            else:
                self._to_topic(sent, part)

    def _to_topic(self, sent: Sent, part: str) -> None:
        if sent.retain:
            self.retained.pop(part, None)
            for consumer in self.consumers:
                consumer.retained = [each for each in consumer.retained if each[1] != part]
        if sent.retain == "set":
            self.retained[part] = (sent, self.number)
        found = [each for each in self.consumers if is_match(each.destination, part)]
        if not found:
            self.counts["unroutable"] += 1
        for consumer in found:
            if consumer.wants(sent) and not (consumer.no_local and consumer.client is sent.client):
                if consumer.store is None:
                    consumer.due.append(Due(self.number, (sent.body, part, "")))
                else:
                    self.to_subscriber(consumer.store, sent, part, self.number)

    # ACK, NACK

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

    def settle(self, settlement: Settlement, transaction: Transaction | None = None) -> None:
        if transaction is not None:
            transaction.settlements.append(settlement)
        for copy in settlement.copies:
            copy.transaction = transaction
            if transaction is None:
                assert copy.at is not None
                copy.at.ledger.remove(copy)
                if settlement.acknowledged:
                    self.end(copy, "acknowledged")
                else:
                    self.reject(copy, settlement)

    # transactions

    def commit(self, transaction: Transaction) -> None:
        self.transactions.remove(transaction)
        for sent in transaction.sends:
            self.publish(sent)
        for settlement in transaction.settlements:
            self.settle(settlement)

    def abort(self, transaction: Transaction) -> None:
        self.transactions.remove(transaction)
        for copy in transaction.held:
            copy.transaction = None
            if copy.at is not None and copy.at.ended:
                copy.at.ledger.remove(copy)
                self.give_back(copy)

    # the connection

    def leave(self, client: Client, *, taken: bool, lost: bool) -> None:
        """The client is gone.

        Args:
            taken: what lay in its outbox may have reached it, and comes back only when the connection is closed.
            lost: it did not say goodbye.
        """
        for transaction in [each for each in self.transactions if each.client is client]:
            self.abort(transaction)
        for consumer in [each for each in self.consumers if each.client is client]:
            self.unsubscribe(consumer, lost=lost)
        for copy in self._unwritten(client):
            if not taken:
                copy.attempts -= 1
                copy.left_by = self.step
            self.give_back(copy)

    def written(self, client: Client) -> None:
        """The client's outbox was written; what was in there in mode auto is consumed."""
        for copy in self._unwritten(client):
            self.end(copy, "")

    def _unwritten(self, client: Client) -> list[Copy]:
        copies = [copy for store in self.stores for copy in store.copies if copy.at is not None]
        return [copy for copy in copies if copy.at and copy.at.client is client and copy.at.mode == "auto"]

    # time

    @property
    def next(self) -> float | None:
        """When something happens of itself."""
        copies = [copy for store in self.stores for copy in store.copies]
        dates = [due for due, _, _ in self.delayed]
        dates += [copy.back for copy in copies if copy.back is not None]
        dates += [copy.expires for copy in copies if copy.waits and copy.expires]
        dates += [sent.expires for sent, _ in self.retained.values() if sent.expires]
        return min(dates, default=None)

    def pass_time(self) -> None:
        """What is due now happens."""
        now = self.scene.now
        due = sorted([each for each in self.delayed if each[0] <= now], key=lambda each: each[0])
        self.delayed = [each for each in self.delayed if each[0] > now]
        for name, (sent, _) in list(self.retained.items()):
            if sent.expires and sent.expires <= now:
                del self.retained[name]
                self.counts["expired"] += 1
        copies = [copy for store in self.stores for copy in store.copies]
        for copy in copies:
            if copy.back is not None and copy.back <= now:
                self.give_back(copy)
            elif copy.waits and copy.has_expired(now):
                self.expire(copy)
        for _, sent, parts in due:
            self._arrive(sent, parts)


def cost_of(client: Client, headers: dict[str, str], body: bytes) -> int:
    """What keeping that SEND costs."""
    block = build("SEND", headers, version=client.version).index(b"\n\n")
    return Message(0, Head("SEND", headers, -1, block), body).size
