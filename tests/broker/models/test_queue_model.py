"""A queue with all sorts of consumers, doing anything in any order.

The model does not decide who gets a message.  It watches each delivery (`Watch`) and says what could not be right: a
message that somebody has, an unmarked second delivery, a consumer that does not want it, has no room or stands by, a
group that changes hands, a message past an older one that the consumer could have had.  After each step it looks for a
consumer with room while a message waits that it wants, for messages that are lost, and for places that pile up.

The number of examples is small enough for every run of the tests; to search longer, set MODEL_EXAMPLES.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gateway.broker.model.message import Message
from gateway.broker.queue import ready
from gateway.broker.queue.queue import Queue
from gateway.broker.queue.subscription import Subscription

from ..client import Client, Scene, waiting
from .model_draw import pick
from .queue_watch import SELECTORS, Sent, Taker, Watch

QUEUE = "/queue/a"
WINDOWS = [{"prefetch-count": "1"}, {"prefetch-count": "2"}, {"consumer-window-size": "1000"}, {"prefetch-count": "0"}]
SLACK = 200


class Consumers(RuleBasedStateMachine):
    """Two publishers and up to six consumers of up to three sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = Watch()
        self.patch = pytest.MonkeyPatch()
        deliver, watch = Subscription.deliver, self.watch

        def watched(subscription: Subscription, message: Message) -> None:
            watch.delivered(subscription, message)
            deliver(subscription, message)

        self.patch.setattr(Subscription, "deliver", watched)
        self.patch.setattr(ready, "READS_PER_TURN", 2)
        self.scene = Scene()
        self.count = 0

    @initialize(data=st.data(), backoff=st.sampled_from([0.0, 0.0, 0.1]), selective=st.booleans())
    def start(self, data: st.DataObject, backoff: float, selective: bool) -> None:
        self.scene = Scene({QUEUE: {"backoff": backoff, "max_attempts": 0}}, max_outbound=16 * 1024)
        self.selectors = list(SELECTORS) if selective else [""]
        self.producers = [self.scene.connect() for _ in range(2)]
        self.clients = [self.scene.connect() for _ in range(3)]
        for _ in range(data.draw(st.integers(0, 3))):
            self.subscribe(data)

    def teardown(self) -> None:
        self.patch.undo()
        self.scene.finish()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        takers = self.watch.takers
        possible = {
            self.publish: True,
            self.settle: any(taker.held for taker in takers),
            self.subscribe: len(takers) < 6,
            self.unsubscribe: bool(takers),
            self.end: bool(takers),
            self.stall: any(not client.stalled for client in self.clients),
            self.resume: any(client.stalled for client in self.clients),
            self.wait: True,
            self.browse: True,
        }
        often = [self.publish, self.settle, self.publish, self.settle, self.subscribe]
        pick(data, [each for each in [*often, *possible] if possible[each]])(data)

    # steps

    def publish(self, data: st.DataObject) -> None:
        client = pick(data, self.producers)
        for _ in range(data.draw(st.integers(1, 5))):
            self.count += 1
            sent = Sent(
                self.count,
                data.draw(st.sampled_from(["red", "blue", "green"])),
                data.draw(st.sampled_from(["", "", "g", "h"])),
                data.draw(st.sampled_from([4, 4, 4, 4, 9, 0])),
                data.draw(st.sampled_from([False] * 5 + [True])),
            )
            large, expires = data.draw(st.booleans()), data.draw(st.integers(0, 5)) == 0
            self._publish(client, sent, 700 if large else 0, expires)

    def _publish(self, client: Client, sent: Sent, size: int, expires: bool) -> None:
        watch = self.watch
        watch.sent[sent.number] = sent
        ready = [each for each in watch.takers if each.has_room and watch.has_turn(each) and each.wants(sent)]
        owner = watch.owners.get(sent.group)
        headers = {"color": sent.color, "priority": str(sent.priority)}
        if sent.group:
            headers |= {"JMSXGroupID": sent.group} | ({"JMSXGroupSeq": "-1"} if sent.closes else {})
        client.publish(QUEUE, b"%d%b" % (sent.number, b" " * size), **headers | {"ttl": "100"} if expires else headers)
        self._find()
        if ready and not (sent.group and (owner or watch.is_mixed(sent.group) or sent.waits)):
            assert sent.deliveries, f"{sent} waits in spite of {ready}"
            taker = next(taker for taker, each in watch.stream if each is sent)
            assert taker.priority == max(each.priority for each in ready)

    def settle(self, data: st.DataObject) -> None:
        taker = pick(data, [each for each in self.watch.takers if each.held])
        sent = pick(data, taker.held)
        assert taker.subscription is not None
        assert taker.subscription.ledger is not None
        (handle,) = [handle for handle, each in taker.subscription.ledger.items() if each.message is sent.message]
        covered = [sent] if taker.mode != "client" else taker.held[: taker.held.index(sent) + 1]
        acknowledged = data.draw(st.integers(0, 3)) > 0
        for each in covered:
            taker.held.remove(each)
            each.at = None
            each.consumed = acknowledged
            each.rejected_by = taker
        rivals = [
            each for each in self.watch.takers if each.has_room and self.watch.has_turn(each) and each.wants(sent)
        ]
        before = len(self.watch.stream)
        taker.client.send("ACK" if acknowledged else "NACK", {"id": handle})
        again = [each for each, what in self.watch.stream[before:] if what is sent]
        if again and len(covered) == 1 and not sent.group:
            assert again[0] is not taker or rivals == [taker], f"{taker} has {sent} again in spite of {rivals}"

    def subscribe(self, data: st.DataObject) -> None:
        self.count += 1
        taker = Taker(
            pick(data, self.clients),
            str(self.count),
            data.draw(st.sampled_from(["client", "client-individual", "client-individual", "auto"])),
            data.draw(st.sampled_from(self.selectors)),
            data.draw(st.sampled_from([0, 0, 0, 5, -1])),
            data.draw(st.sampled_from([False] * 6 + [True])),
            data.draw(st.sampled_from(WINDOWS)),
        )
        self.watch.join(taker)
        headers = {"selector": taker.selector, "x-priority": str(taker.priority), "exclusive": str(taker.exclusive)}
        taker.client.subscribe(QUEUE, taker.id, taker.mode, **headers, **taker.window)
        taker.subscription = taker.client.session.subscriptions[taker.id]

    def unsubscribe(self, data: st.DataObject) -> None:
        taker = pick(data, self.watch.takers)
        self.watch.leave([taker])
        taker.client.unsubscribe(taker.id)

    def end(self, data: st.DataObject) -> None:
        client = pick(data, self.clients)
        graceful = data.draw(st.booleans())
        self.watch.leave([taker for taker in self.watch.takers if taker.client is client])
        self.watch.lost(client, taken=graceful)
        (client.disconnect if graceful else client.drop)()
        self.clients[self.clients.index(client)] = self.scene.connect()

    def stall(self, data: st.DataObject) -> None:
        pick(data, [client for client in self.clients if not client.stalled]).stalled = True

    def resume(self, data: st.DataObject) -> None:
        client = pick(data, [client for client in self.clients if client.stalled])
        self.watch.written(client)
        client.resume()

    def wait(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.sampled_from([1, 10]))):
            self.scene.wait(0.05)
            self.watch.now = self.scene.now

    def browse(self, data: st.DataObject) -> None:
        client = self.producers[0]
        expected = [message.body for message in self._waiting()]
        client.subscribe(QUEUE, "browser", browser="true")
        assert client.bodies() == [*expected, b""]
        client.unsubscribe("browser")

    # what must hold

    def _queue(self) -> Queue | None:
        queue = self.scene.broker.destinations.get(QUEUE)
        assert queue is None or isinstance(queue, Queue)
        return queue

    def _waiting(self) -> list[Message]:
        queue = self._queue()
        return [] if queue is None else waiting(queue)

    def _find(self) -> None:
        for message in self._waiting():
            self.watch.sent[int(message.body)].message = message

    @invariant()
    def nothing_is_lost(self) -> None:
        assert not any(client.failures for client in self.scene.clients)
        for client in self.clients:
            if not client.stalled:
                self.watch.written(client)
        queue, found = self._queue(), self._waiting()
        there = [each for each in self.watch.sent.values() if not each.consumed and each.at is None]
        missing = [each for each in there if not each.waits]
        assert len(found) + len(missing) == len(there)
        assert all(each.message is not None for each in there)
        expired = sum(each.has_expired(self.scene.now) for each in missing)
        assert (len(queue.resting) if queue else 0) == len(missing) - expired
        for taker in self.watch.takers:
            assert taker.subscription is not None
            held = (taker.subscription.ledger or {}).values()
            assert [delivery.message for delivery in held] == [sent.message for sent in taker.held]

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        ready = [each for each in self.watch.takers if each.has_room and self.watch.has_turn(each)]
        for message in self._waiting():
            sent = self.watch.sent[int(message.body)]
            assert not sent.has_expired(self.watch.now)
            assert not any(self.watch.may_have(taker, sent) for taker in ready), f"{sent} waits in spite of {ready}"

    @invariant()
    def places_do_not_pile_up(self) -> None:
        queue = self._queue()
        ready_lists = list(queue.in_memory.ready_lists) if queue else []
        groups = queue._dispatcher.groups if queue else None
        if groups is not None:
            ready_lists += [owner.tokens for owner in groups._owners.values()]
        assert all(len(each) <= 2 * len(self._waiting()) + SLACK for each in ready_lists)


@pytest.mark.slow
@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
def test_whoever_comes_and_goes() -> None:
    run_state_machine_as_test(
        Consumers,
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", "100")),
            # The same examples each time: a failure is of the change at hand.  MODEL_EXAMPLES=2000 looks for others.
            derandomize="MODEL_EXAMPLES" not in os.environ,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
