"""What must hold of each delivery of a queue, whoever its consumers are: the watch of `test_queue_model`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.broker.model.message import Message
from gateway.broker.queue.subscription import Subscription

from ..client import Client

SELECTORS: dict[str, Callable[[str], bool]] = {
    "": lambda color: True,
    "color = 'red'": lambda color: color == "red",
    "color <> 'red'": lambda color: color != "red",
    "color IN ('red', 'blue')": lambda color: color in ("red", "blue"),
}


@dataclass(eq=False)
class Sent:
    """A message of the model."""

    number: int
    color: str
    group: str
    priority: int
    closes: bool
    message: Message | None = None
    at: Taker | None = None
    rejected_by: Taker | None = None
    deliveries: int = 0
    consumed: bool = False

    def has_expired(self, now: float) -> bool:
        return self.message is not None and 0 < self.message.expires <= now

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.number

    @property
    def waits(self) -> bool:
        return self.message is not None and self.message.waits


@dataclass(eq=False)
class Taker:
    """A consumer of the model."""

    client: Client
    id: str
    mode: str
    selector: str
    priority: int
    exclusive: bool
    window: dict[str, str]
    subscription: Subscription | None = None
    held: list[Sent] = field(default_factory=list)

    @property
    def is_reading(self) -> bool:
        """Its lane is long, and read in turns."""
        consumer_set = self.subscription.consumer_set if self.subscription is not None else None
        return consumer_set is not None and consumer_set.behind

    @property
    def is_starved(self) -> bool:
        """It got nothing because the outbox was full, and was not asked again since."""
        return self.subscription in self.client.session.outbox.starved

    def wants(self, sent: Sent) -> bool:
        return SELECTORS[self.selector](sent.color)

    @property
    def has_room(self) -> bool:
        outbox = self.client.session.outbox
        if outbox.size >= outbox.window:
            return False
        if not self.held or self.mode == "auto":
            return True
        if "consumer-window-size" in self.window:
            return sum(sent.message.size for sent in self.held if sent.message) < 1000
        return len(self.held) < (int(self.window["prefetch-count"]) or 10**9)


class Watch:
    """What must hold of each delivery."""

    def __init__(self) -> None:
        self.takers: list[Taker] = []
        self.sent: dict[int, Sent] = {}
        self.owners: dict[str, Taker] = {}
        self.exclusive: Taker | None = None
        self.stream: list[tuple[Taker, Sent]] = []
        self.unwritten: dict[Client, list[Sent]] = {}
        self.now = 0.0

    def has_turn(self, taker: Taker) -> bool:
        return self.exclusive in (None, taker)

    def may_have(self, taker: Taker, sent: Sent) -> bool:
        """Whether a message that waits is for that consumer, as far as groups are concerned."""
        if not taker.wants(sent) or self.is_mixed(sent.group):
            return False
        rivals = [each for each in self.sent.values() if each.waits and each.group == sent.group]
        if sent.group and min(rivals, key=lambda each: each.order) is not sent:
            return False
        return self.owners.get(sent.group, taker) is taker

    def is_mixed(self, group: str) -> bool:
        """Whether somebody may not want some message of a group: who gets what of it then, is another matter."""
        return bool(group) and any(taker.selector for taker in self.takers)

    def delivered(self, subscription: Subscription, message: Message) -> None:
        """A queue gives a message to a subscription; called before the message knows."""
        # A new one gets messages before anybody knows its subscription.
        taker = next((each for each in self.takers if each.subscription is subscription), self.takers[-1])
        taker.subscription = subscription
        sent = self.sent[int(message.body)]
        sent.message = message
        assert not sent.consumed, f"{sent} was consumed"
        assert sent.at is None, f"{sent} is with {sent.at}"
        assert message.attempts == sent.deliveries, f"{sent} is not marked"
        assert taker.wants(sent)
        assert taker.has_room
        assert not sent.has_expired(self.now)
        assert self.has_turn(taker), f"{taker} stands by"
        if sent.group and not self.is_mixed(sent.group):
            assert self.owners.get(sent.group, taker) is taker, f"{sent} is for {self.owners[sent.group]}"
        self._priority(taker, sent)
        if not sent.deliveries:
            older = [each for each in self.sent.values() if each.waits and each is not sent and each.order < sent.order]
            past = [each for each in older if self.may_have(taker, each)]
            assert not past, f"{sent} goes to {taker} past {past}"
        if sent.group:
            self.owners.pop(sent.group, None)
            if not sent.closes:
                self.owners[sent.group] = taker
        sent.deliveries += 1
        sent.at = taker
        self.stream.append((taker, sent))
        (self.unwritten.setdefault(taker.client, []) if taker.mode == "auto" else taker.held).append(sent)

    def _priority(self, taker: Taker, sent: Sent) -> None:
        """Nobody of higher priority has room for it, but who gave it back, and those whose lane is being read."""
        others = [each for each in self.takers if each.priority > taker.priority and each is not sent.rejected_by]
        # Who was left out when its outbox was full, and is to be told yet that there is room, has to wait for that: of
        # one session, whoever was left out first goes on first, whatever its priority.
        others = [each for each in others if each.subscription is not None and not each.is_starved]
        ready = [each for each in others if each.has_room and self.has_turn(each) and each.wants(sent)]
        if not self.is_mixed(sent.group) and self.owners.get(sent.group) is None:
            assert all(each.is_reading for each in ready), f"{sent} goes to {taker} and not to {ready}"

    def written(self, client: Client) -> None:
        """The client's outbox is empty: what was in it in mode auto is consumed."""
        for sent in self.unwritten.pop(client, []):
            sent.at, sent.consumed = None, True

    def lost(self, client: Client, *, taken: bool) -> None:
        """The connection is gone: what was in its outbox comes back, marked if the transport had `taken` it."""
        for sent in self.unwritten.pop(client, []):
            sent.at = None
            if not taken:
                sent.deliveries -= 1

    def leave(self, takers: list[Taker]) -> None:
        for taker in takers:
            self.takers.remove(taker)
            for sent in taker.held:
                sent.at = None
            self.free(taker)
        if self.exclusive in takers:
            self.exclusive = next((each for each in self.takers if each.exclusive), None)
            self.stand_by()

    def join(self, taker: Taker) -> None:
        self.takers.append(taker)
        if self.exclusive is None and taker.exclusive:
            self.exclusive = taker
            self.stand_by()

    def stand_by(self) -> None:
        """All but the exclusive one lose their groups."""
        for taker in self.takers:
            if not self.has_turn(taker):
                self.free(taker)

    def free(self, taker: Taker) -> None:
        self.owners = {group: owner for group, owner in self.owners.items() if owner is not taker}
