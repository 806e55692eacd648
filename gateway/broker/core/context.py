"""Context: the parts that all of the broker shares.

The broker makes one and hands it down, so that a queue, a topic or a session needs to know neither the broker nor each
other to keep time, count, account for memory, write to the store, or report an event.  What a part needs of a layer
above it is here as a protocol (`Destinations`) or as a callable.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from ..headers.parse import Misspelt
from ..model.policy import Policies, Quotas
from .ages import MessageAges
from .arguments_check import ArgumentsNotice
from .counters import Counters, Tallies
from .events import EventLog, NullEventLog
from .memory import Memory
from .outbox import Fillable, Outbox
from .ports import Announcer, Application, Destinations, Peer
from .scheduler import Scheduler
from .slow_consumers import SlowConsumers
from .storage import Storage
from .work_limits import WORK_LIMITS, WorkLimits


@dataclass(slots=True, eq=False)
class Context:
    """The parts that the broker hands down."""

    quotas: Quotas  # the limits in force
    policies: Policies  # the rules of destinations
    scheduler: Scheduler  # timers, and work to be done in slices
    memory: Memory  # the account of kept messages
    destinations: Destinations  # the registry and the router, as queues and topics use them
    sessions: Mapping[str, Peer]  # by id
    _: KW_ONLY
    on_room: Callable[[], None]  # called when a full queue has room again
    on_arguments: Callable[[ArgumentsNotice], None]  # called when a client's queue arguments come into force, or late
    # called with a SUBSCRIBE header that looks like a known one and has no effect, the session's id and its login
    on_misspelt: Callable[[Misspelt, str, str], None]
    work_limits: WorkLimits = WORK_LIMITS  # the work of one turn, and what stays in memory
    storage: Storage | None = None  # write-behind to the store; None: messages end with the process
    records: EventLog = field(default_factory=NullEventLog)  # the event log
    announcer: Announcer | None = None  # publishes events for applications; None: they want none
    application: Application | None = None  # the functions behind `/app/`; None: there are none
    counters: Counters = field(default_factory=Counters)  # totals since the start
    ages: MessageAges = field(init=False)  # when messages came, by their numbers
    slow_consumers: SlowConsumers = field(init=False)  # outboxes beyond their marks
    tallies: Tallies = field(init=False)  # messages of each destination, and those that it lost
    last_number: int = 0  # of the last message; numbers only grow
    waiting: int = 0  # messages in queues that no consumer has
    subscriptions: int = 0  # of all sessions
    stalled_consumers: int = 0  # consumers that get nothing more, because they let a message time out
    group_bytes: int = 0  # nearly what the message groups of all queues cost
    dead_letters_under_way: int = 0  # dead letters that are being routed, each because of the one before it
    checks_sends: bool = False  # a SEND has to be checked in full, because memory is short or the store has failed
    # actions for the end of the COMMIT that is being carried out, which sends what is not to be seen yet; None: none is
    commit: list[Callable[[], None]] | None = None
    unseen_until: int = 0  # what is unseen anywhere may be seen when that batch of the store is written
    dirty: deque[Outbox] = field(default_factory=deque)  # outboxes with frames to flush
    full: set[Fillable] = field(default_factory=set)  # what the reader at work filled; it empties the set

    def __post_init__(self) -> None:
        self.ages = MessageAges(self.scheduler.clock)
        self.tallies = Tallies(self.scheduler.clock)
        self.slow_consumers = SlowConsumers(self.quotas, self.memory, self.counters)

    def next_number(self) -> int:
        """The number of a new message."""
        self.last_number += 1
        return self.last_number

    # messages that are not to be seen yet, see `unseen`

    def begin_commit(self) -> int:
        """From now on what is routed is unseen; returns what `end_commit` needs."""
        if self.storage is None:
            return 0
        self.commit = []
        return self.storage.changes

    def end_commit(self, changes: int) -> None:
        """Show what was routed: once the store has the COMMIT; at once if that changed nothing there."""
        storage, actions = self.storage, self.commit
        if storage is None or actions is None:
            return
        self.commit = None
        if storage.changes != changes:
            self.unseen_until = storage.number
        for action in actions:
            if storage.changes == changes:
                action()
            else:
                storage.when_gathered(action)

    def when_seen(self, action: Callable[[], None]) -> None:
        """Do something when the message may be seen that is being routed."""
        if self.commit is not None:
            self.commit.append(action)
            return
        assert self.storage is not None  # without a store nothing is unseen
        self.unseen_until = self.storage.number
        self.storage.when_gathered(action)

    def when_all_seen(self, action: Callable[[], None]) -> None:
        """Do something when all may be seen that was routed so far; at once, if it may."""
        if self.storage is None or self.unseen_until <= self.storage.committed:
            action()
        else:
            self.storage.when_written(self.unseen_until, action)

    def take_full(self) -> set[Fillable]:
        """The queues that came to their limit in this turn."""
        full = self.full
        if full:
            self.full = set()
        return full

    def check_stores(self) -> None:
        """Note that the store has failed or works again, or that memory is short or no longer."""
        # Worked out here, so that a SEND looks at one attribute (`Router.publish`).
        self.checks_sends = self.memory.pressed or (self.storage is not None and self.storage.failure != "")
