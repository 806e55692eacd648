"""What becomes of messages in the model: the half of it that knows no clients.

Each message that was accepted is one of these in each of its stores, at any time:

    delayed           `Model.delayed`                        consumed       out of the books, and counted
    waiting           `Copy.waits`                           dead           out of this store, a new copy in another
    coming back       `Copy.back`                            expired, dropped, conflated, or gone with its store:
    outstanding       `Copy.at`                              out of the books, and counted
    held              `Copy.transaction`, `Transaction.sends`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..client import EPOCH, Scene
from ..model.pattern_cases import is_match
from .model_books import Consumer, Copy, Due, Rules, Sent, Settlement, Store

# Of dead letters themselves: they may fail for ever.
_OF_DEAD_LETTERS = Rules(max_attempts=0)
_NOTHING: Mapping[str, str] = {}


class Fates:
    """Stores, and what happens to the copies in them.

    Attributes:
        rules: destination or pattern -> what holds there, where that is not the default.
        parted: private stores whose subscription is gone, for what is still under way to them.
        counts: what became of messages, by the names of the broker's counters; `parted`: gone with their store.
        step: how often the watch has looked.
        number: of the latest message.
    """

    def __init__(self, scene: Scene, rules: Mapping[str, Rules]) -> None:
        self.scene = scene
        self.rules = rules
        self.queues: dict[str, Store] = {}
        self.consumers: list[Consumer] = []
        self.parted: list[Store] = []
        self.counts: Counter[str] = Counter()
        self.step = 0
        self.number = 0
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

        Args:
            source: where it died, if it is a dead letter.
            told: headers that its MESSAGE has for this.
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

    def freed(self, store: Store) -> None:
        """What was first of a group may have gone."""
        store.free_groups()

    def queue_is_full(self, copy: Copy) -> None:
        """The broker gave it up because of a limit."""
        if copy.store.action == "dead-letter":
            self._die(copy, "queue-full")
        else:
            self.end(copy, "dropped")

    def conflated(self, copy: Copy, newer: Copy, *, surely: bool) -> None:
        """A newer one stands for it: in its place, unless that one waited before.

        Args:
            surely: it cannot have been given up because of a limit, before the newer one came.
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
