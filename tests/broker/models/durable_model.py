"""What durable queues promise, as a model that counts batches.

A message is in the store from the batch in which it came to the batch in which it was settled.  So of each message it
is known for sure whether it is there after a kill; nothing may be lost, nothing may come back that was settled, and
whatever somebody has seen is marked when it comes again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from ..client import Client, Scene
from ..wire import Received, parse

# Durable: what asks for it; all; nothing.
QUEUES = {"/queue/a": None, "/queue/b": True, "/queue/c": False, "/queue/d": True}
GROUPED = ("/queue/a", "/queue/dlq.a")  # dead letters keep their group
MORTAL = "/queue/d"  # it goes with its last consumer
POLICIES: dict[str, dict[str, object]] = {
    "#": {"backoff": 0.0, "max_attempts": 0},
    **{name: {"durable": durable} for name, durable in QUEUES.items() if durable is not None},
    MORTAL: {"durable": True, "auto_delete": True},
}


@dataclass(eq=False)
class Sent:
    """A message in a queue.

    Attributes:
        entered: the batch in which it came; 0: one of the last process.
        settled: the batch in which it was settled.
        arrival: its place among all.
        seen: somebody has got it, or may have.
        survived: it comes from an earlier process; then it may be marked though nobody has seen it.
    """

    number: int
    queue: str
    priority: int
    durable: bool
    entered: int
    settled: int | None = None
    arrival: int = 0
    kind: str = ""
    group: str = ""
    seen: bool = False
    survived: bool = False
    in_doubt: bool = False

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.arrival


@dataclass(eq=False)
class Taker:
    """A consumer, with what it has."""

    client: Client
    queue: str
    ack: str
    prefetch: int
    kind: str = ""
    exclusive: bool = False
    held: list[tuple[Received, Sent]] = field(default_factory=list)
    transaction: list[tuple[Received, Sent]] | None = None
    to_come: list[Sent] = field(default_factory=list)

    def ends(self) -> None:
        """It goes: what it has comes back, also what lay in its outbox and reaches it with the last words."""
        self.ack, self.held, self.transaction = "none", [], None

    def wants(self, sent: Sent) -> bool:
        return sent.queue == self.queue and self.kind in ("", sent.kind)

    @property
    def has_room(self) -> bool:
        return not self.client.stalled and (self.ack == "auto" or len(self.held) < self.prefetch)


class Model:
    """What must be there.

    Attributes:
        scene: the process at hand.
        sent: all that is not known to be gone, by queue and number.
        promised: what each client waits for: receipt-id, and the batch that must be written before.
    """

    def __init__(self) -> None:
        self.scene = Scene(POLICIES, stored=True)
        self.sent: dict[tuple[str, int], Sent] = {}
        self.takers: list[Taker] = []
        self.promised: dict[Client, list[tuple[str, int]]] = {}
        self.last_change: dict[Client, int] = {}
        self.arrivals = itertools.count(1)
        self.count = 0

    @property
    def batch(self) -> int:
        """The one that gathers now."""
        return self.scene.vault.storage.number

    # what clients do

    def message(self, queue: str, priority: int, *, persistent: bool, kind: str, group: str) -> Sent:
        """A new message, which is not sent yet."""
        self.count += 1
        policy = QUEUES[queue]
        durable = persistent if policy is None else policy
        return Sent(self.count, queue, priority, durable, self.batch, kind=kind, group=group)

    def enter(self, sent: Sent, client: Client) -> None:
        """It has come to its queue."""
        sent.entered, sent.arrival = self.batch, next(self.arrivals)
        self.sent[sent.queue, sent.number] = sent
        if sent.durable:
            self.last_change[client] = self.batch

    def settle(self, sent: Sent, client: Client) -> None:
        """It is consumed, or is a dead letter now."""
        sent.settled = self.batch
        if sent.durable:
            self.last_change[client] = self.batch

    def die(self, sent: Sent, client: Client) -> None:
        """It is a dead letter."""
        self.settle(sent, client)
        queue = sent.queue.replace("/queue/", "/queue/dlq.")
        self.enter(Sent(sent.number, queue, sent.priority, sent.durable, self.batch, kind=sent.kind), client)

    def promise(self, client: Client, receipt: str) -> None:
        """A frame with that receipt was carried out."""
        self.promised.setdefault(client, []).append((receipt, self.last_change.get(client, 0)))

    # what clients get

    def look(self) -> None:
        """Read what has come to everybody."""
        for client in [*self.promised, *(taker.client for taker in self.takers)]:
            taker = next((each for each in self.takers if each.client is client), None)
            for frame in client.received():
                if frame.command == "RECEIPT":
                    self._receipt(client, frame.headers["receipt-id"])
                elif frame.command == "MESSAGE":
                    assert taker is not None
                    self._came(taker, frame)

    def last_look(self) -> None:
        """The same while all sessions end: what one gives back, those get who are still there."""
        for taker in self.takers:
            frames = [frame for frame in taker.client.received() if frame.command == "MESSAGE"]
            for sent in [self.sent[taker.queue, int(frame.body)] for frame in frames]:
                sent.seen = True
                if taker.ack == "auto":
                    sent.settled = self.batch
        for taker in list(self.takers):
            self.takers.remove(taker)
            self.abandon(taker.queue)

    def _receipt(self, client: Client, receipt: str) -> None:
        expected, batch = self.promised[client].pop(0)
        assert receipt == expected
        assert batch <= self.scene.vault.storage.committed, f"{receipt} came before batch {batch} was written"

    def _came(self, taker: Taker, frame: Received) -> None:
        sent = self.sent[taker.queue, int(frame.body)]
        assert taker.wants(sent)
        assert sent.settled is None, f"{sent} comes again"
        assert not any(sent is other for each in self.takers for _, other in each.held), f"{sent} has two owners"
        self._check_mark(frame, sent)
        sent.seen = True
        sent.in_doubt |= bool(self.scene.vault.storage.failure)  # then nobody waits for the store
        if taker.ack == "auto":
            sent.settled = self.batch  # which nobody waits for
        elif taker.ack != "none":
            taker.held.append((frame, sent))

    def _check_mark(self, frame: Received, sent: Sent) -> None:
        assert frame.redelivered or not sent.seen or sent.in_doubt, f"{sent} is not marked"
        assert sent.seen or sent.survived or not frame.redelivered, f"{sent} is marked"

    def stands_by(self, taker: Taker) -> bool:
        """Whether another one consumes its queue alone."""
        others = [each for each in self.takers if each.queue == taker.queue and each.exclusive]
        return bool(others) and others[0] is not taker

    def forget(self, client: Client) -> None:
        """A client has gone."""
        self.promised.pop(client, None)
        self.takers = [taker for taker in self.takers if taker.client is not client]

    def abandon(self, queue: str) -> None:
        """Somebody who consumed a queue has gone; some go with the last one."""
        if queue == MORTAL and not any(taker.queue == queue for taker in self.takers):
            for sent in self._unsettled():
                if sent.queue == queue:
                    sent.settled = self.batch

    # the end of a process

    def waiting(self) -> list[Sent]:
        """What nobody has and nobody has settled, in order."""
        held = {id(sent) for taker in self.takers for _, sent in taker.held}
        return [each for each in self._unsettled() if id(each) not in held]

    def _unsettled(self) -> list[Sent]:
        return sorted((each for each in self.sent.values() if each.settled is None), key=lambda sent: sent.order)

    def end(self, scene: Scene, committed: int) -> None:
        """The next process has begun.

        Args:
            committed: the last batch of this one that the store has.
        """
        found = [
            each
            for each in self.sent.values()
            if each.durable and each.entered <= committed and (each.settled is None or each.settled > committed)
        ]
        for each in found:
            each.entered, each.settled, each.survived = 0, None, True
        self.sent = {(each.queue, each.number): each for each in found}
        self.scene = scene
        self.takers, self.promised, self.last_change = [], {}, {}
        self.compare()

    def compare(self) -> None:
        """The broker counts what the model has."""
        waiting = self.waiting()
        assert self.scene.broker.context.waiting == len(waiting)
        for name in {sent.queue for sent in waiting}:
            assert name in self.scene.broker.destinations

    def drain(self) -> None:
        """All that waits comes, in order, to one who takes it all; with the marks it needs."""
        for name in sorted({sent.queue for sent in self.waiting()}):
            expected = [sent for sent in self.waiting() if sent.queue == name]
            client = self.scene.connect()
            client.subscribe(name)
            self.takers.append(Taker(client, name, "auto", 0))
            self.write_all()
            found = [int(frame.body) for frame in _messages(client)]
            assert found == [sent.number for sent in expected], (name, found, expected)
            client.disconnect()
            self.forget(client)
            self.abandon(name)
        self.write_all()

    def write_all(self) -> None:
        """The store takes all there is, and everybody reads what has come."""
        vault = self.scene.vault
        while vault.write(vault.take()):
            self.look()
        self.look()


def _messages(client: Client) -> list[Received]:
    """All that it ever got."""
    return [frame for frame in parse(client.written, client.version) if frame.command == "MESSAGE"]
