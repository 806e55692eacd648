"""A second, much simpler broker: lists that are searched, no windows kept up to date, no cleverness.

It does not decide who gets a message.  It is told what clients did and how time passes (here), and `model_watch` then
reads what the broker put into their outboxes; whatever could not have happened is a failure there.  What is kept stands
in `model_books`.

Each message that was accepted is one of these in each of its stores, at any time:

    delayed           `Model.delayed`                        consumed       out of the books, and counted
    waiting           `Copy.waits`                           dead           out of this store, a new copy in another
    coming back       `Copy.back`                            expired, dropped, conflated, or gone with its store:
    outstanding       `Copy.at`                              out of the books, and counted
    held              `Copy.transaction`, `Transaction.sends`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gateway.broker.message import Message
from gateway.codec import V10, Head

from .client import EPOCH, Client, Scene
from .model_books import Consumer, Copy, Due, Name, Rules, Sent, Settlement, Store, Transaction
from .patterns import is_match
from .wire import build

# Of dead letters themselves: they may fail for ever.
_OF_DEAD_LETTERS = Rules(max_attempts=0)
DEDUP_WINDOW = 2.0
_NOTHING: Mapping[str, str] = {}


class Model:
    """What the broker of a scene must have and do.

    Attributes:
        rules: destination or pattern -> what holds there, where that is not the default.
        delayed: due, what, and to which destinations.
        retained: topic -> what it keeps, and the number under which that came.
        parted: private stores whose subscription is gone, for what is still under way to them.
        counts: what became of messages, by the names of the broker's counters; `parted`: gone with their store.
        step: how often the watch has looked.
    """

    def __init__(self, scene: Scene, rules: Mapping[str, Rules]) -> None:
        self.scene = scene
        self.rules = rules
        self.queues: dict[str, Store] = {}
        self.consumers: list[Consumer] = []
        self.transactions: list[Transaction] = []
        self.delayed: list[tuple[float, Sent, list[str]]] = []
        self.retained: dict[str, tuple[Sent, int]] = {}
        self.parted: list[Store] = []
        self.counts: Counter[str] = Counter()
        self.step = 0
        self._seen: dict[tuple[str, str], float] = {}
        self._number = 0
        self._deaths = (-1, 0)  # the last step with a dead letter, and the number that it gave them

    @property
    def stores(self) -> list[Store]:
        """All that there are."""
        private = [each.store for each in self.consumers if each.store is not None and each.store.owner is each]
        return [*self.queues.values(), *private, *self.parted]

    def rules_of(self, name: str) -> Rules:
        if name.startswith("/queue/dlq."):
            return _OF_DEAD_LETTERS
        return next((rules for pattern, rules in self.rules.items() if is_match(pattern, name)), Rules())

    def tidy(self) -> None:
        """Forget stores that nobody uses, and that nothing comes back to."""
        self.queues = {name: store for name, store in self.queues.items() if store.copies or store.is_used}
        self.parted = [store for store in self.parted if store.copies]

    def queue(self, name: str) -> Store:
        rules = self.rules_of(name)
        fresh = Store(name, rules, None, rules.max_messages, rules.when_full, rules.conflate_by)
        return self.queues.setdefault(name, fresh)

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
            self._keep(consumer.store, sent, part, number, {"retained": "true"})

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
            self._fail(free[0])
        for copy in free:
            if not copy.gone:
                self._give_back(copy)
            consumer.ledger.remove(copy)
        store.abandoned = store.rules.auto_delete and not store.consumers
        if store.parted:
            self.parted.append(store)
        if store.parted or store.abandoned:
            for copy in store.waiting:
                self._end(copy, "dropped")

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
            self._number += 1
            self.counts["published"] += 1
            if part.startswith("/queue/"):
                self._to_queue(sent, part, self._number)
            elif sent.expires and sent.expires <= self.scene.now:
                self.counts["expired"] += 1
            else:
                self._to_topic(sent, part)

    def _to_queue(
        self, sent: Sent, part: str, number: int, source: str = "", told: Mapping[str, str] = _NOTHING
    ) -> None:
        store = self.queue(part)
        store.abandoned = store.abandoned and bool(store.consumers)
        copy = Copy(store, sent, part, number, self.step, source, told, self._expiry(store, sent))
        store.copies.append(copy)
        if copy.has_expired(self.scene.now):
            self.expire(copy)
            return
        for browser in store.browsers:
            if browser.browser == "on" and browser.wants(sent):
                browser.due.append(Due(number, copy.name, told, None, copy.expires))

    def _to_topic(self, sent: Sent, part: str) -> None:
        if sent.retain:
            self.retained.pop(part, None)
            for consumer in self.consumers:
                consumer.retained = [each for each in consumer.retained if each[1] != part]
        if sent.retain == "set":
            self.retained[part] = (sent, self._number)
        found = [each for each in self.consumers if is_match(each.destination, part)]
        if not found:
            self.counts["unroutable"] += 1
        for consumer in found:
            if consumer.wants(sent) and not (consumer.no_local and consumer.client is sent.client):
                if consumer.store is None:
                    consumer.due.append(Due(self._number, (sent.body, part, "")))
                else:
                    self._keep(consumer.store, sent, part, self._number)

    def _keep(self, store: Store, sent: Sent, part: str, number: int, told: Mapping[str, str] = _NOTHING) -> None:
        copy = Copy(store, sent, part, number, self.step, "", told, self._expiry(store, sent), held=bool(told))
        store.copies.append(copy)

    def _expiry(self, store: Store, sent: Sent) -> float:
        life = store.rules.time_to_live
        return sent.expires or (self.scene.now + life if life else 0.0)

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
                    self._end(copy, "acknowledged")
                else:
                    self._reject(copy, settlement)

    def _reject(self, copy: Copy, settlement: Settlement) -> None:
        self.counts["rejected"] += 1
        copy.reason, copy.avoid = settlement.reason, copy.at
        rules = copy.store.rules
        self._fail(copy, dies=settlement.requeue and rules.on_nack == "redeliver")
        if not settlement.requeue or rules.on_nack == "dead-letter":
            self._die(copy, "rejected")
        elif rules.on_nack == "drop":
            self._end(copy, "dropped")
        elif not copy.gone and rules.backoff:
            copy.at = None
            wait = rules.backoff * rules.backoff_factor ** (copy.failures - 1)
            copy.back = self.scene.now + min(wait, rules.backoff_max)
        elif not copy.gone:
            self._give_back(copy)

    def _fail(self, copy: Copy, *, dies: bool = True) -> None:
        """An attempt failed; the last one ends it, unless it ends otherwise."""
        copy.failures += 1
        copy.failed_at = self.scene.now if copy.failed_at is None else copy.failed_at
        if dies and copy.store.rules.max_attempts and copy.failures >= copy.store.rules.max_attempts:
            self._die(copy, "max-attempts")

    def _give_back(self, copy: Copy) -> None:
        copy.at = copy.back = None
        copy.since = self.step
        if copy.store.parted:
            self._end(copy, "parted")
        elif copy.has_expired(self.scene.now):
            self.expire(copy)
        elif copy.store.abandoned:
            self._end(copy, "dropped")

    def expire(self, copy: Copy) -> None:
        self.counts["expired"] += 1
        if copy.store.rules.dead_letter_expired:
            self._die(copy, "expired")
        else:
            self._end(copy, "")

    def _die(self, copy: Copy, why: str) -> None:
        """It becomes a dead letter."""
        store = copy.store
        if store.owner is not None or store.name.startswith("/queue/dlq."):
            self._end(copy, "dropped")
            return
        self._end(copy, "dead_lettered")
        first = EPOCH + (self.scene.now if copy.failed_at is None else copy.failed_at)
        told = {
            "dlq-reason": why,
            "dlq-source": store.name,
            "dlq-attempts": str(copy.attempts),
            "dlq-first-at": str(int(first * 1000)),
        }
        told |= {"reason": copy.reason} if copy.reason else {}
        if self._deaths[0] != self.step:
            self._number += 1
            self._deaths = (self.step, self._number)
        letter = replace(copy.sent, group=None, closes_group=False, key=None, expires=0.0)
        self._to_queue(letter, store.name.replace("/queue/", "/queue/dlq."), self._deaths[1], store.name, told)

    def queue_is_full(self, copy: Copy) -> None:
        """The broker gave it up because of a limit."""
        if copy.store.action == "dead-letter":
            self._die(copy, "queue-full")
        else:
            self._end(copy, "dropped")

    def conflated(self, copy: Copy, newer: Copy, *, surely: bool) -> None:
        """A newer one stands for it: in its place, unless that one waited before.

        Args:
            surely: it cannot have been given up because of a limit, before the newer one came.
        """
        self._end(copy, "conflated")
        if newer.since == self.step and newer.sent.priority == copy.sent.priority:
            newer.place = copy.place
            newer.vague = copy.vague or not surely or (copy.since == self.step and copy.is_back)

    def _end(self, copy: Copy, how: str) -> None:
        copy.store.copies.remove(copy)
        copy.gone = True
        if how:
            self.counts[how] += 1

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
                self._give_back(copy)

    # the connection

    def leave(self, client: Client, *, taken: bool, lost: bool) -> None:
        """The client is gone.

        Args:
            taken: what lay in its outbox may have reached it.
            lost: it did not say goodbye.
        """
        for transaction in [each for each in self.transactions if each.client is client]:
            self.abort(transaction)
        for consumer in [each for each in self.consumers if each.client is client]:
            self.unsubscribe(consumer, lost=lost)
        for copy in self._unwritten(client):
            if not taken:
                copy.attempts -= 1
            self._give_back(copy)

    def written(self, client: Client) -> None:
        """The client's outbox was written; what was in there in mode auto is consumed."""
        for copy in self._unwritten(client):
            self._end(copy, "")

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
                self._give_back(copy)
            elif copy.waits and copy.has_expired(now):
                self.expire(copy)
        for _, sent, parts in due:
            self._arrive(sent, parts)


def cost_of(client: Client, headers: dict[str, str], body: bytes) -> int:
    """What keeping that SEND costs."""
    block = build("SEND", headers, version=client.version).index(b"\n\n")
    return Message(0, Head("SEND", headers, -1, block), body).size
