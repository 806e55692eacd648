"""Publishers, and subscribers that come back; at any moment the process may stop, or be killed.

Whoever subscribes sees from where it began every message of its topics once, in order, up to now; or is told of a gap
before the jump, and then what it did not get is really gone.  Who comes back under a name misses nothing that it did
not acknowledge, and, where no process was killed, sees nothing again before which all was acknowledged.

The number of examples is small enough for every run of the tests; to search longer, set MODEL_EXAMPLES.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gateway.broker.topic import stream as log_module
from gateway.broker.topic import stream_reader as replay_module
from gateway.broker.topic.stream import Stream
from gateway.codec import V11, V12

from ..client import Client, Rules, Scene
from ..wire import Received
from .model_draw import pick

TOPICS = ["/topic/a", "/topic/b", "/topic/m"]
NAMES = [*TOPICS, "/topic/*"]
RULES: Rules = {
    "/topic/a": {"log_messages": 4},
    "/topic/b": {"log_age": 8.0},
    "/topic/m": {"log_octets": 3_000, "durable": False},
}
STARTS = ["first", "last", "next", "seq", "resume", "resume", "resume", "resume first"]
LARGE = 3_000


@dataclass(frozen=True)
class Sent:
    """A message; those of all topics are numbered in the order of arrival."""

    number: int
    topic: str
    seq: int


@dataclass(eq=False)
class Cursor:
    """What is known of a name to resume by.

    Attributes:
        topic: topic or pattern.
        began: topic -> the number of the message behind which it began.
        position: the number of the last message before which all is done.
        written: the store knows the name.
        moved: it may stand further back than `position`.
    """

    topic: str
    began: dict[str, int]
    position: int
    written: bool = False
    moved: bool = False


@dataclass(eq=False)
class Reader:
    """A subscriber.

    Attributes:
        after: topic -> the number of the last message that it got, or was told of.
        last: the number of the last message that it got.
        open: message-id -> what it has not acknowledged, and the numbers that are done with it.
        rejected: message-id -> the same numbers, of what comes back.
        done: numbers that it has acknowledged.
        strict: it is not to be told of a gap where there is none.
    """

    client: Client
    name: str
    mode: str
    prefetch: int
    offset: Cursor | None
    after: dict[str, int]
    last: int
    strict: bool
    open: dict[str, tuple[Received, list[int]]] = field(default_factory=dict)
    rejected: dict[str, list[int]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)


class Readers(RuleBasedStateMachine):
    """One publisher, four subscribers, three names."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(replay_module, "_PAGE", 2)
        self.patch.setattr(log_module, "_TAIL", 2)
        self.patch.setattr(log_module, "_SLACK", 3)
        self.sent: list[Sent] = []
        self.readers: list[Reader] = []
        self.offsets: dict[str, Cursor] = {}
        self.count = 0
        self.ids = 0
        self.processes = 1
        self.killed = False

    @initialize(stored=st.booleans())
    def start(self, stored: bool) -> None:
        self.stored = stored
        self.scene = Scene(RULES, stored=stored, max_outbound=64 * 1024)
        self.begin()

    def begin(self) -> None:
        self.publisher = self.scene.connect()

    def teardown(self) -> None:
        try:
            if not self.failed and hasattr(self, "scene"):
                self.write()
                self.scene.finish()
        finally:
            self.patch.undo()

    failed = False

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        possible: dict[Callable[[st.DataObject], None], bool] = {
            self.publish: True,
            self.publish_more: True,
            self.subscribe: len(self.readers) < 4,
            self.leave: bool(self.readers),
            self.stall: any(not each.client.stalled for each in self.readers),
            self.go_on: any(each.client.stalled for each in self.readers),
            self.acknowledge: any(each.open for each in self.readers),
            self.reject: any(each.open and each.mode == "client-individual" for each in self.readers),
            self.commit: self.stored,
            self.wait: True,
            self.stop: self.stored,
            self.kill: self.stored,
        }
        self.failed = True
        pick(data, [each for each, is_possible in possible.items() if is_possible])(data)
        self.look()
        self.failed = False

    # what happens

    def publish(self, data: st.DataObject) -> None:
        self.send(data.draw(st.sampled_from(TOPICS)), data.draw(st.sampled_from([0, 0, LARGE])))

    def publish_more(self, data: st.DataObject) -> None:
        for topic in data.draw(st.lists(st.sampled_from(TOPICS), min_size=2, max_size=6)):
            self.send(topic, 0)

    def send(self, topic: str, nbytes: int) -> None:
        self.count += 1
        self.publisher.publish(topic, b"%d" % self.count + b" " * nbytes)
        stream = self.scene.broker.registry.streams._streams.get(topic)
        assert stream is not None
        self.sent.append(Sent(self.count, topic, stream.next - 1))

    def subscribe(self, data: st.DataObject) -> None:
        start, name = data.draw(st.sampled_from(STARTS)), data.draw(st.sampled_from(NAMES))
        topics = TOPICS if name == "/topic/*" else [name]
        is_named = start.startswith("resume")
        mode = data.draw(st.sampled_from(["client", "client-individual"] + ([] if is_named else ["auto"])))
        prefetch = data.draw(st.sampled_from([1, 3, 1_000]))
        headers = {"prefetch-count": str(prefetch)}
        after = dict.fromkeys(topics, self.count)
        strict = not self.killed and (self.processes == 1 or name in ("/topic/a", "/topic/b"))
        offset, resume = None, ""
        if is_named:
            resume = headers["resume"] = data.draw(st.sampled_from("xyz"))
            offset = self.find(resume, name)
        seqs = [each.seq for each in self.sent if each.topic == name]
        if start in ("first", "resume first") or (start == "seq" and not seqs):
            headers["from-seq"] = "0"
            after = {topic: self.before_first(topic) for topic in topics}
        elif start == "last":
            headers["x-stream-offset"] = "last"
            last = max([each.number for each in self.sent if each.topic in topics and self.is_there(each)], default=0)
            after = {topic: max(last - 1, self.before_first(topic)) for topic in topics}
        elif start == "seq":
            asked = data.draw(st.sampled_from(seqs)) + data.draw(st.sampled_from([0, 0, 1]))
            headers["from-seq"] = str(asked)
            after = {
                name: max([each.number for each in self.sent if each.topic == name and each.seq < asked], default=0)
            }
        client = self.scene.connect(data.draw(st.sampled_from([V11, V12])))
        last = 0
        if offset is not None:
            after = {topic: max(offset.position, offset.began[topic]) for topic in topics}
            last = 0 if offset.moved or len(topics) > 1 else offset.position
            strict = strict and not offset.moved and len(topics) == 1
        elif is_named:
            offset = self.offsets[resume] = Cursor(name, dict(after), min(after.values()))
        reader = Reader(client, name, mode, prefetch, offset, after, last, strict)
        self.readers.append(reader)
        self.ids += 1
        client.subscribe(name, id=str(self.ids), ack=mode, **headers)

    def find(self, resume: str, name: str) -> Cursor | None:
        """The name as it stands; who has it loses it."""
        offset = self.offsets.get(resume)
        if offset is None:
            return None
        for reader in self.readers:
            if reader.offset is offset:
                self.look()
                self.move(reader)
                reader.offset = None
        return offset if offset.topic == name else None

    def before_first(self, topic: str) -> int:
        """The number before the first message that is there."""
        there = [each.number for each in self.sent if each.topic == topic and self.is_there(each)]
        return min(there, default=self.count + 1) - 1

    def is_there(self, sent: Sent) -> bool:
        stream: Stream | None = self.scene.broker.registry.streams._streams.get(sent.topic)
        return stream is not None and stream.first <= sent.seq < stream.next

    def move(self, reader: Reader) -> None:
        """The name that a reader has stands before the first message that is not done."""
        offset = reader.offset
        assert offset is not None  # the caller asked
        left = [
            each.number
            for each in self.sent
            if each.number > max(offset.position, offset.began.get(each.topic, self.count))
            and each.number not in reader.done
        ]
        offset.position = max(offset.position, min(left, default=self.count + 1) - 1)
        offset.moved = offset.moved and not reader.done

    def leave(self, data: st.DataObject) -> None:
        reader = pick(data, self.readers)
        pick(data, [Client.drop, Client.disconnect])(reader.client)
        self.forget(reader)

    def forget(self, reader: Reader) -> None:
        self.readers.remove(reader)
        if reader.offset is not None:
            self.move(reader)

    def stall(self, data: st.DataObject) -> None:
        pick(data, [each for each in self.readers if not each.client.stalled]).client.stalled = True

    def go_on(self, data: st.DataObject) -> None:
        pick(data, [each for each in self.readers if each.client.stalled]).client.resume()

    def acknowledge(self, data: st.DataObject) -> None:
        reader = pick(data, [each for each in self.readers if each.open])
        chosen = pick(data, list(reader.open))
        frame = reader.open[chosen][0]
        for key in list(reader.open):
            if key == chosen or reader.mode == "client":
                reader.done.update(reader.open.pop(key)[1])
            if key == chosen:
                break
        reader.client.ack(frame)

    def reject(self, data: st.DataObject) -> None:
        reader = pick(data, [each for each in self.readers if each.open and each.mode == "client-individual"])
        chosen = pick(data, list(reader.open))
        frame, numbers = reader.open[chosen]
        if int(frame.headers.get("delivery-count", "1")) < 5:
            del reader.open[chosen]
            reader.rejected[chosen] = numbers
            reader.client.nack(frame)

    def commit(self, data: st.DataObject) -> None:
        self.write()

    def write(self) -> None:
        if self.stored:
            self.scene.commit()
            for offset in self.offsets.values():
                offset.written = True

    def wait(self, data: st.DataObject) -> None:
        self.scene.wait(data.draw(st.sampled_from([1.0, 6.0])))

    def stop(self, data: st.DataObject) -> None:
        """The process stops in order."""
        self.look()
        self.scene = self.scene.restart()
        self.next_process()

    def kill(self, data: st.DataObject) -> None:
        self.look()
        if data.draw(st.booleans()):
            self.scene.vault.take()
        rows = {row.row for row in self.scene.store.rows.values()}
        seqs = {_seq(self.scene, row) for row in rows}
        self.scene = self.scene.crash()
        self.killed = True
        # What was not written has never been.
        self.sent = [each for each in self.sent if each.topic == "/topic/m" or self.was_written(each, seqs)]
        self.offsets = {name: offset for name, offset in self.offsets.items() if offset.written}
        for offset in self.offsets.values():
            offset.moved = True
        self.next_process()

    def was_written(self, sent: Sent, seqs: set[tuple[str, int]]) -> bool:
        """Or was there once, and has gone."""
        first = min([seq for topic, seq in seqs if topic == sent.topic], default=0)
        return (sent.topic, sent.seq) in seqs or sent.seq < first

    def next_process(self) -> None:
        self.processes += 1
        for reader in list(self.readers):
            self.forget(reader)
        for offset in self.offsets.values():
            offset.written = True
        self.begin()

    # what is right

    def look(self) -> None:
        for reader in list(self.readers):
            for frame in reader.client.received():
                if frame.command == "MESSAGE":
                    self.check(reader, frame)
            if reader.client.closed:
                self.forget(reader)

    def check(self, reader: Reader, frame: Received) -> None:
        if frame.redelivered:
            reader.open[frame.message_id] = frame, reader.rejected.pop(frame.message_id)
            return
        assert frame.message_id not in reader.open
        topic, is_gap = frame.headers["destination"], frame.headers.get("gap") == "true"
        if "seq" in frame.headers:
            skipped = self.check_order(reader, frame, topic)
        elif topic == "/topic/*":
            assert not reader.strict
            skipped = self.check_notice(reader, [each for each in self.sent if not self.is_there(each)])
        else:
            first = int(frame.headers["first-seq"])
            skipped = self.check_notice(
                reader, [each for each in self.sent if each.topic == topic and each.seq < first]
            )
        assert is_gap or not skipped, f"{skipped} are missing"
        assert not (is_gap and reader.strict and not skipped), "a gap where there is none"
        assert not any(map(self.is_there, skipped)), "a gap, though it is there"
        numbers = [each.number for each in skipped] + ([int(frame.body)] if frame.body else [])
        if reader.mode == "auto":
            reader.done.update(numbers)
        else:
            reader.open[frame.message_id] = frame, numbers

    def check_notice(self, reader: Reader, gone: list[Sent]) -> list[Sent]:
        """Nobody gets these any more; those that the reader did not have."""
        skipped = [each for each in gone if each.number > reader.after.get(each.topic, self.count)]
        for each in skipped:
            reader.after[each.topic] = max(reader.after[each.topic], each.number)
        return skipped

    def check_order(self, reader: Reader, frame: Received, topic: str) -> list[Sent]:
        number = int(frame.body)
        (sent,) = [each for each in self.sent if each.number == number]
        assert (sent.topic, sent.seq) == (topic, int(frame.headers["seq"]))
        assert number > reader.last, "out of order, or twice"
        reader.last = number
        skipped = [each for each in self.sent if each.topic == topic and reader.after[topic] < each.number < number]
        reader.after[topic] = max(number, reader.after[topic])
        if "gap" in frame.headers:
            assert frame.headers["first-seq"] == frame.headers["seq"]
            if self.processes > 1 and reader.name == "/topic/*":  # it may stand for logs that nobody knows any more
                gone = [each for each in self.sent if each.number < number and not self.is_there(each)]
                skipped += self.check_notice(reader, gone)
        return skipped

    @invariant()
    def everybody_is_up_to_date(self) -> None:
        """Who reads, and has room, has all there is, once the store has read it."""
        if not hasattr(self, "scene") or self.failed:
            return
        if self.stored and self.scene.broker.storage is not None and self.scene.broker.storage._reads:
            return
        for reader in self.readers:
            if not reader.client.stalled and (
                reader.mode == "auto" or len(reader.open) < reader.prefetch - len(reader.rejected)
            ):
                for each in self.sent:
                    if each.topic in reader.after:
                        assert each.number <= reader.after[each.topic], f"{each} is missing"


def _seq(scene: Scene, row: int) -> tuple[str, int]:
    content = scene.store.contents[scene.store.rows[row].content]
    return content.headers["destination"], int(content.headers["seq"])


def test_nobody_misses_anything_unawares() -> None:
    run_state_machine_as_test(
        Readers,
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
