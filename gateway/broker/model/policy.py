"""Policies of destinations: limits, redelivery, dead letters, time to live, slow subscribers; and the broker's quotas.

An operator writes policies for patterns of names.  All policies that match a name apply, in the order of the file; if
several set a key, the last one counts.  A destination's policy is found once, when it is created.  Clients may add
`QueueArguments`, the queue arguments of RabbitMQ.  They apply in the frame that creates the queue; an existing queue
does not change, because other clients rely on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from .patterns import Pattern, overlap

DEAD_LETTERS = "dlq."
"""Start of the names of dead-letter queues, after `/queue/`."""


class WhenFull(Enum):
    """Action on a SEND to a queue at its limit."""

    BLOCK = "block"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    DEAD_LETTER = "dead-letter"


class SlowConsumerAction(Enum):
    """Action of a topic on a subscriber that does not keep up."""

    BLOCK = "block"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    CONFLATE = "conflate"
    DISCONNECT = "disconnect"


class OnNack(Enum):
    """Action on a message that a consumer rejects."""

    REDELIVER = "redeliver"
    DEAD_LETTER = "dead-letter"
    DROP = "drop"


class Kept(Enum):
    """Messages that a durable subscription stores, where the policy does not say so of all."""

    DURABLE = "durable"
    AS_SENT = "as-sent"


class Visible(Enum):
    """The moment from which on clients may see a durable message that no transaction sends."""

    AT_ONCE = "at-once"
    STORED = "stored"


class LateAck(Enum):
    """Action on an ACK or NACK of a message that went to another consumer meanwhile."""

    IGNORE = "ignore"
    ERROR = "error"


class BodySchema(Protocol):
    """A check of message bodies, which the broker knows no more of."""

    def refusal(self, body: bytes) -> str:
        """Why a body does not fit, as the end of a sentence that repeats nothing of it; empty: it fits."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of one destination."""

    max_messages: int = 0  # messages that may wait in a queue; 0: no limit but memory
    max_bytes: int = 0  # bytes of memory that they may use; 0: no limit but memory
    when_full: WhenFull = WhenFull.BLOCK  # the action at these limits
    max_attempts: int = 10  # attempts that may fail before a message is a dead letter; 0: no limit
    backoff: float = 0.1  # seconds before a rejected message is delivered again; 0: at once
    backoff_factor: float = 2.0  # factor by which the delay grows with each further failure
    backoff_max: float = 60.0  # seconds of delay at most
    # the destination of dead letters; None: `/queue/dlq.NAME` for `/queue/NAME`, and none for topics; empty: they are
    # dropped
    dead_letter: str | None = None
    dead_letter_expired: bool = False  # expired messages become dead letters as well
    # seconds within which a consumer must settle a message; else it has failed once, and goes to another one; 0: no
    # limit
    ack_timeout: float = 0.0
    late_ack: LateAck = LateAck.IGNORE  # the action on an ACK or NACK behind that time
    time_to_live: float = 0.0  # seconds after which a message without a time of its own expires; 0: never
    on_nack: OnNack = OnNack.REDELIVER  # the action on a NACK
    # the action on a topic's subscriber that does not keep up
    slow_consumer: SlowConsumerAction = SlowConsumerAction.BLOCK
    slow_messages: int = 1_000  # messages that wait for such a subscriber at most, where `slow_consumer` is not `block`
    # the header with the key of a message; a new message replaces the waiting one with the same key
    conflate_by: str = ""
    auto_delete: bool = False  # a queue is deleted with its last subscriber, and so are its messages
    idle_timeout: float = 0.0  # seconds without subscribers after which a queue is deleted with its messages; 0: never
    # messages outlive the process: True: all of them; False: none; None: those that ask for it
    durable: bool | None = None
    # the messages that durable subscriptions store, where `durable` does not say it: all but those that ask not to be
    # stored, or those that ask for it
    subscriptions_keep: Kept = Kept.DURABLE
    visible: Visible = Visible.AT_ONCE  # the moment from which on clients see them
    log_messages: int = 0  # messages that a topic's stream keeps at most; 0: no limit but the other two
    log_bytes: int = 0  # bytes that the stream keeps at most; 0: no limit if `log_messages` is set, else 16 MiB
    # seconds that the stream keeps a message; 0: no limit but the other two.  A topic has a stream if one of these
    # three is more than 0.
    log_age: float = 0.0
    # the part of a body that the journal keeps, in its words; None: the journal's default
    journal_bodies: str | None = None
    add_user_id: bool = False  # the broker writes the sender's name into a header of each message
    schema: BodySchema | None = None  # the bodies that clients may send; None: all
    presence: bool = False  # clients may learn the users of a topic, see `topic/presence`
    presence_grace: float = 10.0  # seconds for which a user whose connection is lost stays present; 0: none

    @property
    def keeps_stream(self) -> bool:
        """True if a topic keeps its messages for replay."""
        return bool(self.log_messages or self.log_bytes or self.log_age)

    def changes_of(self, other: Policy) -> dict[str, object]:
        """Keys in which another policy differs, with the values of that policy in words."""
        found = {each.name: getattr(other, each.name) for each in dataclasses.fields(self)}
        changed = {name: value for name, value in found.items() if value != getattr(self, name)}
        return {name: value.value if isinstance(value, Enum) else value for name, value in changed.items()}

    def delay_after(self, failures: int) -> float:
        """Seconds of delay after that many failed attempts (1 or more)."""
        # The exponent is bounded, because floats overflow; longer delays are cut to the maximum.
        return min(self.backoff * self.backoff_factor ** min(failures - 1, 64), self.backoff_max)

    def target_of(self, name: str) -> str:
        """Destination of the dead letters of a destination; empty: none."""
        if self.dead_letter is not None:
            return self.dead_letter
        kind, _, rest = name[1:].partition("/")
        return f"/queue/{DEAD_LETTERS}{rest}" if kind == "queue" and not rest.startswith(DEAD_LETTERS) else ""


