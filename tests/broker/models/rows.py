"""Rows of a process, counted: what each client did and got, and what the recorder was told of it.

each MESSAGE frame             one `delivered` or `redelivered`, in the order in which the session got them
each SEND that was taken       one `accepted` for each destination, at COMMIT or when its time has come
each delivery that is settled  one `acked` or `nacked`
each message in a queue        came from somewhere, and is there, or has one end
the broker's counters          the same sums
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from hypothesis import strategies as st

from gateway.broker.core.outbox import Outbox
from gateway.broker.errors import SlowConsumer
from gateway.broker.model.destinations import is_topic
from gateway.broker.model.message import Message
from gateway.broker.queue.queue import Queue
from gateway.broker.queue.subscription import Subscription
from gateway.broker.routing.router import Router
from gateway.broker.topic.retained import Retained
from gateway.broker.topic.topic import Topic

from ..client import Client, Scene
from ..recorder import Notes, Row
from ..wire import Received, parse
from .program import ALIASES, Books, Clients, Consumer, Sent, Settlement, Step, Transaction, pick

# number, subscription, destination, size, which delivery it was
Got = tuple[int, str, str, int, int]
# session, destination, body, transaction
Taken = tuple[str | None, str | None, bytes | None, str | None]
# event, subscription, number, which delivery it was, destination, transaction, reason
Settled = tuple[str, str | None, int | None, int | None, str | None, str | None, str | None]


class Rows(Books):
    """What the rows of a process have to tell.

    `notes`: what the recorder of a scene was told.  `each_step`: compare after each step, and not only at the end of
    each process.
    """

    def __init__(
        self, play: Clients, notes: Callable[[Scene], Notes], *, each_step: bool = True, logs: tuple[str, ...] = ()
    ) -> None:
        super().__init__(play)
        self._notes, self._each_step, self._logs = notes, each_step, logs
        # SENDs whose time has not come: when, in seconds since the epoch, what, and what a store has of it.
        self.later: list[tuple[float, list[Taken], list[Taken]]] = []
        self.stored: list[tuple[float, list[Taken], list[Taken]]] = []
        self._refused: set[Client] = set()
        self._begin(0)
        self._watch()

    def _begin(self, recovered: int) -> None:
        self.taken: Counter[Taken] = Counter()  # what the rows have to tell of SENDs, in any order
        self.settled: dict[str, list[Settled]] = {}  # what they have to tell of a session's ACKs and NACKs, in order
        self.browsers: set[tuple[str, str]] = set()  # sessions and ids of all subscriptions that ever were one
        self._seen: set[tuple[str, str]] = set()
        self._of_transactions: set[bytes | None] = set()  # bodies of what transactions send later
        # Messages in queues when the process began; that came into queues; that went out in mode auto, and did not
        # come back; and that expired in no queue: on their way to a topic, or retained.
        self.recovered, self.entered, self.consumed, self.elsewhere = recovered, 0, 0, 0

    def _watch(self) -> None:
        """Count in the broker what no row tells."""
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

        def on_route(router: Router, name: str, message: Message, sender: str, *, unseen: bool = False) -> None:
            self.elsewhere += is_topic(name) and 0 < message.expires <= router._clock()
            route(router, name, message, sender, unseen=unseen)

        def on_expire(retained: Retained, name: str) -> None:
            self.elsewhere += 1
            expire(retained, name)

        patch = self.play.patch.setattr
        patch(Queue, "accept", on_accept)
        patch(Subscription, "deliver", on_deliver)
        patch(Outbox, "not_written", on_not_written)
        patch(Router, "_route", on_route)
        patch(Retained, "_expire", on_expire)

    # what clients do

    def subscribe(self, consumer: Consumer) -> None:
        if consumer.browser:
            self.browsers.add((consumer.client.session.id, consumer.id))

    def published(self, sent: Sent, transaction: Transaction | None) -> None:
        if any(not isinstance(failure, SlowConsumer) for failure in sent.client.failures):
            self._refused.add(sent.client)
        elif transaction is None:
            self._take(sent, "")

    def _take(self, sent: Sent, transaction: str) -> None:
        parts = sent.destinations
        if sent.dedup_id:
            parts = tuple(part for part in parts if (part, sent.dedup_id) not in self._seen)
            self._seen.update((part, sent.dedup_id) for part in parts)
        session = sent.client.session.id
        if sent.delay:
            taken: list[Taken] = [(session, part, sent.body, None) for part in parts]
            durable = [each for each in taken if sent.persistent or each[1] in self._logs or self._is_kept(each[1])]
            if taken:
                self.later.append((self.play.moment + sent.delay, taken, durable))
            if transaction:
                self._of_transactions.add(sent.body)
        else:
            self.taken.update((session, part, sent.body, transaction or None) for part in parts)

    def _is_kept(self, destination: str) -> bool:
        """True if a durable subscription to the topic, or to a pattern that means it, is there now."""
        router = self.scene.broker.router
        topics = [*router._patterns.match(destination), self.scene.broker.find(destination)]
        return is_topic(destination) and any(isinstance(each, Topic) and each.durable_subscriptions for each in topics)

    def settle(self, settlement: Settlement, transaction: Transaction | None = None) -> None:
        if transaction is None:
            self._settle(settlement, None)

    def _settle(self, settlement: Settlement, transaction: str | None) -> None:
        event = "acked" if settlement.acknowledged else "nacked"
        for held in settlement.held:
            client = held.consumer.client
            number, id, destination, _, count = self._got(client, held.frame)
            row = event, id, number, count, destination, transaction, settlement.reason or None
            self.settled.setdefault(client.session.id, []).append(row)

    def commit(self, transaction: Transaction) -> None:
        for sent in transaction.sends:
            self._take(sent, transaction.name)
        for settlement in transaction.settlements:
            self._settle(settlement, transaction.name)

    def _got(self, client: Client, frame: Received) -> Got:
        destination = frame.headers["destination"]
        is_browsed = (client.session.id, frame.subscription) in self.browsers
        count = 0 if is_browsed else int(frame.headers.get("delivery-count", "1"))
        assert frame.redelivered == (count > 1)
        number = int(frame.message_id.rpartition("-")[2])
        return number, frame.subscription, ALIASES.get(destination, destination), len(frame.body), count

    def actions(self) -> dict[Step, bool]:
        return {self.fail: bool(self.play.clients)}

    def fail(self, data: st.DataObject) -> None:
        """A frame that ends its session; nothing else comes of it."""
        client = pick(data, self.play.clients)
        frame = pick(data, ["BOGUS", "SEND", "ACK", "COMMIT"])
        client.send(frame, {"destination": "/topic/*", "id": "none", "transaction": "none"})
        assert client.failures

    # time, and the process

    def look(self) -> None:
        now = self.play.moment
        # What a transaction sent may have to wait until the store has its COMMIT.
        late = {each.sending.body for each in self.scene.broker.router.delayed.every()} & self._of_transactions
        arrived = [each for each in self.later if each[0] <= now and each[1][0][2] not in late]
        for _, taken, _ in arrived:
            self.taken.update(taken)
        self.later = [each for each in self.later if each not in arrived]
        if self._each_step:
            self.check()

    def written(self) -> None:
        self.stored = [(due, durable, durable) for due, _, durable in self.later if durable]

    def ending(self) -> None:
        self.look()
        self.check()

    def next_process(self, old: Scene, committed: float, *, clean: bool) -> None:
        store = old.store
        kinds = {number: place.kind for number, place in store.places.items()}
        rows = [row for row in store.rows.values() if not row.transient]
        self._begin(sum(kinds[row.place] in ("queue", "subscription") for row in rows))
        self.later = self.stored
        self.scene.wait(0.1)  # what became due meanwhile
        self.look()

    def finish(self) -> None:
        self.scene.wait(20.5)
        self.play.write_all()
        self.play.look()
        self.check()

    # what the rows have to be

    def check(self) -> None:
        """At any moment between two steps."""
        notes = self._notes(self.scene)
        check_counters(self.scene, notes)
        accepted = Counter((row.session, row.destination, row.body, row.transaction) for row in notes.of("accepted"))
        assert accepted == self.taken, (accepted - self.taken, self.taken - accepted)
        by_session: dict[str | None, list[Row]] = {}
        for row in notes.rows:
            by_session.setdefault(row.session, []).append(row)
        for client in self.scene.clients:
            rows = by_session.get(client.session.id, [])
            self._check_frames(client, rows)
            ends = [row for row in rows if row.event in ("acked", "nacked")]
            names = "event", "subscription", "number", "delivery_count", "destination", "transaction", "reason"
            settled = [tuple(getattr(row, name) for name in names) for row in ends]
            assert settled == self.settled.get(client.session.id, [])
            self._check_session(client, rows)
        check_times(notes)
        self._check_ends(notes)

    def _check_frames(self, client: Client, rows: list[Row]) -> None:
        """What a client got, or would have, is what the rows say, in order."""
        rows = [row for row in rows if row.event in ("delivered", "redelivered")]
        assert all(((row.delivery_count or 0) > 1) == (row.event == "redelivered") for row in rows)
        told = [(row.number, row.subscription, row.destination, row.size, row.delivery_count) for row in rows]
        data = client.written + (client.at_close or b"".join(client.session.outbox.parts))
        frames = [frame for frame in parse(data, client.version) if frame.command == "MESSAGE"]
        got = [self._got(client, frame) for frame in frames if "browser" not in frame.headers]
        if any(isinstance(failure, SlowConsumer) for failure in client.failures):
            told = told[: len(got)]  # what it did not read was thrown away
        assert told == got

    def _check_session(self, client: Client, rows: list[Row]) -> None:
        """Sessions, subscriptions and transactions begin before anything else is told of them, and end once."""
        session = client.session
        rows = [row for row in rows if row.transport is not None]  # of a sender that has gone, little is known
        assert [row.event for row in rows].count("connected") == 1
        assert rows[0].event == "connected"
        if client.closed:
            reason = "error" if session.failed else None if session.ended else "connection lost"
            assert (rows[-1].event, rows[-1].reason) == ("disconnected", reason)
        open_ones: dict[object, Row] = {}
        for row in rows:
            key = row.subscription if row.event.endswith("subscribed") else ("tx", row.transaction)
            if row.event in ("subscribed", "tx_begun"):
                assert key not in open_ones
                open_ones[key] = row
            elif row.event.startswith(("tx_", "unsub")):
                began = open_ones.pop(key)
                assert row.has(session=began.session, destination=began.destination, ack_mode=began.ack_mode)
            elif row.event in ("delivered", "redelivered"):
                assert row.subscription in open_ones
        asked: set[object] = {each.id for each in self.play.consumers if each.client is client}
        asked |= {("tx", each.name) for each in self.play.transactions if each.client is client}
        assert set(open_ones) == (set() if client.closed or session.ended else asked)

    def _check_ends(self, notes: Notes) -> None:
        counts = notes.counts
        dropped = counts["dropped"] - len(notes.of("dropped", reason="too many retained messages"))
        expired = counts["expired"] - self.elsewhere
        expired -= len(notes.of("dead_lettered", "dropped", reason="expired"))
        ends = counts["acked"] + self.consumed + dropped + counts["dead_lettered"] + expired
        broker = self.scene.broker
        actions = [entry.action for _, _, entry in broker.scheduler._heap]
        back = [each for each in actions if isinstance(each, partial) and each.func.__name__ == "_come_back"]
        alive = broker.context.waiting + sum(each.outstanding for each in broker.sessions.values()) + len(back)
        assert self.recovered + self.entered == alive + ends, counts


def check_counters(scene: Scene, notes: Notes) -> None:
    """Rows and counters count the same."""
    counters, counts = scene.broker.counters, notes.counts
    assert counts["accepted"] == counters.published
    assert counts["delivered"] + counts["redelivered"] == counters.delivered
    assert counts["redelivered"] == counters.redelivered
    assert counts["acked"] == counters.acknowledged
    assert counts["nacked"] == counters.rejected
    assert counts["expired"] == counters.expired
    assert counts["dead_lettered"] == counters.dead_lettered
    assert len(notes.of("dropped", reason="conflated")) == counters.conflated
    assert counts["dropped"] == counters.totals()["dropped"] + counters.conflated
    assert counts["error"] == counters.totals()["errors"]
    assert counts["connected"] == counters.sessions


def check_times(notes: Notes) -> None:
    """Latencies are those between the rows; a journal rounds them."""
    accepted: dict[int | None, int] = {}
    delivered: dict[tuple[object, ...], int] = {}
    for row in notes.rows:
        key = (row.session, row.subscription, row.number, row.delivery_count)
        if row.event == "accepted":
            accepted[row.number] = row.now
        elif row.event in ("delivered", "redelivered"):
            delivered[key] = row.now
        if row.queue_us is not None and row.number in accepted:
            assert abs(row.queue_us - (row.now - accepted[row.number])) <= 1
        if row.event in ("acked", "nacked"):
            assert row.ack_us is not None
            assert abs(row.ack_us - (row.now - delivered[key])) <= 1
