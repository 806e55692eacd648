"""What durable queues promise, counted in batches.

A message is in the store from the batch in which it came to the batch in which it was settled.  So of each message it
is known for sure whether it is there after a kill; nothing may be lost, nothing may come back that was settled, what a
consumer has seen is marked when it comes again, and no RECEIPT comes before its batch is written.  What a transaction
sends, and what its queue shows late, comes when its batch is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.broker.model.policy import Visible

from ..client import Client, Scene
from ..wire import Received, parse
from .program import Books, Clients, Consumer, Sent, Settlement, Step, Transaction

# Durable: what asks for it; all; nothing.
QUEUES = {"/queue/a": None, "/queue/b": True, "/queue/c": False, "/queue/d": True}
GROUPED = ("/queue/a", "/queue/dlq.a")  # dead letters keep their group
LATE = "/queue/b"  # it shows what is stored
MORTAL = "/queue/d"  # it goes with its last consumer
POLICIES: Mapping[str, Mapping[str, object]] = {
    "#": {"backoff": 0.0, "max_attempts": 0},
    **{name: {"durable": durable} for name, durable in QUEUES.items() if durable is not None},
    LATE: {"durable": True, "visible": Visible.STORED},
    MORTAL: {"durable": True, "auto_delete": True},
}


@dataclass(eq=False)
class Entry:
    """A message in a queue."""

    sent: Sent
    queue: str
    durable: bool
    entered: int  # the batch in which it came; 0: one of the last process
    arrival: int  # its place among all
    settled: int | None = None  # the batch in which it was settled
    seen: bool = False  # a consumer has got it, or may have
    # it comes from an earlier process, or lay in an outbox: then it may be marked though not seen
    survived: bool = False
    in_doubt: bool = False  # it was seen while the store failed
    late: bool = False  # nobody may see it before it is stored

    def __repr__(self) -> str:
        return f"{self.sent.body.strip().decode()} of {self.queue}"

    @property
    def order(self) -> tuple[int, int]:
        return -self.sent.priority, self.arrival


class Batches(Books):
    """What must be there."""

    def __init__(self, play: Clients) -> None:
        super().__init__(play)
        self.entries: dict[tuple[str, bytes], Entry] = {}  # all that are not known to be gone, by queue and body
        # what each client waits for: receipt-id, and the batch that must be written before
        self.promised: dict[Client, list[tuple[str, int]]] = {}
        self.last_change: dict[Client, int] = {}
        self.arrivals = itertools.count(1)
        self._was_used = self._refused = False

    @property
    def batch(self) -> int:
        """The one that gathers now."""
        return self.scene.vault.storage.number

    # what clients do

    def publish(self, sent: Sent, transaction: Transaction | None = None) -> None:
        (queue,) = sent.destinations
        self._refused = bool(self.scene.vault.storage.failure) and self.is_durable(queue, sent)
        if self._refused:  # and its client with it
            self.play.end_client(sent.client, graceful=False)
        elif transaction is None:
            self.enter(sent, queue, self.is_durable(queue, sent), sent.client)

    def published(self, sent: Sent, transaction: Transaction | None) -> None:
        assert bool(sent.client.failures) == self._refused

    def is_durable(self, queue: str, sent: Sent) -> bool:
        policy = QUEUES[queue]
        return sent.persistent if policy is None else policy

    def enter(self, sent: Sent, queue: str, durable: bool, client: Client) -> None:
        """It has come to its queue."""
        entry = Entry(sent, queue, durable, self.batch, next(self.arrivals), late=queue == LATE)
        self.entries[queue, sent.body] = entry
        if durable:
            self.last_change[client] = self.batch

    def settle(self, settlement: Settlement, transaction: Transaction | None = None) -> None:
        if transaction is not None or (settlement.requeue and not settlement.acknowledged):
            return
        for held in settlement.held:
            entry, client = self.entries[held.consumer.destination, held.frame.body], held.consumer.client
            entry.settled = self.batch
            if entry.durable:
                self.last_change[client] = self.batch
            if not settlement.acknowledged and "/dlq." not in entry.queue:
                dead = entry.queue.replace("/queue/", "/queue/dlq.")
                self.enter(entry.sent, dead, entry.durable, client)

    def commit(self, transaction: Transaction) -> None:
        before = self.entries.copy()
        super().commit(transaction)
        new = [each for key, each in self.entries.items() if before.get(key) is not each]
        held = [each for settlement in transaction.settlements for each in settlement.held]
        settled = [before[each.consumer.destination, each.frame.body] for each in held]
        for each in new:
            each.late = any(one.durable for one in [*new, *settled])

    def promise(self, client: Client, receipt: str) -> None:
        self.promised.setdefault(client, []).append((receipt, self.last_change.get(client, 0)))

    def receipt(self, client: Client, id: str) -> None:
        expected, batch = self.promised[client].pop(0)
        assert id == expected
        assert batch <= client.scene.vault.storage.committed, f"{id} came before batch {batch} was written"

    def unsubscribe(self, consumer: Consumer) -> None:
        self._doubt(consumer.destination)

    def leave(self, client: Client, *, taken: bool, lost: bool) -> None:
        for consumer in [each for each in self.play.consumers if each.client is client]:
            self._doubt(consumer.destination)

    def _doubt(self, queue: str) -> None:
        """What lies in an outbox comes back marked, though its client has seen nothing of it."""
        for entry in self.entries.values():
            entry.survived |= entry.queue == queue

    # what clients get

    def came(self, consumer: Consumer, frame: Received) -> None:
        entry = self.entries[consumer.destination, frame.body]
        assert not entry.late or entry.entered <= self.scene.vault.storage.committed, f"{entry} comes too early"
        if not consumer.ended:  # last words come whatever becomes of the message
            assert consumer.wants(entry.sent)
            assert entry.settled is None, f"{entry} comes again"
            rivals = [each for each in self.play.consumers if each.destination == entry.queue]
            held = [each.frame.body for one in rivals for each in one.held]
            assert frame.body not in held, f"{entry} has two owners"
            assert frame.redelivered or not entry.seen or entry.in_doubt, f"{entry} is not marked"
            assert entry.seen or entry.survived or not frame.redelivered, f"{entry} is marked"
        entry.seen = True
        entry.in_doubt |= bool(self.scene.vault.storage.failure)  # then nobody waits for the store
        if consumer.mode == "auto" and not consumer.ended:
            entry.settled = self.batch  # which nobody waits for

    def look(self) -> None:
        """Queue d goes with its last consumer."""
        consumers = [each for each in self.play.consumers if each.destination == MORTAL and not each.ended]
        is_used = any(not each.client.closed and not each.client.session.ended for each in consumers)
        if self._was_used and not is_used:
            for entry in self.entries.values():
                if entry.queue == MORTAL and entry.settled is None:
                    entry.settled = self.batch
        self._was_used = is_used

    def written(self) -> None:
        unanswered = [client for client, receipts in self.promised.items() if receipts and not client.closed]
        assert all(client.stalled for client in unanswered), "receipts that nobody sends"
        for consumer in self.play.consumers:
            mine = [each for each in self.play.consumers if each.destination == consumer.destination]
            exclusive = [each for each in mine if each.exclusive]
            stands_by = bool(exclusive) and exclusive[0] is not consumer
            has_room = consumer.mode == "auto" or len(consumer.held) < consumer.most
            if has_room and not stands_by and not any(each.client.stalled for each in mine):
                # What nobody wants holds up its group.
                is_held_up = consumer.destination in GROUPED and (len(mine) > 1 or consumer.selector)
                waiting = [] if is_held_up else self.waiting(consumer.destination)
                left = [each for each in waiting if consumer.wants(each.sent)]
                assert not left, f"{consumer.id} has room for {left}"

    # the end of a process

    def waiting(self, queue: str = "") -> list[Entry]:
        """What nobody has and nobody has settled, in order."""
        of_transactions = [each for one in self.play.transactions for each in one.settlements]
        every = [each for one in [*self.play.consumers, *of_transactions] for each in one.held]
        held = {(each.consumer.destination, each.frame.body) for each in every}
        left = [each for each in self.entries.values() if each.settled is None and queue in ("", each.queue)]
        return sorted([each for each in left if (each.queue, each.sent.body) not in held], key=lambda each: each.order)

    def next_process(self, old: Scene, committed: float, *, clean: bool) -> None:
        found = []
        for each in self.entries.values():
            is_settled = each.settled is not None and each.settled <= committed
            is_there = each.durable and each.entered <= committed and not is_settled
            if is_there and not (clean and self._was_used and each.queue == MORTAL):
                each.entered, each.settled, each.survived = 0, None, True
                found.append(each)
        self.entries = {(each.queue, each.sent.body): each for each in found}
        self.promised, self.last_change, self._was_used = {}, {}, False
        assert self.scene.broker.context.waiting == len(found)
        assert {each.queue for each in found} <= set(self.scene.broker.destinations)

    def actions(self) -> dict[Step, bool]:
        return {self.drain: not self.play.consumers and not self.play.transactions and not self.play.is_failing}

    def drain(self, data: object = None) -> None:
        """All that waits comes, in order, to a consumer that takes it all."""
        for name in sorted({each.queue for each in self.waiting()}):
            expected = [each.sent.body for each in self.waiting(name)]
            client = self.scene.connect()
            self.play.consumers.append(Consumer(client, "0", name))
            client.subscribe(name)
            self.play.write_all()
            frames = [frame for frame in parse(client.written, client.version) if frame.command == "MESSAGE"]
            assert [frame.body for frame in frames] == expected, name
            self.play.look()
            self.play.end_client(client, graceful=True)
            client.disconnect()
            self.play.look()

    def finish(self) -> None:
        for client in self.play.clients:
            client.resume()
            self.play.look()
            self.play.end_client(client, graceful=False)
            client.drop()
            self.play.look()
        self.drain()
