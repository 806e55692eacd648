"""Whatever clients do, the rows add up: with the counters, with what each client did and got, and among themselves.

The number of examples is small enough for every run of the tests; to search longer, set MODEL_EXAMPLES.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.broker.core.ports import Recorder
from gateway.broker.model.message import Message
from gateway.journal import Journal, Segment, found
from tests.journal.desk import as_dict

from ..client import Client
from ..recorder import Notebook, Notes, RecordedScene, row_of_journal
from .model_draw import pick
from .records_program import LOGS, POLICIES, QUEUES, TOPICS, Actor, Program, Sub

Headers = dict[str, str]

MODES = ("auto", "client", "client-individual")
SENDS: tuple[Headers, ...] = (
    {},
    {},
    {"persistent": "true"},
    {"persistent": "true", "priority": "9"},
    {"expires": "1"},
    {"ttl": "3000"},
    {"ttl": "3000", "persistent": "true"},
    {"key": "k"},
    {"key": "l"},
    {"kind": "x"},
    {"retain": "set"},
    {"retain": "remove"},
    {"retain": "set", "ttl": "4000"},
    {"dedup-id": "1"},
    {"dedup-id": "2", "persistent": "true"},
    {"x-delay": "2250"},
    {"x-delay": "2250", "persistent": "true"},
    {"x-delay": "4250", "dedup-id": "3"},
    {"JMSXGroupID": "g"},
    {"JMSXGroupID": "g", "persistent": "true"},
    {"long": "x" * 700, "persistent": "true"},
)
# What a SEND may name beside one destination of the program's own.
ALSO = ("/topic/a.b", "/exchange/amq.topic/a", "/amq/queue/a")
CONFLATED = ("/queue/e", "/topic/b")
PATTERNS = ("/topic/*", "/topic/#", "/topic/a.*", "/exchange/amq.topic/a")
OF_ALL: tuple[Headers, ...] = ({}, {}, {"selector": "kind = 'x'"}, {"prefetch-count": "1"})
OF_QUEUES = (
    *OF_ALL,
    {"include-seq": "n"},
    {"browser": "true"},
    {"browser": "true", "browser-end": "false"},
    {"exclusive": "true"},
)
OF_TOPICS = (*OF_ALL, {"no-local": "true"}, {"durable": "true"}, {"durable": "true"}, {"x-queue-name": "shared"})
OF_LOGS = ({"from-seq": "0"}, {"resume": "me"}, {"from-seq": "-1"}, {"include-seq": "n"})


class Play:
    """A program that is drawn.

    Args:
        check: at the end of each process, and perhaps after each step.
    """

    def __init__(self, data: st.DataObject, scene: RecordedScene, check: Callable[[Program, bool], None]) -> None:
        self.data = data
        self.program = Program(scene)
        self._check = check
        self._ids = 0
        self._queues = [pick(data, QUEUES) for _ in range(3)]
        self._topics = [pick(data, TOPICS) for _ in range(3)]

    def run(self) -> None:
        program = self.program
        with program.watch.here():
            for _ in range(3):
                self.connect()
                self.subscribe()
                program.look()
            for _ in range(self.data.draw(st.integers(20, 60))):
                self._step()
                program.look()
                self._check(program, False)
            program.scene.wait(20.5)
            program.write()
            program.look()
            self._check(program, True)

    def _step(self) -> None:
        actors = self.program.actors
        possible: dict[Callable[[], None], bool] = {
            self.connect: len(actors) < 4,
            self.publish: bool(actors),
            self.subscribe: bool(actors),
            self.unsubscribe: any(actor.subs for actor in actors),
            self.settle: any(self._held()),
            self.begin: bool(actors),
            self.end_transaction: any(actor.transactions for actor in actors),
            self.stall: bool(actors),
            self.resume: any(actor.client.stalled for actor in actors),
            self.leave: bool(actors),
            self.fail: bool(actors),
            self.wait: True,
            self.write: True,
            self.crash: True,
        }
        often = 4 * [self.publish, self.settle] + 2 * [self.subscribe, self.begin, self.end_transaction, self.connect]
        often += [each for each in possible if each not in (self.fail, self.crash)]
        rare = [self.fail, self.crash] if not self.data.draw(st.integers(0, 9)) else []
        pick(self.data, [each for each in [*often, *rare] if possible[each]])()

    def _actor(self) -> Actor:
        return pick(self.data, self.program.actors)

    def _held(self) -> list[tuple[Actor, Sub, int]]:
        actors = self.program.actors
        return [
            (actor, sub, place) for actor in actors for sub in actor.subs.values() for place in range(len(sub.held))
        ]

    def _transaction(self, actor: Actor) -> str:
        return pick(self.data, ["", *actor.transactions])

    def connect(self) -> None:
        self.program.connect(old=self.data.draw(st.booleans()))

    def publish(self) -> None:
        actor = self._actor()
        for _ in range(self.data.draw(st.integers(1, 4))):
            both = f"{self._queues[0]},{self._topics[0]}"
            destination = pick(self.data, [*self._queues, *self._topics, *self._queues, *self._topics, *ALSO, both])
            headers = {**pick(self.data, [SENDS[0], pick(self.data, SENDS)])}
            if destination in CONFLATED:
                headers.setdefault("key", "k")
            if "retain" in headers and "/queue" in destination:
                destination = "/topic/a"
            if not actor.client.closed:
                self.program.send(actor, destination, self._transaction(actor), **headers)

    def subscribe(self) -> None:
        actor = self._actor()
        dead = [name.replace("/queue/", "/queue/dlq.") for name in self._queues]
        destination = pick(self.data, [*self._queues, *self._topics, *self._queues, *PATTERNS, *dead])
        choices: tuple[Headers, ...] = OF_QUEUES
        if "topic" in destination:
            choices = OF_TOPICS + (OF_LOGS if destination in LOGS else ())
        headers, mode = pick(self.data, choices), pick(self.data, MODES)
        if "browser" in headers:
            mode = "auto"
        elif "resume" in headers and mode == "auto":
            mode = "client"
        self._ids += "durable" not in headers
        id = "durable" if "durable" in headers else f"s{self._ids}"
        if id not in actor.subs:
            self.program.subscribe(actor, destination, id, mode, **headers)

    def unsubscribe(self) -> None:
        actor = pick(self.data, [actor for actor in self.program.actors if actor.subs])
        self.program.unsubscribe(actor, pick(self.data, list(actor.subs)), for_good=self.data.draw(st.booleans()))

    def settle(self) -> None:
        actor, sub, place = pick(self.data, self._held())
        acknowledged = self.data.draw(st.booleans())
        headers = {} if acknowledged else pick(self.data, [{}, {"requeue": "false"}, {"reason": "no"}])
        tx = self._transaction(actor)
        self.program.settle(actor, sub, place, acknowledged=acknowledged, tx=tx, **headers)

    def begin(self) -> None:
        self._ids += 1
        self.program.begin(self._actor(), f"t{self._ids}")

    def end_transaction(self) -> None:
        actor = pick(self.data, [actor for actor in self.program.actors if actor.transactions])
        end = pick(self.data, [self.program.commit, self.program.commit, self.program.abort])
        end(actor, pick(self.data, list(actor.transactions)))

    def stall(self) -> None:
        self._actor().client.stalled = True

    def resume(self) -> None:
        pick(self.data, [actor for actor in self.program.actors if actor.client.stalled]).client.resume()

    def leave(self) -> None:
        actor = self._actor()
        pick(self.data, [Client.drop, Client.disconnect])(actor.client)

    def fail(self) -> None:
        """A frame that ends its session; nothing else comes of it."""
        client = self._actor().client
        frame = pick(self.data, ["BOGUS", "SEND", "ACK", "COMMIT"])
        client.send(frame, {"destination": "/topic/*", "id": "none", "transaction": "none"})
        assert client.failures

    def wait(self) -> None:
        self.program.scene.wait(pick(self.data, [0.5, 1.5, 5.5]))

    def write(self) -> None:
        self.program.write()

    def crash(self) -> None:
        if self.data.draw(st.booleans()):
            self.program.write()
            self.program.look()
        self._check(self.program, True)
        self.program.crash()


def examples(count: int) -> settings:
    """So many; the same each time, where nothing else is said."""
    return settings(
        max_examples=int(os.environ.get("MODEL_EXAMPLES", str(count))),
        derandomize="MODEL_EXAMPLES" not in os.environ,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
@examples(60)
@given(st.data())
def test_the_rows_add_up_after_each_step(data: st.DataObject) -> None:
    def check(program: Program, is_end: bool) -> None:
        program.check(cast(Notebook, program.scene.recorder))

    scene = RecordedScene(lambda: cast(Recorder, Notebook()), POLICIES, stored=True, max_retained=2)
    Play(data, scene, check).run()


@pytest.mark.slow
@pytest.mark.timeout(400)
@examples(15)
@given(st.data())
def test_the_rows_add_up_when_they_are_read_from_a_journal(data: st.DataObject) -> None:
    run = Message.run.decode()

    with TemporaryDirectory() as folder:
        journals: list[Journal] = []

        def make() -> Journal:
            journals.append(Journal(Path(folder), f"g{len(journals)}", run=run))
            return journals[-1]

        def check(program: Program, is_end: bool) -> None:
            if not is_end:
                return
            journals[-1].start()
            assert journals[-1].close() == 0
            assert journals[-1].rows_dropped == 0
            segments = [Segment(path) for path in found(Path(folder) / f"g{len(journals) - 1}")]
            rows = [as_dict(row) for segment in segments for row in segment]
            assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
            program.check(Notes([row_of_journal(row, run) for row in rows]))

        try:
            Play(data, RecordedScene(make, POLICIES, stored=True, max_retained=2), check).run()
        finally:
            for journal in journals:
                journal.close()
