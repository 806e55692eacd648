"""A program of clients, drawn step by step: the driver of the model.

`Clients` draws what a client does next, tells the `Books`, and then lets the client do it.  Books are the check: they
keep what they must know to say what is right.  `Setup` holds the switches: destinations, what SEND and SUBSCRIBE ask
for, whether there is a store and the process is killed, whether rows are recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gateway.broker.core.ports import Recorder
from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits
from gateway.broker.model.changes import Batch
from gateway.broker.queue.subscription import Subscription
from gateway.codec import V10, V11, V12, Version

from ..client import ALL, Client, Scene
from ..recorder import RecordedScene
from ..store import MemoryStore
from ..wire import Received

if TYPE_CHECKING:
    from .exact_books import Copy, Due, Store

T = TypeVar("T")
Step = Callable[[st.DataObject], None]

MODES = ["client", "auto", "client-individual"]
# Three of these fill the window of an outbox.
LARGE = 3_000
# Clients act at whole quarters of a second, and messages come and come back then; they expire between.
QUARTER = 0.25
EXPIRIES = [125, 375, 1125]
ALIASES = {"/exchange/amq.topic/a": "/topic/a", "/amq/queue/a": "/queue/a"}

# What a consumer may want, and what that means; in SQL no header is neither equal nor unequal to anything.
SELECTORS: dict[str, Callable[[Mapping[str, str]], bool]] = {
    "": lambda headers: True,
    "kind = 'red'": lambda headers: headers.get("kind") == "red",
    "kind <> 'red'": lambda headers: headers.get("kind", "red") != "red",
    "kind IS NULL OR n > 1": lambda headers: "kind" not in headers or int(headers.get("n", 0)) > 1,
}


def pick(data: st.DataObject, options: Sequence[T]) -> T:
    """One of them, drawn by its place.

    `sampled_from` with objects takes their hashes for a part of the example, and an object that has gone leaves its own
    to the next at that address: then the same seed gives other examples, once in a few runs.
    """
    chosen = options[data.draw(st.sampled_from(range(len(options))))]
    if callable(chosen):
        note(f"# {getattr(chosen, '__name__', chosen)}")
    return chosen


@dataclass(frozen=True, eq=False)
class Sent:
    """A SEND."""

    client: Client
    body: bytes
    destinations: tuple[str, ...]  # one, or several with commas between them
    headers: Mapping[str, str] = field(default_factory=dict)  # those that subscribers see
    priority: int = 4
    expires: float = 0.0  # on the scene's clock; 0: never
    delay: float = 0.0  # seconds
    moment: float = 0.0  # the same on the scene's clock; 0: not given
    group: str | None = None
    closes_group: bool = False
    dedup_id: str = ""
    retain: str = ""  # set, remove, or nothing
    key: str | None = None
    persistent: bool = False


@dataclass(eq=False, repr=False)
class Consumer:
    """A subscription as its client sees it, and what the exact books know of it."""

    client: Client
    id: str
    destination: str
    mode: str = "auto"
    selector: str = ""
    prefetch: int | None = None  # unacknowledged messages at most; None: the server's default; 0: any number
    nbytes: int | None = None  # the same in bytes; None: as good as any number
    priority: int = 0
    exclusive: bool = False
    no_local: bool = False
    browser: str = ""  # empty; `end`: it ends with what waits; `on`: it does not
    slow: int | None = None  # messages that wait for it at most; None: as the rules say
    headers: dict[str, str] = field(default_factory=dict)  # all that its SUBSCRIBE asks for
    held: list[Held] = field(default_factory=list)  # what has come and is not acknowledged
    ended: bool = False
    store: Store | None = None  # where its messages come from; None for a topic in mode auto that holds publishers back
    ledger: list[Copy] = field(default_factory=list)  # what it has not acknowledged, in order of delivery
    # what it is still to be shown of what was retained when it came, and the numbers
    retained: list[tuple[Sent, str, int]] = field(default_factory=list)
    # what it must have been told by now, in order of arrival: of a topic, or of a queue that it browses
    due: list[Due] = field(default_factory=list)
    # number of the latest message that it was the first to get, by priority
    latest: dict[int, float] = field(default_factory=dict)

    def wants(self, sent: Sent) -> bool:
        return SELECTORS[self.selector](sent.headers)

    @property
    def most(self) -> float:
        """Unacknowledged messages that it may have."""
        quotas = self.client.scene.broker.quotas
        return (quotas.max_unacknowledged if self.prefetch is None else self.prefetch) or float("inf")

    @property
    def subscription(self) -> Subscription:
        """What the broker has for it, as long as it has not ended."""
        return self.client.session.subscriptions[self.id]


@dataclass(eq=False)
class Held:
    """A MESSAGE that its consumer has not acknowledged.

    Attributes:
        transaction: the open one that will.
        number: grows with each.
    """

    consumer: Consumer
    frame: Received
    transaction: Transaction | None = None
    number: int = field(default_factory=itertools.count().__next__)


@dataclass(eq=False)
class Settlement:
    """An ACK, or a NACK with what it says; `copies`: what the exact books have for `held`."""

    held: list[Held]
    acknowledged: bool
    requeue: bool = True
    reason: str = ""
    copies: list[Copy] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Transaction:
    """What will happen at COMMIT."""

    client: Client
    name: str
    sends: list[Sent] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)


class Books:
    """What one sort of check knows.  The driver calls each method before the frame, if nothing else is said."""

    def __init__(self, play: Clients) -> None:
        self.play = play

    @property
    def scene(self) -> Scene:
        return self.play.scene

    def actions(self) -> dict[Step, bool]:
        """Steps of its own, and whether they are possible now."""
        return {}

    def subscribe(self, consumer: Consumer) -> None: ...

    def unsubscribe(self, consumer: Consumer) -> None: ...

    def publish(self, sent: Sent, transaction: Transaction | None = None) -> None: ...

    def published(self, sent: Sent, transaction: Transaction | None) -> None:
        """The broker has taken the SEND."""

    def settle(self, settlement: Settlement, transaction: Transaction | None = None) -> None: ...

    def commit(self, transaction: Transaction) -> None:
        for sent in transaction.sends:
            self.publish(sent)
        for settlement in transaction.settlements:
            self.settle(settlement)

    def abort(self, transaction: Transaction) -> None: ...

    def promise(self, client: Client, receipt: str) -> None:
        """The frame asks for a receipt; what it does was told before."""

    def leave(self, client: Client, *, taken: bool, lost: bool) -> None: ...

    def resume(self, client: Client) -> None: ...

    def wait(self, data: st.DataObject) -> bool:
        """Let time pass; False: the driver shall."""
        return False

    def came(self, consumer: Consumer, frame: Received) -> None:
        """A MESSAGE has come."""

    def receipt(self, client: Client, id: str) -> None:
        """A RECEIPT has come."""

    def look(self) -> None:
        """The step is over."""

    def written(self) -> None:
        """The store has all."""

    def ending(self) -> None:
        """The process is about to be killed or stopped."""

    def next_process(self, old: Scene, committed: float, *, clean: bool) -> None:
        """Another process has begun, on what the old one had written up to that batch."""

    def finish(self) -> None:
        """The program is over; everything is written."""


@dataclass(frozen=True)
class Setup:
    """The switches of a program."""

    book: Callable[[Clients], Books]  # makes the check
    policies: Mapping[str, Mapping[str, Any]]  # pattern -> keys of `Policy`
    sends: Sequence[str]  # what SEND names
    subscribes: Sequence[str]  # what SUBSCRIBE names
    logs: Sequence[str] = ()  # topics and patterns that can be replayed
    wishes: Sequence[str] = ("",)  # what a SEND asks for, at most so many at a time
    demands: Sequence[str] = ("",)  # what a SUBSCRIBE asks for
    wishes_at_once: int = 2
    demands_at_once: int = 2
    versions: Sequence[Version] = ALL
    quotas: Mapping[str, Any] = field(default_factory=dict)
    stored: bool | MemoryStore = False  # there is a store, or this one, and the process may be killed
    fails: bool = False  # the store, too, and batches are written late
    receipts: bool = False
    ends_empty: bool = True  # nothing may be left when all clients have gone; durable subscriptions stay
    recorder: Callable[[], Recorder] | None = None  # makes the recorder of each process; None: nothing is recorded
    close: Callable[[], object] = dict  # the recorders are done with
    limits: WorkLimits = WORK_LIMITS  # a short program would never reach the usual ones
    # Names of steps, once more for each time.
    often: Sequence[str] = ("publish",) * 5 + ("settle",) * 10 + ("subscribe", "subscribe", "resume", "wait", "end")
    clients: int = 4
    consumers: int = 20
    transactions: int = 3
    waits: Sequence[float] = (0.5, 1.5, 5.5)
    away: Sequence[float] = (1.0, 100.0)  # seconds between two processes


class Clients(RuleBasedStateMachine):
    """Clients of one broker, process after process.

    One rule, which draws what to do from what is possible: with a rule for each, ACKs would be too rare.
    """

    def __init__(self, profile: Callable[[st.DataObject], Setup]) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.profile = profile
        self.consumers: list[Consumer] = []
        self.transactions: list[Transaction] = []
        self.under_way: Batch | None = None
        self.first_seqs: dict[str, int] = {}  # of each log in this process
        self.count = 0
        self.processes = 1
        self.failed = True  # until a step has come to its end

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.setup = setup = self.profile(data)
        made_of = {**setup.quotas, "work_limits": setup.limits, "stored": setup.stored}
        if setup.recorder is None:
            self.scene = Scene(setup.policies, **made_of)
        else:
            self.scene = RecordedScene(setup.recorder, setup.policies, **made_of)
        self.book = setup.book(self)
        for _ in range(3):
            self.connect(data)
        for _ in range(data.draw(st.integers(1, 5))):
            self.subscribe(data)
            self.look()
        self.failed = False

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        vault = self.scene.vault if self.setup.stored else None
        clients, fails = self.clients, self.setup.fails and vault is not None
        possible: dict[Step, bool] = {
            self.connect: len(clients) < self.setup.clients,
            self.leave: len(clients) > 1,
            self.stall: any(not client.stalled for client in clients),
            self.resume: any(client.stalled for client in clients),
            self.subscribe: bool(clients) and len(self.consumers) < self.setup.consumers,
            self.unsubscribe: bool(self.leavable),
            self.publish: bool(clients),
            self.settle: bool(self.settleable),
            self.begin: bool(clients) and len(self.transactions) < self.setup.transactions and not self.is_failing,
            self.end: bool(self.transactions),
            self.wait: True,
            self.write: vault is not None,
            self.take_batch: fails and self.under_way is None,
            self.write_batch: fails and self.under_way is not None,
            self.fail_store: fails and not self.is_failing,
            self.mend_store: self.is_failing,
            self.crash: vault is not None,
            self.restart: vault is not None and not self.is_failing,
        }
        possible |= self.book.actions()
        named = {act.__name__: act for act in possible}
        often = [named[name] for name in self.setup.often]
        self.failed = True
        pick(data, [each for each in [*often, *possible] if possible[each]])(data)
        self.look()
        self.failed = False

    def teardown(self) -> None:
        try:
            if not self.failed:
                if self.setup.stored:
                    self.scene.store.failure = ""
                    self.write_all()
                self.book.finish()
                if self.setup.ends_empty:
                    self.scene.finish()
        finally:
            self.patch.undo()
            if hasattr(self, "setup"):
                self.setup.close()

    def look(self) -> None:
        """Every client reads; then the books compare, and those that were closed are gone."""
        self.read()
        self.book.look()
        for client in [client for client in self.scene.clients if client.closed or client.session.ended]:
            self.forget(client)

    def read(self) -> None:
        for client in self.scene.clients:
            for frame in client.received():
                if frame.command == "RECEIPT":
                    self.book.receipt(client, frame.headers["receipt-id"])
                elif frame.command == "MESSAGE":
                    self._came(client, frame)

    def _came(self, client: Client, frame: Received) -> None:
        found = [each for each in self.consumers if each.client is client and each.id == frame.subscription]
        for consumer in found:  # none: it unsubscribed before it read
            self.book.came(consumer, frame)
            if consumer.mode != "auto" and not consumer.browser and not consumer.ended:
                consumer.held.append(Held(consumer, frame))

    def forget(self, client: Client) -> None:
        """A client has gone, with all it had."""
        self.consumers = [each for each in self.consumers if each.client is not client]
        self.transactions = [each for each in self.transactions if each.client is not client]

    # what there is

    @property
    def clients(self) -> list[Client]:
        return [client for client in self.scene.clients if not client.closed and not client.session.ended]

    @property
    def is_failing(self) -> bool:
        return bool(self.setup.stored) and bool(self.scene.store.failure or self.scene.vault.storage.failure)

    @property
    def settleable(self) -> list[Held]:
        return [
            held
            for consumer in self.consumers
            if not (consumer.client.stalled and consumer.client.version is V10)  # who has not read all may mean another
            for held in consumer.held
            if held.transaction is None
        ]

    @property
    def leavable(self) -> list[Consumer]:
        """Batches do not know what lies unread in the outbox of a consumer that unsubscribes."""
        return [each for each in self.consumers if not (self.setup.fails and each.client.stalled)]

    @property
    def moment(self) -> float:
        """Seconds since the epoch."""
        return self.scene.epoch + self.scene.now

    def transaction(self, data: st.DataObject, client: Client) -> Transaction | None:
        """One of the client's, more often than none if it has any."""
        own = [] if self.is_failing else [each for each in self.transactions if each.client is client]
        return pick(data, [None, *own, *own])

    def next(self) -> int:
        """A number for a body or an id that nothing had before."""
        self.count += 1
        return self.count

    def receipt(self, client: Client) -> dict[str, str]:
        """Ask for a RECEIPT, where it is looked at."""
        if not self.setup.receipts:
            return {}
        name = f"r{self.next()}"
        self.book.promise(client, name)
        return {"receipt": name}

    # clients

    def connect(self, data: st.DataObject) -> None:
        self.scene.connect(pick(data, self.setup.versions)).stalled = data.draw(st.booleans())

    def leave(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        graceful = data.draw(st.booleans())
        self.end_client(client, graceful=graceful)
        (client.disconnect if graceful else client.drop)()

    def end_client(self, client: Client, *, graceful: bool) -> None:
        self.book.leave(client, taken=graceful, lost=not graceful)
        for consumer in [each for each in self.consumers if each.client is client]:
            consumer.ended, consumer.held = True, []

    def stall(self, data: st.DataObject) -> None:
        pick(data, [client for client in self.clients if not client.stalled]).stalled = True

    def resume(self, data: st.DataObject) -> None:
        client = pick(data, [client for client in self.clients if client.stalled])
        self.book.resume(client)
        client.resume()

    def wait(self, data: st.DataObject) -> None:
        if not self.book.wait(data):
            self.scene.wait(pick(data, self.setup.waits))

    # SUBSCRIBE, UNSUBSCRIBE

    def subscribe(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        consumer = Consumer(client, str(self.next()), pick(data, self.setup.subscribes), pick(data, MODES))
        at_once = self.setup.demands_at_once
        for demand in data.draw(
            st.lists(st.sampled_from(self.setup.demands), min_size=at_once, max_size=at_once, unique=True)
        ):
            self.demand(data, demand, consumer)
        if any(each.client is client and each.id == consumer.id for each in self.consumers):
            return
        self.book.subscribe(consumer)
        self.consumers.append(consumer)
        client.subscribe(consumer.destination, consumer.id, consumer.mode, **consumer.headers)

    def demand(self, data: st.DataObject, what: str, consumer: Consumer) -> None:
        of_queue, headers = consumer.destination.startswith("/queue/"), consumer.headers
        if what == "selector":
            headers["selector"] = consumer.selector = data.draw(st.sampled_from(list(SELECTORS)))
        elif what == "prefetch" and consumer.prefetch is None:
            consumer.prefetch = data.draw(st.sampled_from([1, 0, 5]))
            headers["prefetch-count"] = str(consumer.prefetch)
        elif what == "octets" and consumer.prefetch is None:
            consumer.prefetch, consumer.nbytes = 0, 4_000
            headers["consumer-window-size"] = "4000"
        elif what == "priority":
            consumer.priority = data.draw(st.sampled_from([1, -1]))
            headers["x-priority"] = str(consumer.priority)
        elif what == "exclusive" and of_queue:
            consumer.exclusive = True
            headers["exclusive"] = "true"
        elif what == "browser" and of_queue:
            consumer.mode = "auto"
            consumer.browser = data.draw(st.sampled_from(["end", "on"]))
            headers |= {"browser": "true", "browser-end": str(consumer.browser == "end").lower()}
        elif what == "no-local" and not of_queue:
            consumer.no_local = True
            headers["no-local"] = "true"
        elif what == "slow" and not of_queue:
            consumer.slow = 2
            headers["activemq.maximumPendingMessageLimit"] = "2"
        elif what == "durable" and not of_queue:
            consumer.id, headers["durable"] = "durable", "true"
        elif what == "shared" and not of_queue:
            headers["x-queue-name"] = "shared"
        elif what == "sequence":
            headers["include-seq"] = "n"
        elif what.startswith("log ") and consumer.destination in self.setup.logs:
            self.demand_log(data, what.removeprefix("log "), consumer)

    def demand_log(self, data: st.DataObject, what: str, consumer: Consumer) -> None:
        """Where a subscription of a topic with a log begins."""
        headers = consumer.headers
        # A client that does not read begins later, with what is there then.
        if consumer.client.stalled or headers.keys() & {"resume", "from-seq", "x-stream-offset"}:
            return
        if what.startswith("resume"):
            headers["resume"] = data.draw(st.sampled_from("xyz"))
            consumer.mode = "client" if consumer.mode == "auto" else consumer.mode
        first = self.first_seqs.get(consumer.destination)
        if what in ("first", "resume-first") or (what == "seq" and first is None):
            headers["from-seq"] = "0"
        elif what == "last":
            headers["x-stream-offset"] = "last"
        elif what == "seq":
            stream = self.scene.broker.registry.streams._streams.get(consumer.destination)
            assert stream is not None  # it has been sent something
            headers["from-seq"] = str(data.draw(st.integers(first, stream.next)))

    def unsubscribe(self, data: st.DataObject) -> None:
        consumer = pick(data, self.leavable)
        self.book.unsubscribe(consumer)
        consumer.ended = True
        self.consumers.remove(consumer)
        for_good = "durable" in consumer.headers and data.draw(st.booleans())
        consumer.client.send("UNSUBSCRIBE", {"id": consumer.id} | ({"durable": "true"} if for_good else {}))

    # SEND

    def publish(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        destination = pick(data, self.setup.sends)
        transaction = self.transaction(data, client)
        at_once = self.setup.wishes_at_once
        wishes = data.draw(
            st.lists(st.sampled_from(self.setup.wishes), min_size=at_once, max_size=at_once, unique=True)
        )
        what: dict[str, Any] = {}
        headers: dict[str, str] = {}
        for wish in wishes:
            self.wish(data, wish, destination, what, headers)
        parts = [part.strip() for part in destination.split(",")]
        for _ in range(data.draw(st.integers(1, 5))):
            own = data.draw(st.sampled_from([{}, {"kind": "red"}, {"kind": "blue", "n": "2"}]))
            body = b"%d." % self.next() + b" " * (LARGE if "large" in wishes else 0)
            if "dedup" in wishes:
                what["dedup_id"] = headers["dedup-id"] = f"{self.count % 4}.{self.processes}"
            sent = Sent(client, body, tuple(ALIASES.get(part, part) for part in parts), own | headers, **what)
            self.send(sent, destination, transaction)
            if transaction is None:
                self.look()
            if client.closed:
                break

    def send(self, sent: Sent, destination: str, transaction: Transaction | None) -> None:
        client = sent.client
        self.book.publish(sent, transaction)
        control = {} if transaction is None else {"transaction": transaction.name}
        control |= {} if client.session.ended else self.receipt(client)
        client.publish(destination, sent.body, **sent.headers, **control)
        if transaction is not None:
            transaction.sends.append(sent)
        stream = self.scene.broker.registry.streams._streams.get(destination)
        if stream is not None and stream.next > stream.first:
            self.first_seqs.setdefault(destination, stream.first)
        self.book.published(sent, transaction)

    def wish(
        self, data: st.DataObject, wish: str, destination: str, what: dict[str, Any], headers: dict[str, str]
    ) -> None:
        now = self.scene.now
        if wish == "priority":
            what["priority"] = data.draw(st.sampled_from([9, 0]))
            headers["priority"] = str(what["priority"])
        elif wish == "group":
            what["group"] = headers["JMSXGroupID"] = data.draw(st.sampled_from(["g", "h"]))
            if data.draw(st.integers(0, 3)) == 3:
                what["closes_group"] = True
                headers["JMSXGroupSeq"] = "-1"
        elif wish == "delay":
            quarters = data.draw(st.sampled_from([1, 3, 0]))
            if data.draw(st.booleans()):
                what["delay"] = quarters * QUARTER
                headers["x-delay"] = str(int(quarters * QUARTER * 1000))
            else:
                what["moment"] = now + quarters * QUARTER
                headers["_AMQ_SCHED_DELIVERY"] = str(int((self.moment + quarters * QUARTER) * 1000))
        elif wish == "long-delay":
            what["delay"] = data.draw(st.sampled_from([2.25, 4.25]))
            headers["x-delay"] = str(int(what["delay"] * 1000))
        elif wish == "ttl":
            life = data.draw(st.sampled_from(EXPIRIES))
            what["expires"] = now + life / 1000
            if data.draw(st.booleans()):
                headers["ttl"] = str(life)
            else:
                headers["expires"] = str(int(self.moment * 1000) + life)
        elif wish == "long-ttl":
            headers["ttl"] = data.draw(st.sampled_from(["3000", "4000"]))
        elif wish == "past":
            headers["expires"] = "1"
        elif wish == "key":
            key = data.draw(st.sampled_from(["x", "y"]))
            if data.draw(st.booleans()):
                headers["symbol"] = key
            else:
                what["key"] = headers["_AMQ_LVQ_NAME"] = key
        elif wish == "retain" and "queue" not in destination:
            what["retain"] = headers["retain"] = data.draw(st.sampled_from(["set", "set", "remove"]))
        elif wish == "persistent":
            what["persistent"], headers["persistent"] = True, "true"

    # ACK, NACK

    def settle(self, data: st.DataObject) -> None:
        held = pick(data, self.settleable)
        client = held.consumer.client
        transaction = self.transaction(data, client)
        settlement = Settlement(self.covered(held), client.version is V10 or data.draw(st.booleans()))
        # A message of a log comes back until it is acknowledged: NACKs must end.
        if "seq" in held.frame.headers or "gap" in held.frame.headers:
            settlement.acknowledged |= held.consumer.mode == "client"
            settlement.acknowledged |= int(held.frame.headers.get("delivery-count", "1")) >= 5
        headers: dict[str, str] = {}
        if not settlement.acknowledged:
            settlement.requeue = data.draw(st.sampled_from([True, True, False]))
            settlement.reason = data.draw(st.sampled_from(["", "bad"]))
            headers |= {"reason": settlement.reason} if settlement.reason else {}
            headers |= {} if settlement.requeue else {"requeue": "false"}
        self.book.settle(settlement, transaction)
        if transaction is not None:
            transaction.settlements.append(settlement)
            headers["transaction"] = transaction.name
        for each in settlement.held:
            each.transaction = transaction
            if transaction is None:
                each.consumer.held.remove(each)
        headers |= self.receipt(client)
        (client.ack if settlement.acknowledged else client.nack)(held.frame, **headers)
        assert not client.failures or client.closed

    def covered(self, held: Held) -> list[Held]:
        """What an ACK or NACK of that one settles."""
        consumer = held.consumer
        if consumer.client.version is V10:  # names the message alone; of its subscriptions, the one that got it first
            own = [each for each in self.settleable if each.consumer.client is consumer.client]
            same = [each for each in own if each.frame.message_id == held.frame.message_id]
            held = min(same, key=lambda each: each.number)
            consumer = held.consumer
        if consumer.mode == "client-individual":
            return [held]
        upto = consumer.held[: consumer.held.index(held) + 1]
        return [each for each in upto if each.transaction is None]

    # transactions

    def begin(self, data: st.DataObject) -> None:
        transaction = Transaction(pick(data, self.clients), str(self.next()))
        self.transactions.append(transaction)
        transaction.client.begin(transaction.name)

    def end(self, data: st.DataObject) -> None:
        transaction = pick(data, self.transactions)
        client = transaction.client
        commits = data.draw(st.booleans()) and not self.is_failing
        (self.book.commit if commits else self.book.abort)(transaction)
        self.transactions.remove(transaction)
        for held in [held for settlement in transaction.settlements for held in settlement.held]:
            held.transaction = None
            if commits and held in held.consumer.held:
                held.consumer.held.remove(held)
        if commits:
            client.send("COMMIT", {"transaction": transaction.name} | self.receipt(client))
        else:
            client.abort(transaction.name)

    # the store, and the process

    def write(self, data: st.DataObject) -> None:
        """The store takes all there is."""
        self.write_all()

    def write_all(self) -> None:
        vault, self.under_way = self.scene.vault, None
        while vault.write(vault.take()):
            self.read()
        self.read()
        if self.is_failing:
            self.under_way = vault.take() if vault.storage.unwritten else None
            return
        self.book.written()

    def take_batch(self, data: st.DataObject) -> None:
        self.under_way = self.scene.vault.take()

    def write_batch(self, data: st.DataObject) -> None:
        if self.scene.vault.write(self.under_way):
            self.under_way = None

    def fail_store(self, data: st.DataObject) -> None:
        self.scene.store.failure = "the disk is full"

    def mend_store(self, data: st.DataObject) -> None:
        self.scene.store.failure = ""

    def crash(self, data: st.DataObject) -> None:
        """The process is killed; a batch may have reached the disk, though the broker does not know."""
        vault = self.scene.vault
        vault.store.failure = ""
        committed = vault.storage.committed
        if data.draw(st.booleans()) and not self.setup.fails:
            self.write_all()
            committed = vault.storage.committed
        if self.under_way is not None and self.reach_disk(data, self.under_way):
            committed = self.under_way.number
        self.book.ending()
        self.begin_process(self.scene.crash(data.draw(st.sampled_from(self.setup.away))), committed, clean=False)

    def reach_disk(self, data: st.DataObject, batch: Batch) -> bool:
        """The process is killed while it writes; True: all of it is written."""
        written = data.draw(st.booleans())
        if written:
            self.scene.store.write(batch)
        return written

    def restart(self, data: st.DataObject) -> None:
        """The process stops in order."""
        self.write(data)
        for client in self.clients:
            client.stalled = False
            client.flush()
        self.scene.settle()
        self.look()
        self.book.ending()
        self.begin_process(self.scene.restart(), float("inf"), clean=True)

    def begin_process(self, scene: Scene, committed: float, *, clean: bool) -> None:
        old, self.under_way = self.scene, None
        if clean:
            self.read()
        self.consumers, self.transactions, self.scene = [], [], scene
        self.processes += 1
        self.first_seqs.clear()
        self.book.next_process(old, committed, clean=clean)
        scene.connect(V12)
        scene.connect(V11)