@dataclass(frozen=True, slots=True)
class QueueArguments:
    """Queue arguments of a client, for the queue that its frame creates; None: not given."""

    max_messages: int | None = None
    max_bytes: int | None = None
    time_to_live: float | None = None
    idle_timeout: float | None = None
    dead_letter: str | None = None
    auto_delete: bool | None = None

    @classmethod
    def from_store(cls, facts: Mapping[str, Any]) -> QueueArguments | None:
        """The arguments among the stored facts of a queue, a subscription or a SEND; None: there are none."""
        found = facts.get(_STORED_KEY)
        if not isinstance(found, Mapping):
            return None
        return cls(**{"max_bytes" if name == _STORED_BYTES else name: value for name, value in found.items()})

    def stored(self) -> dict[str, dict[str, object]]:
        """The facts that keep the arguments in a store."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        if "max_bytes" in values:
            values[_STORED_BYTES] = values.pop("max_bytes")
        return {_STORED_KEY: values}

    def applied_to(self, policy: Policy) -> Policy:
        """The policy with these arguments.  Of a limit, where 0 means none, the lower one counts."""
        changes: dict[str, Any] = {
            name: value
            for name in _LIMITS
            if (value := getattr(self, name)) is not None and not 0 < getattr(policy, name) <= value
        }
        if self.auto_delete is not None:
            changes["auto_delete"] = self.auto_delete
        redirects = self.dead_letter is not None and policy.dead_letter is None
        if redirects:
            changes |= {"dead_letter": self.dead_letter, "dead_letter_expired": True}
        # As in RabbitMQ, a queue that a client limits drops its oldest messages, to the dead letters if it names any.
        if changes.keys() & {"max_messages", "max_bytes"} and not (policy.max_messages or policy.max_bytes):
            changes["when_full"] = WhenFull.DEAD_LETTER if redirects else WhenFull.DROP_OLDEST
        return dataclasses.replace(policy, **changes)


# Queue arguments of which the lower value counts, the client's or the operator's; each other one has a branch in
# `applied_to`.
_LIMITS = ("max_messages", "max_bytes", "time_to_live", "idle_timeout")
# The names that stores have had since the first release.
_STORED_KEY, _STORED_BYTES = "hints", "max_octets"
_STREAM_KEYS = frozenset({"log_messages", "log_bytes", "log_age"})
DEFAULT = Policy()
# Dead letters have no dead letters of their own: they wait until they are consumed.
_DEAD_LETTER_POLICY = Policy(max_attempts=0)
_DEAD_LETTER_QUEUES = f"/queue/{DEAD_LETTERS}"
# Keys that remove messages with time.  Dead letters are kept for inspection, so these keys apply to them only in a
# policy that names their queues.
_LIFETIME_KEYS = frozenset(["max_attempts", "time_to_live", "auto_delete", "idle_timeout"])


class Policies:
    """Policies of the operator.  `rules`: pattern, and keys of `Policy` with their values, in the order of the file."""

    def __init__(self, rules: Iterable[tuple[Pattern, Mapping[str, Any]]] = ()) -> None:
        self._rules = tuple(rules)
        # the destinations that they name for dead letters
        self.dead_letters = {str(values["dead_letter"]) for _, values in self._rules if values.get("dead_letter")}
        streams = [
            (pattern, {key: values[key] for key in _STREAM_KEYS & values.keys()}) for pattern, values in self._rules
        ]
        self._of_streams = [(pattern, values) for pattern, values in streams if values]
        self._of_senders = [
            (pattern, values["add_user_id"]) for pattern, values in self._rules if "add_user_id" in values
        ]
        self.add_user_ids = any(adds for _, adds in self._of_senders)  # some of them set `add_user_id`
        self._of_bodies = [(pattern, values["schema"]) for pattern, values in self._rules if "schema" in values]
        self.checks_bodies = any(schema for _, schema in self._of_bodies)  # some of them set `schema`
        self.tells_presence = any(values.get("presence") for _, values in self._rules)  # some of them set `presence`
        late = [pattern.text for pattern, values in self._rules if values.get("visible") is Visible.STORED]
        # some of them say of topics that messages are seen when they are stored
        self.shows_stored = any(not text.startswith("/queue/") for text in late)

    def keeps_stream(self, name: str) -> bool:
        """True if the policy of that name keeps a stream; faster than `find`, for few policies set one."""
        found: dict[str, Any] = {}
        for pattern, values in self._of_streams:
            if pattern.matches(name):
                found |= values
        return any(found.values())

    def may_keep_stream_in_memory(self, pattern: str) -> bool:
        """True if a topic that a client's pattern matches may have a stream that ends with the process."""
        in_memory = any(values.get("durable") is False and overlap(each.text, pattern) for each, values in self._rules)
        return in_memory and any(overlap(each.text, pattern) for each, _ in self._of_streams)

    def adds_user_id(self, name: str) -> bool:
        """True if the policy of that name adds user ids; faster than `find`, for each header block of a client asks."""
        found = False
        for pattern, adds in self._of_senders:
            if pattern.matches(name):
                found = adds
        return found

    def schema_of(self, name: str) -> BodySchema | None:
        """The schema of that name's policy; faster than `find`, for few policies set one."""
        found = None
        for pattern, schema in self._of_bodies:
            if pattern.matches(name):
                found = schema
        return found

    def is_durable(self, name: str, *, persistent: bool | None) -> bool:
        """Whether a message outlives the process at that destination.  `persistent`: its sender asks for that."""
        durable = self.find(name).durable
        return bool(persistent) if durable is None else durable

    def find(self, name: str) -> Policy:
        """Policy of the destination of that canonical name."""
        is_dead_letters = name.startswith(_DEAD_LETTER_QUEUES)
        policy = _DEAD_LETTER_POLICY if is_dead_letters else DEFAULT
        for pattern, values in self._rules:
            if pattern.matches(name):
                if is_dead_letters and not pattern.text.startswith(_DEAD_LETTER_QUEUES):
                    values = {key: value for key, value in values.items() if key not in _LIFETIME_KEYS}
                policy = dataclasses.replace(policy, **values)
        return policy


MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of sessions and broker, in numbers, bytes and seconds.  The settings of these names explain them."""

    max_subscriptions: int = 20_000
    max_transactions: int = 64
    max_transaction_bytes: int = 16 * MIB
    max_unacknowledged: int = 1_000
    max_outbound: int = 32 * MIB
    memory_limit: int = 1024 * MIB
    max_destinations: int = 1_000_000
    max_unacknowledged_bytes: int = 64 * MIB
    max_delayed: int = 1_000_000
    max_retained: int = 100_000
    max_durable_subscriptions: int = 100_000
    dedup_window: float = 600.0
    max_dedup_ids: int = 100_000
    client_queue_arguments: bool = True
    lenient: bool = False

    @property
    def memory_high(self) -> int:
        """Bytes of memory from which on publishers are held back."""
        return self.memory_limit * 3 // 4
