"""What holds for a destination: limits, redelivery, dead letters, time to live, slow subscribers.

An operator writes policies for patterns of names.  All that match a name apply, in the order of the file, and of the
keys that several give the last counts; a destination's policy is found once, when it comes into being.  Clients may
add `ClientArguments`, which is how RabbitMQ's queue arguments are read: they count where they create the queue, and are
never a reason to refuse anybody.  To a queue that is there already they mean nothing: others rely on it as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .patterns import Pattern

DEAD_LETTERS = "dlq."
"""What the name of a dead-letter queue starts with, behind its prefix."""


class WhenFull(Enum):
    """What a SEND meets at a queue's limit."""

    BLOCK = "block"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    DEAD_LETTER = "dead-letter"


class SlowConsumerAction(Enum):
    """What a topic does with a subscriber that does not keep up."""

    BLOCK = "block"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    CONFLATE = "conflate"
    DISCONNECT = "disconnect"


class OnNack(Enum):
    """What becomes of a message that a consumer rejects."""

    REDELIVER = "redeliver"
    DEAD_LETTER = "dead-letter"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one destination.

    Attributes:
        max_messages: messages that may wait in a queue; 0: no limit but memory.
        max_octets: bytes that they may cost; 0: no limit but memory.
        when_full: what happens at these limits.
        max_attempts: attempts that may fail before a message is a dead letter; 0: no limit.
        backoff: seconds before a rejected message is delivered again; 0: at once.
        backoff_factor: what that grows by with each further failure.
        backoff_max: seconds it grows to at most.
        dead_letter: where dead letters go; None: `/queue/dlq.NAME` for `/queue/NAME`, and nowhere for topics; empty:
            nowhere.
        dead_letter_expired: expired messages are dead letters, too.
        time_to_live: seconds after which a message expires that says nothing else; 0: never.
        on_nack: what a NACK does.
        slow_consumer: what happens to the messages of a topic's subscriber that does not keep up.
        slow_messages: messages that wait for such a subscriber at most, where `slow_consumer` is not `block`.
        conflate_by: the header whose value names what a message is news of; a newer one replaces the one that waits.
        auto_delete: a queue goes with its last subscriber, and what waits in it, too.
        idle_timeout: seconds after which a queue without subscribers goes, with all that waits; 0: never.
        durable: messages outlive the process: True: all of them; False: none; None: those that ask for it.
        log_messages: messages that a topic's log keeps at most; 0: no limit but the other two.
        log_octets: bytes that they may cost; 0: no limit where the messages have one, else 16 MiB.
        log_age: seconds after which they go; 0: no limit but the other two.  A topic has a log where one of these three
            is more than 0.
        journal_bodies: how much of a body the journal keeps, in its words; None: as the journal has it.
        add_user_id: each message tells who sent it, in a header that the broker writes.
    """

    max_messages: int = 0
    max_octets: int = 0
    when_full: WhenFull = WhenFull.BLOCK
    max_attempts: int = 10
    backoff: float = 0.1
    backoff_factor: float = 2.0
    backoff_max: float = 60.0
    dead_letter: str | None = None
    dead_letter_expired: bool = False
    time_to_live: float = 0.0
    on_nack: OnNack = OnNack.REDELIVER
    slow_consumer: SlowConsumerAction = SlowConsumerAction.BLOCK
    slow_messages: int = 1_000
    conflate_by: str = ""
    auto_delete: bool = False
    idle_timeout: float = 0.0
    durable: bool | None = None
    log_messages: int = 0
    log_octets: int = 0
    log_age: float = 0.0
    journal_bodies: str | None = None
    add_user_id: bool = False

    @property
    def keeps_log(self) -> bool:
        """A topic keeps its messages for replay."""
        return bool(self.log_messages or self.log_octets or self.log_age)

    def changes_of(self, other: Policy) -> dict[str, object]:
        """The keys that another policy has otherwise, with its values in words."""
        found = {each.name: getattr(other, each.name) for each in dataclasses.fields(self)}
        changed = {name: value for name, value in found.items() if value != getattr(self, name)}
        return {name: value.value if isinstance(value, Enum) else value for name, value in changed.items()}

    def delay_after(self, failures: int) -> float:
        """Seconds to wait after so many failed attempts (1 or more)."""
        # The exponent is bounded: floats overflow, and all that is longer is cut anyway.
        return min(self.backoff * self.backoff_factor ** min(failures - 1, 64), self.backoff_max)

    def target_of(self, name: str) -> str:
        """Where the dead letters of that destination go; empty: nowhere."""
        if self.dead_letter is not None:
            return self.dead_letter
        kind, _, rest = name[1:].partition("/")
        return f"/queue/{DEAD_LETTERS}{rest}" if kind == "queue" and not rest.startswith(DEAD_LETTERS) else ""


@dataclass(frozen=True, slots=True)
class ClientArguments:
    """What a client wishes for a queue that its frame creates; None where it says nothing."""

    max_messages: int | None = None
    max_octets: int | None = None
    time_to_live: float | None = None
    idle_timeout: float | None = None
    dead_letter: str | None = None
    auto_delete: bool | None = None

    def applied_to(self, policy: Policy) -> Policy:
        """That policy with these wishes: they can make the operator's limits narrower, never wider.

        As RabbitMQ has it, a queue that a client limits drops its oldest messages; and where the client names a
        destination for dead letters, these and those that expired go there, too.
        """
        changes: dict[str, Any] = {
            name: wish
            for name in ("max_messages", "max_octets", "time_to_live", "idle_timeout")
            if (wish := getattr(self, name)) is not None and not 0 < getattr(policy, name) <= wish
        }
        if self.auto_delete is not None:
            changes["auto_delete"] = self.auto_delete
        redirects = self.dead_letter is not None and policy.dead_letter is None
        if redirects:
            changes |= {"dead_letter": self.dead_letter, "dead_letter_expired": True}
        if changes.keys() & {"max_messages", "max_octets"} and not (policy.max_messages or policy.max_octets):
            changes["when_full"] = WhenFull.DEAD_LETTER if redirects else WhenFull.DROP_OLDEST
        return dataclasses.replace(policy, **changes)


_OF_LOGS = frozenset({"log_messages", "log_octets", "log_age"})
DEFAULT = Policy()
# Nobody would read the dead letters of dead letters: they wait until somebody takes them.
_OF_DEAD_LETTERS = Policy(max_attempts=0)
_GRAVE = f"/queue/{DEAD_LETTERS}"
# What throws messages away with time.  Dead letters are there to be looked at: only who names their queues means them.
_ENDS = frozenset(["max_attempts", "time_to_live", "auto_delete", "idle_timeout"])


class Policies:
    """The operator's policies.

    Attributes:
        dead_letters: the destinations that they name for dead letters.
        add_user_ids: some of them want `add_user_id`.

    Args:
        rules: pattern and keys of `Policy` with their values, in the order of the file.
    """

    def __init__(self, rules: Iterable[tuple[Pattern, Mapping[str, Any]]] = ()) -> None:
        self._rules = tuple(rules)
        self.dead_letters = {str(values["dead_letter"]) for _, values in self._rules if values.get("dead_letter")}
        streams = [(pattern, {key: values[key] for key in _OF_LOGS & values.keys()}) for pattern, values in self._rules]
        self._of_logs = [(pattern, values) for pattern, values in streams if values]
        self._of_senders = [
            (pattern, values["add_user_id"]) for pattern, values in self._rules if "add_user_id" in values
        ]
        self.add_user_ids = any(wish for _, wish in self._of_senders)

    def keeps_log(self, name: str) -> bool:
        """Whether `find` would say so; mostly no policy has anything to say of logs."""
        found: dict[str, Any] = {}
        for pattern, values in self._of_logs:
            if pattern.matches(name):
                found |= values
        return any(found.values())

    def adds_user_id(self, name: str) -> bool:
        """Whether `find` would say so; it is asked once for each header block of a client."""
        found = False
        for pattern, wish in self._of_senders:
            if pattern.matches(name):
                found = wish
        return found

    def find(self, name: str) -> Policy:
        """The policy of the destination of that canonical name."""
        is_grave = name.startswith(_GRAVE)
        policy = _OF_DEAD_LETTERS if is_grave else DEFAULT
        for pattern, values in self._rules:
            if pattern.matches(name):
                if is_grave and not pattern.text.startswith(_GRAVE):
                    values = {key: value for key, value in values.items() if key not in _ENDS}
                policy = dataclasses.replace(policy, **values)
        return policy


MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quotas:
    """In numbers, bytes and seconds; an ERROR that follows from one names it as the setting is called."""

    max_subscriptions: int = 20_000
    max_transactions: int = 64
    max_transaction_octets: int = 16 * MIB
    max_unacknowledged: int = 1_000
    max_outbound: int = 32 * MIB
    memory_limit: int = 1024 * MIB
    max_destinations: int = 1_000_000
    max_unacknowledged_octets: int = 64 * MIB
    max_delayed: int = 1_000_000
    max_retained: int = 100_000
    max_durable_subscriptions: int = 100_000
    dedup_window: float = 600.0
    max_dedup_ids: int = 100_000
    client_queue_arguments: bool = True
    lenient: bool = False

    @property
    def memory_high(self) -> int:
        """From so many bytes on publishers are held back."""
        return self.memory_limit * 3 // 4
