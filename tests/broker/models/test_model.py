"""Anything that clients may do, in any order, on a few destinations; after each step the broker is what the model says.

No message is lost, none is given to two who could both consume it, none is delivered again without being marked, each
consumer sees each publisher's messages in order, nobody gets what he does not want or what is somebody else's, nothing
comes too early or too late, and the accounts are right at every step and zero in the end.

The number of examples is small enough for every run of the tests; to search longer, set MODEL_EXAMPLES.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gateway.codec import V10, V12

from ..admin.operators import Operator
from ..client import ALL, EPOCH, Client, Scene
from .model_books import SELECTORS, Consumer, Copy, Name, Rules, Sent, Settlement, Store, Transaction
from .model_compare import name_of
from .model_draw import pick
from .model_watch import Watch
from .simple_broker import DEDUP_WINDOW, Model

QUEUES = ["/queue/plain", "/queue/few", "/queue/retry", "/queue/last", "/queue/brief"]
MOVED = "/queue/moved"
TOPICS = ["/topic/a.b", "/topic/a.c", "/topic/a.*"], ["/topic/slow.a", "/topic/slow.b", "/topic/slow.*"]
MODES = ["client", "auto", "client-individual"]
# Three of these fill the window of an outbox.
LARGE = 3_000
# Clients act at whole quarters of a second, and messages come and come back then; they expire between.
QUARTER = 0.25
EXPIRIES = [125, 375, 1125]

# What SENDs ask for, beside nothing.
WISHES = ["", "", "", "priority", "group", "group", "delay", "ttl", "key", "dedup", "retain", "large", "large"]
# What SUBSCRIBEs ask for.
DEMANDS = [
    "",
    "",
    "",
    "selector",
    "selector",
    "prefetch",
    "octets",
    "priority",
    "exclusive",
    "browser",
    "no-local",
    "slow",
]
TWO_WISHES = st.lists(st.sampled_from(WISHES), min_size=2, max_size=2, unique=True)
TWO_DEMANDS = st.lists(st.sampled_from(DEMANDS), min_size=2, max_size=2, unique=True)


def dead_letters_of(queue: str) -> str:
    return queue.replace("/queue/", "/queue/dlq.")


def name_of_row(row: dict[str, object]) -> Name:
    """What tells a message from all others in its queue, as an operator sees it."""
    headers = row["headers"]
    assert isinstance(headers, dict)
    return name_of(str(row["body"]).encode(), headers)


class Clients(RuleBasedStateMachine):
    """Up to four clients of a broker with small windows: three messages unacknowledged, 8 KiB unread.

    One rule, which draws what to do from what is possible: with a rule for each, ACKs would be too rare.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.count = 0

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        rules = {
            "/queue/few": Rules(
                max_messages=3,
                when_full=data.draw(st.sampled_from(["drop-oldest", "drop-newest", "dead-letter", "block"])),
            ),
            "/queue/retry": Rules(
                max_attempts=3,
                backoff=QUARTER,
                backoff_max=2 * QUARTER,
                dead_letter_expired=True,
                on_nack=data.draw(st.sampled_from(["redeliver", "redeliver", "dead-letter", "drop"])),
            ),
            "/queue/last": Rules(conflate_by="symbol", time_to_live=EXPIRIES[2] / 1000),
            "/queue/brief": Rules(auto_delete=True),
            "/topic/slow.#": Rules(
                slow_consumer=data.draw(st.sampled_from(["drop-oldest", "drop-newest", "conflate", "disconnect"])),
                slow_messages=2,
                conflate_by="symbol",
            ),
        }
        policies = {pattern: each.policy() for pattern, each in rules.items()}
        self.scene = Scene(policies, max_unacknowledged=3, max_outbound=64 * 1024, dedup_window=DEDUP_WINDOW)
        self.model = Model(self.scene, rules)
        self.watch = Watch(self.model, self.patch)
        self.queues = data.draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=2, unique=True))
        self.topics = data.draw(st.sampled_from(TOPICS))
        for _ in range(3):
            self.connect(data)
        for _ in range(data.draw(st.integers(1, 5))):
            self.subscribe(data)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        model, clients = self.model, self.clients
        stalled = sum(client.stalled for client in clients)
        possible: dict[Callable[[st.DataObject], None], bool] = {
            self.connect: len(clients) < 4,
            self.leave: len(clients) > 1,
            self.stall: stalled < len(clients),
            self.resume: stalled > 0,
            self.subscribe: bool(clients),
            self.unsubscribe: bool(model.consumers),
            self.publish: bool(clients),
            self.settle: bool(self.settleable),
            self.begin: bool(clients) and len(model.transactions) < 3,
            self.end: bool(model.transactions),
            self.wait: True,
            self.trespass: bool(self.watch.names) and len(clients) > 1,
            self.operate: bool(self.model.queues),
        }
        often = [
            *[self.publish] * 5,
            *[self.settle] * 12,
            self.subscribe,
            self.subscribe,
            self.resume,
            self.wait,
            self.end,
            self.operate,
        ]
        pick(data, [each for each in [*often, *possible] if possible[each]])(data)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "watch"):
            self.watch.look()

    def teardown(self) -> None:
        try:
            if hasattr(self, "watch"):
                self.scene.finish()
        finally:
            self.patch.undo()

    # what there is

    @property
    def clients(self) -> list[Client]:
        return [client for client in self.scene.clients if not client.closed]

    @property
    def settleable(self) -> list[Copy]:
        return [copy for each in self.model.consumers for copy in each.ledger if copy.transaction is None]

    def transaction(self, data: st.DataObject, client: Client) -> Transaction | None:
        """One of the client's, more often than none if it has any."""
        own = [each for each in self.model.transactions if each.client is client]
        return pick(data, [None, *own, *own])

    def next(self) -> int:
        """A number for a body or an id that nobody had before."""
        self.count += 1
        return self.count

    # what can be done

    def connect(self, data: st.DataObject) -> None:
        self.scene.connect(pick(data, ALL)).stalled = data.draw(st.booleans())

    def leave(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        graceful = data.draw(st.booleans())
        self.model.leave(client, taken=graceful, lost=not graceful)
        if graceful:
            client.disconnect()
        else:
            client.drop()

    def stall(self, data: st.DataObject) -> None:
        pick(data, [client for client in self.clients if not client.stalled]).stalled = True

    def resume(self, data: st.DataObject) -> None:
        client = pick(data, [client for client in self.clients if client.stalled])
        self.model.written(client)
        client.resume()

    def wait(self, data: st.DataObject) -> None:
        end = self.scene.now + QUARTER * data.draw(st.integers(1, 6))
        while (due := self.model.next) is not None and due <= end:
            self.scene.now = due - 0.02
            self.scene.wait(0.01)  # nothing comes early
            self.watch.look()
            self.scene.now = due
            if data.draw(st.integers(0, 3)) == 3:
                self.act_late(data)
            self.model.pass_time()
            self.scene.broker.scheduler.tick()
            self.scene.settle()
            self.watch.look()
        self.scene.now = end

    def act_late(self, data: st.DataObject) -> None:
        """Somebody does something when it is time for something else, but the broker was not told the time yet."""
        stalled = any(client.stalled for client in self.clients)
        possible: dict[Callable[[st.DataObject], None], bool] = {
            self.subscribe: bool(self.clients),
            self.unsubscribe: bool(self.model.consumers),
            self.settle: bool(self.settleable),
            self.leave: bool(self.clients),
            self.resume: stalled,
        }
        acts = [act for act in possible if possible[act]]
        if acts:
            pick(data, acts)(data)
            self.watch.look()

    def subscribe(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        others = [MOVED, *map(dead_letters_of, self.queues)]
        letters = [name for name in others if name in self.scene.broker.destinations]
        destination = data.draw(st.sampled_from([*self.queues * 4, *letters, *self.topics, "/topic/#"]))
        mode = data.draw(st.sampled_from(MODES))
        consumer = Consumer(client, str(self.next()), destination, mode)
        headers: dict[str, str] = {}
        for demand in data.draw(TWO_DEMANDS):
            self.demand(data, demand, consumer, headers)
        self.model.subscribe(consumer)
        client.subscribe(destination, consumer.id, consumer.mode, **headers)

    def demand(self, data: st.DataObject, what: str, consumer: Consumer, headers: dict[str, str]) -> None:
        of_queue = consumer.destination.startswith("/queue/")
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
        elif what == "exclusive":
            consumer.exclusive = True
            headers["exclusive"] = "true"
        elif what == "browser" and of_queue:
            consumer.mode = "auto"
            consumer.browser = data.draw(st.sampled_from(["end", "on"]))
            headers |= {"browser": "true", "browser-end": str(consumer.browser == "end").lower()}
        elif what == "local" and not of_queue:
            consumer.no_local = True
            headers["no-local"] = "true"
        elif what == "slow" and not of_queue:
            consumer.slow = 2
            headers["activemq.maximumPendingMessageLimit"] = "2"

    def unsubscribe(self, data: st.DataObject) -> None:
        consumer: Consumer = pick(data, self.model.consumers)
        self.model.unsubscribe(consumer)
        consumer.client.unsubscribe(consumer.id)

    def publish(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        several = ",".join([*self.queues, self.topics[0]]), ", ".join(self.topics[:2])
        destination = data.draw(st.sampled_from([*self.queues * 3, *self.topics[:2], *several]))
        transaction = self.transaction(data, client)
        wishes = data.draw(TWO_WISHES)
        what: dict[str, object] = {}
        headers: dict[str, str] = {}
        for wish in wishes:
            self.wish(data, wish, destination, what, headers)
        control = {} if transaction is None else {"transaction": transaction.name}
        large = "large" in wishes
        for _ in range(data.draw(st.integers(1, 5))):
            own = data.draw(st.sampled_from([{}, {"kind": "red"}, {"kind": "blue", "n": "2"}]))
            body = b"%d." % self.next() + b" " * (LARGE if large else 0)
            if "dedup" in wishes:
                what["dedup_id"] = headers["dedup-id"] = str(self.count % 4)
            parts = tuple(part.strip() for part in destination.split(","))
            sent = Sent(client, body, parts, own | headers, **what)  # type: ignore[arg-type]
            self.model.publish(sent, transaction)
            client.publish(destination, body, **own, **headers, **control)
            if transaction is None:
                self.watch.look()
                if client.closed:
                    break

    def wish(
        self, data: st.DataObject, wish: str, destination: str, what: dict[str, object], headers: dict[str, str]
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
                headers["_AMQ_SCHED_DELIVERY"] = str(int((EPOCH + now + quarters * QUARTER) * 1000))
        elif wish == "ttl":
            life = data.draw(st.sampled_from(EXPIRIES))
            what["expires"] = now + life / 1000
            if data.draw(st.booleans()):
                headers["ttl"] = str(life)
            else:
                headers["expires"] = str(int((EPOCH + now) * 1000) + life)
        elif wish == "key":
            key = data.draw(st.sampled_from(["x", "y"]))
            if data.draw(st.booleans()):
                headers["symbol"] = key
            else:
                what["key"] = headers["_AMQ_LVQ_NAME"] = key
        elif wish == "retain" and "queue" not in destination:
            what["retain"] = headers["retain"] = data.draw(st.sampled_from(["set", "set", "remove"]))

    def settle(self, data: st.DataObject) -> None:
        copy = pick(data, self.settleable)
        consumer, message = copy.at, copy.message
        assert consumer is not None
        assert message is not None
        client = consumer.client
        transaction = self.transaction(data, client)
        headers = {} if transaction is None else {"transaction": transaction.name}
        acknowledged = client.version is V10 or data.draw(st.booleans())
        settlement = Settlement(self.model.covered(copy), acknowledged)
        if not acknowledged:
            settlement.requeue = data.draw(st.sampled_from([True, True, False]))
            settlement.reason = data.draw(st.sampled_from(["", "bad"]))
            headers |= {"reason": settlement.reason} if settlement.reason else {}
            headers |= {} if settlement.requeue else {"requeue": "false"}
        self.model.settle(settlement, transaction)
        (client.ack if acknowledged else client.nack)(message, **headers)

    def trespass(self, data: st.DataObject) -> None:
        """Settle what somebody else has, or what was settled before."""
        client = pick(data, self.clients)
        id, message = pick(data, self.watch.names[-20:])[1:]
        own = [copy for each in self.model.consumers if each.client is client for copy in each.ledger]
        if client.version is V12:
            headers = {"id": message.headers.get("ack", "1-1")}
            own = [copy for copy in own if copy.message and copy.message.headers["ack"] == headers["id"]]
        else:
            headers = {"message-id": message.message_id}
            own = [copy for copy in own if copy.message and copy.message.message_id == message.message_id]
            if client.version is not V10:
                headers["subscription"] = id
                own = [copy for copy in own if copy.at and copy.at.id == id]
        if not any(copy.transaction is None for copy in own):
            self.watch.failing = client
            client.send(data.draw(st.sampled_from(["ACK", "NACK"])), headers)

    def operate(self, data: st.DataObject) -> None:
        """An operator looks at a queue, and does something to what waits there."""
        store: Store = pick(data, list(self.model.queues.values()))
        operator = Operator(self.scene)
        if store.name not in self.scene.broker.destinations:
            return
        rows = operator.browse(store.name).messages
        copies = [*store.waiting, *[copy for copy in store.copies if copy.back is not None]]
        ids = {name_of_row(row): str(row["id"]) for row in rows}
        assert set(ids) == {copy.name for copy in copies}, store.name
        what = data.draw(st.sampled_from(["purge", "delete", "move", "move", "redrive", "redrive"]))
        if what == "purge":
            assert operator.purge(store.name).done == len(copies)
            for copy in copies:
                self.model.end(copy, "dropped")
            self.model.freed(store)
            return
        chosen = [copy for copy in copies if data.draw(st.booleans())]
        if what == "delete":
            assert operator.delete(store.name, [ids[copy.name] for copy in chosen]).done == len(chosen)
            for copy in chosen:
                self.model.end(copy, "dropped")
        elif what == "move" and store.name != MOVED:
            taken = {copy.sent.body for copy in self.model.queue(MOVED).copies}
            bodies: dict[bytes, Copy] = {copy.sent.body: copy for copy in chosen if copy.sent.body not in taken}
            chosen = [copy for copy in chosen if bodies.get(copy.sent.body) is copy]
            assert operator.move(store.name, MOVED, [ids[copy.name] for copy in chosen]).done == len(chosen)
            for copy in chosen:
                self.model.moved(copy, MOVED)
        elif what == "redrive":
            outcome = operator.redrive(store.name, [ids[copy.name] for copy in chosen])
            stay = {id for id, _ in outcome.refused}
            gone = [copy for copy in chosen if ids[copy.name] not in stay]
            assert outcome.done == len(gone)
            assert all(copy.source for copy in gone)
            for copy in chosen:
                full = self.model.rules_of(copy.source).max_messages
                assert copy in gone or not copy.source or full
            for copy in gone:
                self.model.redriven(copy)
        self.model.freed(store)

    def begin(self, data: st.DataObject) -> None:
        transaction = Transaction(pick(data, self.clients), str(self.next()))
        self.model.transactions.append(transaction)
        transaction.client.begin(transaction.name)

    def end(self, data: st.DataObject) -> None:
        transaction: Transaction = pick(data, self.model.transactions)
        if data.draw(st.booleans()):
            self.model.commit(transaction)
            transaction.client.commit(transaction.name)
        else:
            self.model.abort(transaction)
            transaction.client.abort(transaction.name)


@pytest.mark.slow
@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
def test_the_broker_does_what_the_model_says() -> None:
    run_state_machine_as_test(
        Clients,
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", "100")),
            # The same examples each time: a failure is of the change at hand.  MODEL_EXAMPLES=2000 looks for others.
            derandomize="MODEL_EXAMPLES" not in os.environ,
            stateful_step_count=50,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
