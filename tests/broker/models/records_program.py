"""Programs of clients whose rows are counted: what each client did and got, and what the rows must be for that.

`Program` makes clients do things and writes down, from their side alone, what the rows have to tell.  `check` compares:

    each MESSAGE frame             one `delivered` or `redelivered`, in the order in which the session got them
    each SEND that was taken       one `accepted` for each destination, at COMMIT or when its time has come
    each delivery that is settled  one `acked` or `nacked`
    each message in a queue        came from somewhere, and is there, or has one end
    the broker's counters          the same sums
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from gateway.broker.core.outbox import Outbox
from gateway.broker.errors import SlowConsumer
from gateway.broker.model.destinations import is_topic
from gateway.broker.model.message import Message
from gateway.broker.model.policy import OnNack, WhenFull
from gateway.broker.model.policy import SlowConsumerAction as Slow
from gateway.broker.queue import durable, paging
from gateway.broker.queue.queue import Queue
from gateway.broker.queue.subscription import Subscription
from gateway.broker.routing.router import Router
from gateway.broker.topic.retained import Retained
from gateway.codec import V11, V12

from ..client import Client, Rules
from ..recorder import Notes, RecordedScene
from ..wire import Received, parse
from .records_checks import Settled, alive, check_counters, check_frames, check_sessions, check_times, settled_in

QUEUES = tuple(f"/queue/{name}" for name in "abcdefgh")
TOPICS = tuple(f"/topic/{name}" for name in "abcdef")
LOGS = ("/topic/c", "/topic/f")
ALIASES = {"/exchange/amq.topic/a": "/topic/a", "/amq/queue/a": "/queue/a"}
POLICIES: Rules = {
    "/queue/a": {"max_attempts": 2},
    "/queue/b": {"max_messages": 2, "when_full": WhenFull.DROP_OLDEST},
    "/queue/c": {"max_messages": 2, "when_full": WhenFull.DROP_NEWEST, "on_nack": OnNack.DROP},
    "/queue/d": {"max_messages": 2, "when_full": WhenFull.DEAD_LETTER, "dead_letter_expired": True},
    "/queue/e": {"auto_delete": True, "conflate_by": "key", "on_nack": OnNack.DEAD_LETTER},
    "/queue/f": {"idle_timeout": 10.0, "time_to_live": 7.0, "backoff": 2.0},
    "/queue/g": {"dead_letter": "/topic/a", "max_attempts": 1, "dead_letter_expired": True},
    "/queue/h": {"dead_letter": "", "max_attempts": 1, "dead_letter_expired": True},
    "/topic/b": {"slow_consumer": Slow.CONFLATE, "conflate_by": "key", "slow_messages": 2},
    "/topic/c": {"log_messages": 4, "dead_letter": "/queue/a", "max_attempts": 1},
    "/topic/d": {"slow_consumer": Slow.DROP_OLDEST, "slow_messages": 2, "dead_letter_expired": True},
    "/topic/e": {"slow_consumer": Slow.DISCONNECT, "slow_messages": 2},
    "/topic/f": {"slow_consumer": Slow.DROP_NEWEST, "slow_messages": 2, "log_messages": 4},
}

# number, subscription, destination, size, which delivery it was
Got = tuple[int, str, str, int, int]
# session, destination, body, transaction
Taken = tuple[str | None, str | None, bytes | None, str | None]


@dataclass(eq=False)
class Sub:
    """A subscription as its client sees it.

    Attributes:
        held: what is to be acknowledged, and the transaction that has it; empty: none.
    """

    id: str
    mode: str
    browser: bool
    durable: bool
    held: list[tuple[Received, str]] = field(default_factory=list)


@dataclass
class Waiting:
    """A SEND whose time has not come.

    Attributes:
        due: seconds since the epoch.
        durable: those that a store has.
    """

    due: float
    taken: list[Taken]
    durable: list[Taken]


@dataclass
class Transaction:
    sends: list[Callable[[], None]] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)


@dataclass(eq=False)
class Actor:
    """A client, and what it knows.

    Attributes:
        settled: what the rows have to tell of its ACKs and NACKs, in order.
        browsers: ids of all subscriptions that ever were one.
    """

    client: Client
    subs: dict[str, Sub] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)
    browsers: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.client.session.id

    def look(self) -> None:
        """What came enters its ledgers."""
        for frame in self.client.received():
            sub = self.subs.get(frame.headers.get("subscription", ""))
            if frame.command == "MESSAGE" and sub is not None and sub.mode != "auto":
                sub.held.append((frame, ""))

    def nbytes(self) -> bytes:
        """All that was put into its outbox, as far as that can still be known."""
        return self.client.written + (self.client.at_close or b"".join(self.client.session.outbox.parts))

    def got(self) -> list[Got]:
        """The messages in there."""
        frames = [frame for frame in parse(self.nbytes(), self.client.version) if frame.command == "MESSAGE"]
        return [self._got(frame) for frame in frames if "browser" not in frame.headers]

    def _got(self, frame: Received) -> Got:
        destination = frame.headers["destination"]
        count = 0 if frame.subscription in self.browsers else int(frame.headers.get("delivery-count", "1"))
        assert frame.redelivered == (count > 1)
        destination = ALIASES.get(destination, destination)
        return number_of(frame), frame.subscription, destination, len(frame.body), count

    def settlement(self, sub: Sub, frame: Received, acknowledged: bool, tx: str, reason: str) -> Settled:
        _, _, destination, _, count = self._got(frame)
        event = "acked" if acknowledged else "nacked"
        return event, sub.id, number_of(frame), count, destination, tx or None, reason or None


def number_of(frame: Received) -> int:
    return int(frame.message_id.rpartition("-")[2])


class Watch:
    """Counts in the broker what no row tells.

    Attributes:
        entered: messages that came into queues.
        consumed: those that went out in mode auto, and did not come back.
        elsewhere: ends of what was in no queue: expired on its way to a topic, or retained.
    """

    def __init__(self) -> None:
        self.entered = 0
        self.consumed = 0
        self.elsewhere: Counter[str] = Counter()

    @contextmanager
    def here(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            accept, deliver, route = Queue.accept, Subscription.deliver, Router._route
            not_written, expire = Outbox.not_written, Retained._expire

            def on_accept(queue: Queue, message: Message) -> None:
                self.entered += 1
                accept(queue, message)

            def on_deliver(subscription: Subscription, message: Message) -> None:
                self.consumed += subscription.ledger is None
                deliver(subscription, message)

            def on_not_written(outbox: Outbox) -> list[tuple[Queue, Message]]:
                returned = not_written(outbox)
                self.consumed -= len(returned)
                return returned

            def on_route(router: Router, name: str, message: Message, sender: str) -> None:
                self.elsewhere["expired"] += is_topic(name) and 0 < message.expires <= router._clock()
                route(router, name, message, sender)

            def on_expire(retained: Retained, name: str) -> None:
                self.elsewhere["expired"] += 1
                expire(retained, name)

            patch.setattr(Queue, "accept", on_accept)
            patch.setattr(Subscription, "deliver", on_deliver)
            patch.setattr(Outbox, "not_written", on_not_written)
            patch.setattr(Router, "_route", on_route)
            patch.setattr(Retained, "_expire", on_expire)
            patch.setattr(durable, "MOST_IN_MEMORY", 2_000)
            patch.setattr(paging, "_LOW", 2)
            patch.setattr(paging, "_PAGE", 3)
            yield


class Program:
    """One process after the other.

    Attributes:
        actors: the clients that are there; `everybody` has the others, too.
        taken: what the rows have to tell of SENDs, in any order.
    """

    def __init__(self, scene: RecordedScene) -> None:
        self.scene = scene
        self.watch = Watch()
        self.actors: list[Actor] = []
        self.everybody: list[Actor] = []
        self.taken: Counter[Taken] = Counter()
        self.later: list[Waiting] = []
        self.stored: list[Waiting] = []
        self.recovered = 0
        self.bodies = 0
        self._processes = 1
        self._seen: set[tuple[str, str]] = set()

    # clients

    def connect(self, *, old: bool = False) -> Actor:
        actor = Actor(self.scene.connect(V11 if old else V12))
        self.actors.append(actor)
        self.everybody.append(actor)
        return actor

    def look(self) -> None:
        """Everybody reads, and who was ended is gone; time may have brought what was put off."""
        for actor in self.actors:
            actor.look()
        self.actors = [actor for actor in self.actors if not actor.client.closed and not actor.client.session.ended]
        due = [each for each in self.later if each.due <= self.moment]
        self.later = [each for each in self.later if each.due > self.moment]
        for each in due:
            self.taken.update(each.taken)

    @property
    def moment(self) -> float:
        return self.scene.epoch + self.scene.now

    # SEND

    def send(self, actor: Actor, destination: str, tx: str = "", **headers: str) -> None:
        """A SEND, with a body of its own."""
        self.bodies += 1
        body = b"%d" % self.bodies
        if "dedup-id" in headers:  # of those of an earlier process, some are known still
            headers["dedup-id"] += f" {self._processes}"
        parts = [ALIASES.get(part, part) for part in destination.split(",")]
        actor.client.publish(destination, body, **headers, **({"transaction": tx} if tx else {}))
        if was_refused(actor.client):
            return
        take = partial(self._take, actor.id, parts, body, tx, headers)
        if tx:
            actor.transactions[tx].sends.append(take)
        else:
            take()

    def _take(self, session: str, parts: list[str], body: bytes, tx: str, headers: dict[str, str]) -> None:
        if "dedup-id" in headers:
            parts = [part for part in parts if (part, headers["dedup-id"]) not in self._seen]
            self._seen.update([(part, headers["dedup-id"]) for part in parts])
        delay = int(headers.get("x-delay", "0")) / 1000
        if delay:
            taken: list[Taken] = [(session, part, body, None) for part in parts]
            durable = [each for each in taken if headers.get("persistent") == "true" or each[1] in LOGS]
            self.later.append(Waiting(self.moment + delay, taken, durable))
        else:
            self.taken.update([(session, part, body, tx or None) for part in parts])

    # SUBSCRIBE

    def subscribe(self, actor: Actor, destination: str, id: str, mode: str, **headers: str) -> None:
        is_browser = "browser" in headers
        actor.subs[id] = Sub(id, mode, is_browser, "durable" in headers)
        if is_browser:
            actor.browsers.add(id)
        actor.client.subscribe(destination, id, mode, **headers)

    def unsubscribe(self, actor: Actor, id: str, *, for_good: bool = False) -> None:
        sub = actor.subs.pop(id)
        actor.client.send("UNSUBSCRIBE", {"id": id} | ({"durable": "true"} if for_good and sub.durable else {}))

    # ACK, NACK

    def settle(self, actor: Actor, sub: Sub, place: int, *, acknowledged: bool, tx: str = "", **headers: str) -> None:
        frame = sub.held[place][0]
        first = 0 if sub.mode == "client" else place
        covered = [each for each in sub.held[first : place + 1] if not each[1]]
        if not covered or covered[-1][0] is not frame:
            return  # a transaction has it
        rows = [actor.settlement(sub, each, acknowledged, tx, headers.get("reason", "")) for each, _ in covered]
        if tx:
            actor.transactions[tx].settled += rows
            sub.held = [(each, tx if (each, held) in covered else held) for each, held in sub.held]
            headers["transaction"] = tx
        else:
            actor.settled += rows
            sub.held = [each for each in sub.held if each not in covered]
        (actor.client.ack if acknowledged else actor.client.nack)(frame, **headers)
        assert not was_refused(actor.client)

    # transactions

    def begin(self, actor: Actor, tx: str) -> None:
        actor.transactions[tx] = Transaction()
        actor.client.begin(tx)

    def commit(self, actor: Actor, tx: str) -> None:
        transaction = actor.transactions.pop(tx)
        for take in transaction.sends:
            take()
        actor.settled += transaction.settled
        for sub in actor.subs.values():
            sub.held = [each for each in sub.held if each[1] != tx]
        actor.client.commit(tx)
        assert not was_refused(actor.client)

    def abort(self, actor: Actor, tx: str) -> None:
        del actor.transactions[tx]
        for sub in actor.subs.values():
            sub.held = [(frame, "" if held == tx else held) for frame, held in sub.held]
        actor.client.abort(tx)

    # the store, and the process

    def write(self) -> None:
        self.scene.commit()
        self.stored = [Waiting(each.due, each.durable, each.durable) for each in self.later]

    def crash(self) -> None:
        """The process is killed; the next one."""
        self.watch.entered = self.watch.consumed = 0
        self.watch.elsewhere.clear()
        store = self.scene.store
        lost = {number for number, row in store.rows.items() if row.transient}
        kinds = {number: place.kind for number, place in store.places.items()}
        rows = [row for number, row in store.rows.items() if number not in lost]
        self.recovered = sum([kinds[row.place] in ("queue", "subscription") for row in rows])
        self.actors, self.everybody = [], []
        self.taken.clear()
        self._seen.clear()
        self._processes += 1
        self.later = self.stored
        self.scene = self.scene.crash()
        self.scene.wait(0.1)  # what became due meanwhile

    # what the rows have to be

    def check(self, notes: Notes) -> None:
        """At any moment between two steps."""
        check_counters(self.scene, notes)
        for actor in self.everybody:
            check_frames(actor, notes)
            assert settled_in(notes, actor.id) == actor.settled
        accepted = [(row.session, row.destination, row.body, row.transaction) for row in notes.of("accepted")]
        assert Counter(accepted) == self.taken, (Counter(accepted) - self.taken, self.taken - Counter(accepted))
        check_times(notes)
        check_sessions(self.everybody, notes)
        self._check_ends(notes)

    def _check_ends(self, notes: Notes) -> None:
        counts = notes.counts
        dropped = counts["dropped"] - len(notes.of("dropped", reason="too many retained messages"))
        expired = counts["expired"] - self.watch.elsewhere["expired"]
        expired -= len(notes.of("dead_lettered", "dropped", reason="expired"))
        ends = counts["acked"] + self.watch.consumed + dropped + counts["dead_lettered"] + expired
        assert self.recovered + self.watch.entered == alive(self.scene) + ends, counts


def was_refused(client: Client) -> bool:
    """What it said last was an error; who is ended for what was sent to itself was heard."""
    return any(not isinstance(failure, SlowConsumer) for failure in client.failures)
