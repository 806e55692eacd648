"""A second, much simpler broker: lists that are searched, nothing kept up to date, no cleverness.

It does not decide who gets a message.  It is told what clients did and how time passes (here), and `exact_watch` then
reads what the broker put into their outboxes; whatever could not have happened is a failure there.

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

from ..client import EPOCH, Client
from ..model.pattern_cases import is_match
from .exact_books import Copy, Due, Name, Rules, Store
from .program import Books, Clients, Consumer, Held, Sent, Settlement, Transaction

DEDUP_WINDOW = 2.0
# Of dead letters themselves: they may fail for ever.
_OF_DEAD_LETTERS = Rules(max_attempts=0)
_NOTHING: Mapping[str, str] = {}


class Model(Books):
    """What the broker of a scene must have and do."""

    def __init__(self, play: Clients, rules: Mapping[str, Rules]) -> None:
        super().__init__(play)
        self.rules = rules  # destination or pattern -> what holds there, where that is not the default
        self.queues: dict[str, Store] = {}
        self.consumers: list[Consumer] = []
        self.parted: list[Store] = []  # private stores whose subscription is gone, for what is still under way to them
        # what became of messages, by the names of the broker's counters; `parted`: gone with their store;
        # `lapsed`: the same at the moment of their expiry, so that they count as dropped or as expired
        self.counts: Counter[str] = Counter()
        self.step = 0  # how often the watch has looked
        self.number = 0  # of the latest message
        self._deaths = (-1, 0)  # the last step with a dead letter, and the number that it gave them
        self.delayed: list[tuple[float, Sent, list[str]]] = []  # due, what, and to which destinations
        self.kept: dict[str, tuple[Sent, int]] = {}  # topic -> what it retains, and the number under which that came
        self._seen: dict[tuple[str, str], float] = {}

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
        for store in self.stores:
            store.given_up.clear()
        self.queues = {name: store for name, store in self.queues.items() if store.copies or store.is_used}
        self.parted = [store for store in self.parted if store.copies]

    def queue(self, name: str) -> Store:
        rules = self.rules_of(name)
        fresh = Store(name, rules, None, rules.max_messages, rules.when_full, rules.conflate_by)
        return self.queues.setdefault(name, fresh)

    # arrivals

    def to_queue(
        self, sent: Sent, part: str, number: int, source: str = "", told: Mapping[str, str] = _NOTHING
    ) -> None:
        """To a queue, which may be new.

        `source`: where it died, if it is a dead letter; `told`: headers that its MESSAGE has for this.
        """
        store = self.queue(part)
        store.abandoned = False  # who sends now sends to a new queue
        copy = Copy(store, sent, part, number, self.step, source, told, self._expiry(store, sent))
        store.copies.append(copy)
        if copy.has_expired(self.scene.now):
            self.expire(copy)
            return
        for browser in store.browsers:
            if browser.browser == "on" and browser.wants(sent):
                browser.due.append(Due(number, copy.name, told, None, copy.expires))

    def to_subscriber(
        self, store: Store, sent: Sent, part: str, number: int, told: Mapping[str, str] = _NOTHING
    ) -> None:
        """To the private store of a topic's subscriber; `told` as above."""
        copy = Copy(store, sent, part, number, self.step, "", told, self._expiry(store, sent), held=bool(told))
        if told:  # it was retained, and stands behind what came before there was room for it
            self.number += 1
            copy.place = self.number
        store.copies.append(copy)

    def _expiry(self, store: Store, sent: Sent) -> float:
        life = store.rules.time_to_live
        return sent.expires or (self.scene.now + life if life else 0.0)

    # returns and ends

    def reject(self, copy: Copy, settlement: Settlement) -> None:
        self.counts["rejected"] += 1
        copy.reason, copy.avoid = settlement.reason, copy.at
        rules = copy.store.rules
        self.fail(copy, dies=settlement.requeue and rules.on_nack == "redeliver")
        if not settlement.requeue or rules.on_nack == "dead-letter":
            self._die(copy, "rejected")
        elif rules.on_nack == "drop":
            self.end(copy, "dropped")
        elif not copy.gone and rules.backoff and not copy.has_expired(self.scene.now):
            copy.at = None
            wait = rules.backoff * rules.backoff_factor ** (copy.failures - 1)
            due = self.scene.now + min(wait, rules.backoff_max)
            copy.back = min(due, copy.expires or due)
        elif not copy.gone:
            self.give_back(copy)

    def fail(self, copy: Copy, *, dies: bool = True) -> None:
        """An attempt failed; the last one ends it, unless it ends otherwise."""
        copy.failures += 1
        copy.failed_at = self.scene.now if copy.failed_at is None else copy.failed_at
        if dies and copy.store.rules.max_attempts and copy.failures >= copy.store.rules.max_attempts:
            self._die(copy, "max-attempts")

    def give_back(self, copy: Copy) -> None:
        copy.at = copy.back = None
        copy.since = self.step
        if copy.store.parted:
            self.end(copy, "parted")
        elif copy.has_expired(self.scene.now):
            self.expire(copy)
        elif copy.store.abandoned:
            self.end(copy, "dropped")

    def expire(self, copy: Copy) -> None:
        self.counts["expired"] += 1
        if copy.store.rules.dead_letter_expired:
            self._die(copy, "expired")
        else:
            self.end(copy, "")

    def _die(self, copy: Copy, why: str) -> None:
        """It becomes a dead letter."""
        store = copy.store
        if store.owner is not None or store.name.startswith("/queue/dlq."):
            self.end(copy, "dropped")
            return
        self.end(copy, "dead_lettered")
        first = EPOCH + (self.scene.now if copy.failed_at is None else copy.failed_at)
        told = {
            "dlq-reason": why,
            "dlq-source": store.name,
            "dlq-attempts": str(copy.failures),
            "dlq-first-at": str(int(first * 1000)),
        }
        if copy.source:  # an operator has moved it: it keeps what it has from its first death
            told["dlq-first-at"] = copy.told["dlq-first-at"]
        told |= {"reason": copy.reason} if copy.reason else {}
        if self._deaths[0] != self.step:
            self.number += 1
            self._deaths = (self.step, self.number)
        letter = replace(copy.sent, key=None, expires=0.0)  # none replaces another: each is somebody's failure
        self.to_queue(letter, store.name.replace("/queue/", "/queue/dlq."), self._deaths[1], store.name, told)

    # what an operator does

    def moved(self, copy: Copy, target: str) -> None:
        """It is new there, behind what waits; what it has of its death it keeps."""
        self.end(copy, "moved")
        self.number += 1
        sent = replace(copy.sent, expires=copy.expires)
        self.to_queue(sent, target, self.number, copy.source, copy.told)

    def redriven(self, copy: Copy) -> None:
        """A dead letter is again what it was, where it died."""
        self.end(copy, "moved")
        self.number += 1
        self.to_queue(copy.sent, copy.source, self.number)

    def queue_is_full(self, copy: Copy) -> None:
        """The broker gave it up because of a limit."""
        if copy.store.action == "dead-letter":
            self._die(copy, "queue-full")
        else:
            self.end(copy, "dropped")

    def conflated(self, copy: Copy, newer: Copy, *, surely: bool) -> None:
        """A newer one stands for it: in its place, unless that one waited before.

        `surely`: it cannot have been given up because of a limit, before the newer one came.
        """
        self.end(copy, "conflated")
        if newer.since == self.step and newer.sent.priority == copy.sent.priority:
            newer.place = copy.place
            newer.vague = copy.vague or not surely or (copy.since == self.step and copy.is_back)

    def end(self, copy: Copy, how: str) -> None:
        copy.store.copies.remove(copy)
        copy.gone = True
        if copy.at is None:
            copy.store.given_up.append(copy)
        if how:
            self.counts[how] += 1

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
        for name, (sent, number) in self.kept.items():
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
                self.end(copy, "lapsed" if copy.has_expired(self.scene.now) else "dropped")

    # SEND

    def publish(self, sent: Sent, transaction: Transaction | None = None) -> None:
        if transaction is not None:
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
            self.kept.pop(part, None)
            for consumer in self.consumers:
                consumer.retained = [each for each in consumer.retained if each[1] != part]
        if sent.retain == "set":
            self.kept[part] = (sent, self.number)
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

    def settle(self, settlement: Settlement, transaction: Transaction | None = None) -> None:
        settlement.copies = settlement.copies or [self.copy_of(held) for held in settlement.held]
        for copy in settlement.copies:
            copy.transaction = transaction
            if transaction is None:
                assert copy.at is not None
                copy.at.ledger.remove(copy)
                if settlement.acknowledged:
                    self.end(copy, "acknowledged")
                else:
                    self.reject(copy, settlement)

    def copy_of(self, held: Held) -> Copy:
        ids = [(copy.message.message_id if copy.message else "", copy) for copy in held.consumer.ledger]
        return next(copy for id, copy in ids if id == held.frame.message_id)

    # transactions

    def abort(self, transaction: Transaction) -> None:
        for copy in [copy for settlement in transaction.settlements for copy in settlement.copies]:
            copy.transaction = None
            if copy.at is not None and copy.at.ended:
                copy.at.ledger.remove(copy)
                self.give_back(copy)

    # the connection

    def leave(self, client: Client, *, taken: bool, lost: bool) -> None:
        """The client is gone.

        `taken`: what lay in its outbox may have reached it, and comes back only when the connection is closed; `lost`:
        it did not say goodbye.
        """
        for transaction in [each for each in self.play.transactions if each.client is client]:
            self.abort(transaction)
        for consumer in [each for each in self.consumers if each.client is client]:
            self.unsubscribe(consumer, lost=lost)
        for copy in self._unwritten(client):
            if not taken:
                copy.attempts -= 1
                copy.left_by = self.step
            self.give_back(copy)

    def consumed(self, client: Client) -> None:
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
        dates += [sent.expires for sent, _ in self.kept.values() if sent.expires]
        return min(dates, default=None)

    def pass_time(self) -> None:
        """What is due now happens."""
        now = self.scene.now
        due = sorted([each for each in self.delayed if each[0] <= now], key=lambda each: each[0])
        self.delayed = [each for each in self.delayed if each[0] > now]
        for name, (sent, _) in list(self.kept.items()):
            if sent.expires and sent.expires <= now:
                del self.kept[name]
                self.counts["expired"] += 1
        copies = [copy for store in self.stores for copy in store.copies]
        for copy in copies:
            if copy.back is not None and copy.back <= now:
                self.give_back(copy)
            elif copy.waits and copy.has_expired(now):
                self.expire(copy)
        for _, sent, parts in due:
            self._arrive(sent, parts)
