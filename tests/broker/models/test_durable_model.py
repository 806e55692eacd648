"""Anything may happen, and at any moment the process may be killed: the model knows what must be there then.

The number of examples is small enough for every run of the tests; to search longer, set MODEL_EXAMPLES.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from gateway.broker.model.changes import Batch
from gateway.broker.queue import durable, page_index, paging
from gateway.broker.queue.queue import Queue

from ..client import Client
from .durable_model import GROUPED, QUEUES, Model, Sent, Taker

MODES = ["auto", "client", "client-individual"]


class Processes(RuleBasedStateMachine):
    """Two publishers and up to five consumers, process after process, on one store."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(durable, "MOST_IN_MEMORY", 2_000)
        self.patch.setattr(paging, "_LOW", 2)
        self.patch.setattr(paging, "_PAGE", 3)
        self.patch.setattr(page_index, "_SLACK", 2)
        self.model = Model()
        self.under_way: Batch | None = None
        self.producers: list[Client] = []
        self.receipts = 0
        self.begin()

    def begin(self) -> None:
        self.under_way = None
        self.producers = [self.model.scene.connect() for _ in range(2)]

    def teardown(self) -> None:
        try:
            if not self.failed:
                self.model.scene.store.failure = ""
                self.model.write_all()
                for taker in list(self.model.takers):
                    taker.client.resume()
                    self.model.look()
                    taker.client.drop()
                    self.model.forget(taker.client)
                    self.model.abandon(taker.queue)
                self.model.drain()
                self.model.scene.finish()
        finally:
            self.patch.undo()

    failed = False

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        takers, storage = self.model.takers, self.model.scene.vault.storage
        possible: dict[Callable[[st.DataObject], None], bool] = {
            self.publish: True,
            self.ack: any(taker.held for taker in takers),
            self.nack: any(taker.held for taker in takers),
            self.subscribe: len(takers) < 5,
            self.leave: bool(takers),
            self.stall: any(not taker.client.stalled for taker in takers),
            self.resume: any(taker.client.stalled for taker in takers),
            self.transact: any(taker.transaction is None for taker in takers),
            self.end_transaction: any(taker.transaction is not None for taker in takers),
            self.take: self.under_way is None,
            self.write: self.under_way is not None,
            self.commit: True,
            self.fail: not self.model.scene.store.failure,
            self.mend: bool(self.model.scene.store.failure),
            self.crash: True,
            self.restart: not storage.failure,
        }
        often = [self.publish, self.ack, self.publish, self.ack, self.subscribe, self.take, self.write, self.commit]
        self.failed = True
        data.draw(st.sampled_from([each for each in [*often, *possible] if possible[each]]))(data)
        self.model.look()
        self.failed = False

    # publishers

    def publish(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.producers))
        for _ in range(data.draw(st.integers(1, 4))):
            if not client.closed:
                self._send(client, self._message(data))

    def _message(self, data: st.DataObject) -> Sent:
        queue = data.draw(st.sampled_from(list(QUEUES)))
        priority = data.draw(st.sampled_from([4, 4, 4, 0, 9]))
        group = data.draw(st.sampled_from(["", "g", "h"])) if queue in GROUPED else ""
        return self.model.message(
            queue, priority, persistent=data.draw(st.booleans()), kind=data.draw(st.sampled_from("xy")), group=group
        )

    def _send(self, client: Client, sent: Sent, **headers: str) -> None:
        """A SEND; while the store fails, nothing durable is taken."""
        persistent = "true" if sent.durable else "false"
        refused = sent.durable and self.model.scene.vault.storage.failure
        receipt = self._receipt()
        headers |= {"kind": sent.kind, "persistent": persistent, "receipt": receipt}
        if sent.priority != 4:
            headers["priority"] = str(sent.priority)
        if sent.group:
            headers["JMSXGroupID"] = sent.group
        if not refused and "transaction" not in headers:
            self.model.enter(sent, client)  # it may be consumed at once
        if not refused:
            self.model.promise(client, receipt)
        client.publish(sent.queue, b"%d" % sent.number, **headers)
        assert bool(client.failures) == bool(refused)
        if refused:
            self.model.look()
            self.model.forget(client)
            self.producers = [each for each in self.producers if each is not client] + [self.model.scene.connect()]

    def _receipt(self) -> str:
        self.receipts += 1
        return f"r{self.receipts}"

    # consumers

    def _taker(self, data: st.DataObject, *, holding: bool = False) -> Taker:
        takers = [taker for taker in self.model.takers if taker.held or not holding]
        return data.draw(st.sampled_from(takers))

    def subscribe(self, data: st.DataObject) -> None:
        queue = data.draw(st.sampled_from([*QUEUES, "/queue/dlq.a", "/queue/dlq.b"]))
        ack, prefetch = (data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from([1, 2, 5])))
        kind = data.draw(st.sampled_from(["", "", "x", "y"]))
        client = self.model.scene.connect()
        exclusive = data.draw(st.sampled_from([False, False, False, True]))
        self.model.takers.append(Taker(client, queue, ack, prefetch, kind, exclusive))
        headers = {"prefetch-count": str(prefetch), "x-priority": str(data.draw(st.sampled_from([0, 0, 1])))}
        headers |= {"selector": f"kind = '{kind}'"} if kind else {}
        headers |= {"exclusive": "true"} if exclusive else {}
        client.subscribe(queue, ack=ack, **headers)

    def leave(self, data: st.DataObject) -> None:
        taker = self._taker(data)
        if taker.client.stalled:
            self._doubt(taker)
        taker.ends()
        data.draw(st.sampled_from([Client.unsubscribe, Client.drop, Client.disconnect]))(taker.client)
        self.model.look()
        if taker.client.closed or taker.client.session.ended:
            self.model.forget(taker.client)
        else:
            taker.client.drop()
            self.model.forget(taker.client)
        self.model.abandon(taker.queue)

    def stall(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from([taker for taker in self.model.takers if not taker.client.stalled]))
        taker.client.stalled = True

    def resume(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([taker for taker in self.model.takers if taker.client.stalled])).client.resume()

    def _covered(self, taker: Taker, index: int) -> list[Sent]:
        """What an ACK of that one settles."""
        first = 0 if taker.ack == "client" else index
        free = taker.held[first : index + 1]
        taker.held = taker.held[:first] + taker.held[index + 1 :]
        return [sent for _, sent in free]

    def ack(self, data: st.DataObject) -> None:
        taker = self._taker(data, holding=True)
        index = data.draw(st.integers(0, len(taker.held) - 1))
        frame = taker.held[index][0]
        for sent in self._covered(taker, index):
            self.model.settle(sent, taker.client)
        receipt = self._receipt()
        self.model.promise(taker.client, receipt)
        taker.client.ack(frame, receipt=receipt)

    def nack(self, data: st.DataObject) -> None:
        taker = self._taker(data, holding=True)
        index = data.draw(st.integers(0, len(taker.held) - 1))
        frame = taker.held[index][0]
        requeue = data.draw(st.booleans()) or taker.queue.startswith("/queue/dlq.")
        for sent in self._covered(taker, index):
            if not requeue:
                self.model.die(sent, taker.client)
        taker.client.nack(frame, requeue="true" if requeue else "false")

    # transactions

    def transact(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from([each for each in self.model.takers if each.transaction is None]))
        if self.model.scene.vault.storage.failure:
            return
        taker.transaction = []
        taker.client.begin()
        for _ in range(data.draw(st.integers(0, 2))):
            sent = self._message(data)
            taker.to_come.append(sent)
            self._send(taker.client, sent, transaction="t")
        if taker.held and taker.ack != "auto" and data.draw(st.booleans()):
            frame = taker.held[-1][0]
            free = len(taker.held) - 1 if taker.ack == "client-individual" else 0
            taker.transaction, taker.held = taker.held[free:], taker.held[:free]
            taker.client.ack(frame, transaction="t")

    def end_transaction(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from([each for each in self.model.takers if each.transaction is not None]))
        acked, taker.transaction = taker.transaction, None
        sends, taker.to_come = taker.to_come, []
        assert acked is not None
        if self.model.scene.vault.storage.failure or not data.draw(st.booleans()):
            taker.held = sorted(taker.held + acked, key=lambda each: int(each[0].headers["ack"].split("-")[1]))
            taker.client.abort()
            return
        for sent in sends:
            self.model.enter(sent, taker.client)
        for _, sent in acked:
            self.model.settle(sent, taker.client)
        receipt = self._receipt()
        self.model.promise(taker.client, receipt)
        taker.client.send("COMMIT", {"transaction": "t", "receipt": receipt})

    # the store

    def take(self, data: st.DataObject) -> None:
        self.under_way = self.model.scene.vault.take()

    def write(self, data: st.DataObject) -> None:
        if self.model.scene.vault.write(self.under_way):
            self.under_way = None

    def commit(self, data: st.DataObject) -> None:
        self.under_way = None
        self.model.write_all()
        if not self.model.scene.store.failure:
            waiting = [client for client, receipts in self.model.promised.items() if receipts]
            assert all(client.stalled for client in waiting), "receipts that nobody sends"
            self.nobody_waits_in_vain()
        elif self.model.scene.vault.storage.unwritten:
            self.under_way = self.model.scene.vault.take()

    def nobody_waits_in_vain(self) -> None:
        for taker in self.model.takers:
            if taker.has_room and taker.transaction is None and not self.model.stands_by(taker):
                found = [sent for sent in self.model.waiting() if taker.wants(sent) and not self._is_under_way(sent)]
                assert not found, f"{taker} has room"

    def _is_under_way(self, sent: Sent) -> bool:
        """It lies in the outbox of one who does not read, in a transaction, or is for the owner of its group."""
        takers = [taker for taker in self.model.takers if taker.queue == sent.queue]
        if any(taker.client.stalled or sent in [each for _, each in taker.transaction or ()] for taker in takers):
            return True
        # What nobody wants holds up its group.
        return sent.queue in GROUPED and (len(takers) > 1 or any(taker.kind for taker in takers))

    def fail(self, data: st.DataObject) -> None:
        self.model.scene.store.failure = "the disk is full"

    def mend(self, data: st.DataObject) -> None:
        self.model.scene.store.failure = ""

    # the process

    def crash(self, data: st.DataObject) -> None:
        vault = self.model.scene.vault
        committed = vault.storage.committed
        vault.store.failure = ""
        if self.under_way is not None and data.draw(st.booleans()):
            vault.store.write(self.under_way)  # the disk has it, and nobody knows
            committed = self.under_way.number
        for taker in self.model.takers:
            self._doubt(taker)
        self.model.end(self.model.scene.crash(data.draw(st.sampled_from([0.0, 100.0]))), committed)
        self.begin()
        if data.draw(st.booleans()):
            self.model.drain()

    def _doubt(self, taker: Taker) -> None:
        """What lies in its outbox comes back marked, though it has seen nothing of it."""
        for sent in self.model.sent.values():
            sent.survived |= sent.queue == taker.queue

    def restart(self, data: st.DataObject) -> None:
        self.model.scene.store.failure = ""
        self.model.write_all()
        for taker in list(self.model.takers):
            taker.client.stalled = False
            taker.client.flush()
            self.model.scene.settle()
        self.model.look()
        scene = self.model.scene.restart()
        self.model.last_look()
        self.model.end(scene, 1 << 60)
        self.begin()
        if data.draw(st.booleans()):
            self.model.drain()

    @invariant()
    def counts(self) -> None:
        queues = [each for each in self.model.scene.broker.destinations.values() if isinstance(each, Queue)]
        shelves = [queue.storage for queue in queues if queue.storage is not None]
        assert all(each.rows >= each.transient >= 0 for each in shelves)


@pytest.mark.slow
@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
def test_whatever_happens_before_the_kill() -> None:
    run_state_machine_as_test(
        Processes,
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", "60")),
            # The same examples each time: a failure is of the change at hand.  MODEL_EXAMPLES=2000 looks for others.
            derandomize="MODEL_EXAMPLES" not in os.environ,
            stateful_step_count=60,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
