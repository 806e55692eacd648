"""Copies of messages and the stores they are in: what the exact books keep.

Nothing here is fast or clever, and nothing is taken from the broker but the names of its policies, which it must be
given.  A `Copy` is one message in one `Store`; a store is a queue, or what one subscription of a topic has not got.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gateway.broker.model.policy import OnNack, SlowConsumerAction, WhenFull

from ..wire import Received
from .program import Consumer, Sent, Transaction

Name = tuple[bytes, str, str]
"""What tells a message from all others in its store: body, destination, and where it died, if it did."""


@dataclass(frozen=True)
class Rules:
    """What holds for a destination; the keys of a policy, with its words."""

    max_messages: int = 0
    when_full: str = "block"
    max_attempts: int = 10
    backoff: float = 0.0
    backoff_factor: float = 2.0
    backoff_max: float = 60.0
    dead_letter_expired: bool = False
    time_to_live: float = 0.0
    on_nack: str = "redeliver"
    slow_consumer: str = "block"
    slow_messages: int = 1_000
    conflate_by: str = ""
    auto_delete: bool = False

    def policy(self) -> dict[str, Any]:
        """The same as the broker wants it."""
        return asdict(self) | {
            "when_full": WhenFull(self.when_full),
            "on_nack": OnNack(self.on_nack),
            "slow_consumer": SlowConsumerAction(self.slow_consumer),
        }


@dataclass(eq=False, repr=False)
class Copy:
    """A message in a store."""

    store: Store
    sent: Sent
    destination: str  # as its MESSAGE has it
    number: int  # order of arrival; dead letters of one step have the same
    since: int  # the step in which it came, or came back
    source: str = ""  # where it died; empty: it is no dead letter
    told: Mapping[str, str] = field(default_factory=dict)  # headers that its MESSAGE has because of what happened to it
    expires: float = 0.0
    # the step in which its consumer left: all that comes back so has its place before anybody gets any
    left_by: int = -1
    given: int = -1  # the step in which somebody got it
    at: Consumer | None = None  # its consumer: it is in that consumer's ledger or, in mode auto, in its client's outbox
    transaction: Transaction | None = None  # the open one that holds it
    back: float | None = None  # when it comes back after a failure
    attempts: int = 0
    failures: int = 0
    failed_at: float | None = None
    reason: str = ""
    avoid: Consumer | None = None  # the consumer that rejected it last
    fresh: bool = True  # nobody ever got it
    held: bool = False  # it waited with its group, or was retained, so that later ones may have overtaken it
    message: Received | None = None
    size: int = 0
    # among those of its priority that wait: its number, or that of one which it replaced; what stands behind the point
    # orders dead letters of one step
    place: float = 0
    vague: bool = False  # it is not known which of the two
    gone: bool = False  # it is in no store any more

    def __post_init__(self) -> None:
        self.place = self.number
        self._came = self.since

    def __repr__(self) -> str:
        return f"{self.sent.body.strip().decode()} of {self.store.name}"

    @property
    def name(self) -> Name:
        return self.sent.body, self.destination, self.source

    @property
    def is_back(self) -> bool:
        """Somebody had it, perhaps in the very step in which it came, or it was put off."""
        return self.since > self._came or not self.fresh

    @property
    def waits(self) -> bool:
        return self.at is None and self.back is None and not self.gone

    def has_expired(self, now: float) -> bool:
        return 0 < self.expires <= now

    @property
    def order(self) -> tuple[int, float]:
        return -self.sent.priority, self.place

    @property
    def key(self) -> str | None:
        """Of those that wait with the same one, only the newest goes on."""
        by = self.store.conflate_by
        return self.sent.headers.get(by) if self.sent.key is None else self.sent.key


@dataclass(eq=False, repr=False)
class Store:
    """A queue, or the private one of a topic's subscription."""

    name: str
    rules: Rules
    owner: Consumer | None = None
    limit: int = 0  # messages that may wait; 0: any number
    action: str = ""  # what happens then
    conflate_by: str = ""
    copies: list[Copy] = field(default_factory=list)  # all that is not done with, in order of arrival
    consumers: list[Consumer] = field(default_factory=list)  # in the order in which they came
    browsers: list[Consumer] = field(default_factory=list)
    groups: dict[str, Consumer] = field(default_factory=dict)
    most: int = 0  # that may wait now, after all that was given back
    given_up: list[Copy] = field(default_factory=list)  # what waited and was ended in this step without a delivery
    abandoned: bool = False  # its last consumer left, and so it goes with all that is still under way to it

    @property
    def waiting(self) -> list[Copy]:
        return sorted([copy for copy in self.copies if copy.waits], key=lambda copy: copy.order)

    @property
    def parted(self) -> bool:
        """Its subscription is gone."""
        return self.owner is not None and self.owner.ended

    @property
    def is_used(self) -> bool:
        """It is a destination of the broker."""
        return bool(self.consumers or self.browsers or any(copy.at is None for copy in self.copies))

    def stands_by(self, consumer: Consumer) -> bool:
        """Another consumer is the exclusive one."""
        exclusive = [each for each in self.consumers if each.exclusive]
        return self.owner is None and bool(exclusive) and exclusive[0] is not consumer

    def owner_of(self, copy: Copy) -> Consumer | None:
        """The consumer that has the group and can take the message."""
        owner = self.groups.get(copy.sent.group) if copy.sent.group is not None else None
        return owner if owner is not None and owner.wants(copy.sent) else None

    def is_for(self, copy: Copy, consumer: Consumer, step: int, left: Container[Name] = ()) -> bool:
        """Whether that consumer may get a message; earlier ones of its group go first.

        `step`: what came before that step has its place; `left`: so have these, whenever they came, and although they
        may have been given up afterwards.
        """
        if self.stands_by(consumer) or not consumer.wants(copy.sent):
            return False
        if copy.sent.group is None:
            return True
        owner = self.owner_of(copy)
        if owner is not None and owner is not consumer:
            return False
        before = [each for each in self.copies if each.waits and (each.since < step or each.name in left)]
        before += [each for each in self.given_up if each.name in left]
        return not any(each.sent.group == copy.sent.group and each.order < copy.order for each in before)

    def free_groups(self, left: Container[Name] | None = None) -> None:
        """A group is anybody's if its consumer stands by, or does not want what comes next.

        `left`: what waits, in the middle of a step: what comes back in the same one may not be there yet, and what was
        given up in it may have been; None: the step is over.
        """
        there = self.waiting
        if left is not None:
            there = [copy for copy in [*there, *self.given_up] if copy.name in left]
            there.sort(key=lambda copy: copy.order)
        for group, owner in list(self.groups.items()):
            first = next((copy for copy in there if copy.sent.group == group), None)
            if self.stands_by(owner) or (first is not None and not owner.wants(first.sent)):
                del self.groups[group]


@dataclass(frozen=True, eq=False)
class Due:
    """A message that somebody must be told, and that is not taken from anybody else thereby."""

    number: int  # those with the same one may come in any order
    name: Name
    told: Mapping[str, str] = field(default_factory=dict)
    copy: Copy | None = None  # what a browser found waiting; it is not due when it waits no longer
    expires: float = 0.0

    def is_due(self, now: float) -> bool:
        return (self.copy is None or self.copy.waits) and not 0 < self.expires <= now
