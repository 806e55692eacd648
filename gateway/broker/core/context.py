"""Context: the parts that all of the broker shares.

The broker makes one and hands it down, so that a queue, a topic or a session needs to know neither the broker nor each
other to keep time, count, account for memory, write to the store, or report an event.  What a part needs of a layer
above it is here as a protocol (`Destinations`) or as a callable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from ..headers.parse import Misspelt
from ..model.policy import Policies, Quotas
from .ages import MessageAges
from .counters import Counters
from .events import EventLog, NullEventLog
from .memory import Memory
from .outbox import Outbox, Source
from .ports import Application, Destinations, Peer
from .queue_arguments import ArgumentsNotice
from .scheduler import Scheduler
from .slow_consumers import SlowConsumers
from .storage import Storage


class Context:
    """The parts that the broker hands down.

    Attributes:
        quotas: the limits in force.
        policies: the rules of destinations.
        counters: totals since the start.
        scheduler: timers, and work to be done in slices.
        memory: the account of kept messages.
        storage: write-behind to the store; None: messages end with the process.
        records: the event log.
        destinations: the registry and the router, as queues and topics use them.
        application: the functions behind `/app/`; None: there are none.
        sessions: by id.
        ages: when messages came, by their numbers.
        last_number: of the last message; numbers only grow.
        waiting: messages in queues that no consumer has.
        subscriptions: of all sessions.
        group_bytes: nearly what the message groups of all queues cost.
        dead_letters_under_way: dead letters that are being routed, each because of the one before it.
        checks_sends: a SEND has to be checked in full, because memory is short or the store has failed.
        dirty: outboxes with frames to flush.
        full: queues that the reader at work filled to their limit; it empties the set.
        slow_consumers: outboxes beyond their marks.
        on_room: called when a full queue has room again.
        on_arguments: called when a client's queue arguments come into force, or come too late.
        on_misspelt: called with a SUBSCRIBE header that looks like a known one and has no effect, the session's id and
            its login.
    """

    __slots__ = (
        *("ages", "application", "checks_sends", "counters", "dead_letters_under_way", "destinations", "dirty"),
        *("full", "group_bytes", "last_number", "memory", "on_arguments", "on_misspelt", "on_room", "policies"),
        *("quotas", "records", "scheduler", "sessions", "slow_consumers", "storage", "subscriptions", "waiting"),
    )

    def __init__(
        self,
        quotas: Quotas,
        policies: Policies,
        scheduler: Scheduler,
        memory: Memory,
        destinations: Destinations,
        sessions: Mapping[str, Peer],
        *,
        on_room: Callable[[], None],
        on_arguments: Callable[[ArgumentsNotice], None],
        on_misspelt: Callable[[Misspelt, str, str], None],
    ) -> None:
        self.quotas = quotas
        self.policies = policies
        self.ages = MessageAges(scheduler.clock)
        self.counters = Counters()
        self.scheduler = scheduler
        self.memory = memory
        self.storage: Storage | None = None
        self.records: EventLog = NullEventLog()
        self.destinations = destinations
        self.application: Application | None = None
        self.sessions = sessions
        self.last_number = 0
        self.waiting = 0
        self.subscriptions = 0
        self.group_bytes = 0
        self.dead_letters_under_way = 0
        self.checks_sends = False
        self.dirty: deque[Outbox] = deque()
        self.full: set[Source] = set()
        self.slow_consumers = SlowConsumers(quotas, memory, self.counters)
        self.on_room = on_room
        self.on_arguments = on_arguments
        self.on_misspelt = on_misspelt

    def next_number(self) -> int:
        """The number of a new message."""
        self.last_number += 1
        return self.last_number

    def take_full(self) -> set[Source]:
        """The queues that came to their limit in this turn."""
        full = self.full
        if full:
            self.full = set()
        return full

    def check_stores(self) -> None:
        """Note that the store has failed or works again, or that memory is short or no longer."""
        self.checks_sends = self.memory.pressed or (self.storage is not None and self.storage.failure != "")
