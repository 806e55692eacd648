"""Readers of topics with a stream: each sees every message once, in order, from where it began, or is told of a gap.

What a gap stands for is really gone.  A reader that comes back under a name misses nothing that it did not acknowledge
and, where no process was killed, sees nothing again before which all was acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.broker.topic.stream import Stream

from ..client import Client, Scene
from ..wire import Received
from .program import Books, Clients, Consumer, Sent, Settlement, Transaction

IN_MEMORY = "/topic/m"
TOPICS = ["/topic/a", "/topic/b", IN_MEMORY]
PATTERN = "/topic/*"
POLICIES: Mapping[str, Mapping[str, object]] = {
    "/topic/a": {"log_messages": 4},
    "/topic/b": {"log_age": 8.0},
    IN_MEMORY: {"log_bytes": 3_000, "durable": False},
}


@dataclass(frozen=True)
class Entry:
    """A message; those of all topics are numbered in the order of arrival."""

    number: int
    body: bytes
    topic: str
    seq: int


@dataclass(eq=False)
class Offset:
    """What is known of a name to resume by."""

    topic: str  # topic or pattern
    began: dict[str, int]  # topic -> the number of the message behind which it began
    position: int  # the number of the last message before which all is done
    written: bool = False  # the store knows the name
    moved: bool = False  # it may stand further back than `position`
    replaced: Offset | None = None  # what the store knows under that name until it knows this one


@dataclass(eq=False)
class Reader:
    """A subscription."""

    consumer: Consumer
    offset: Offset | None
    after: dict[str, int]  # topic -> the number of the last message that it got, or was told of
    last: int  # the number of the last message that it got
    strict: bool  # it is not to be told of a gap where there is none
    # message-id -> the numbers that are done once it is acknowledged
    open: dict[str, list[int]] = field(default_factory=dict)
    rejected: dict[str, list[int]] = field(default_factory=dict)  # the same of what comes back
    done: set[int] = field(default_factory=set)  # numbers that it has acknowledged


class Streams(Books):
    """What the streams have been sent, and how far each reader is."""

    def __init__(self, play: Clients) -> None:
        super().__init__(play)
        self.sent: list[Entry] = []
        self.readers: dict[Consumer, Reader] = {}
        self.offsets: dict[str, Offset] = {}
        self.count = 0
        self.killed = False
        self.started = 0  # the number of the last message before this process

    # what clients do

    def published(self, sent: Sent, transaction: Transaction | None) -> None:
        self.count += 1
        stream = self.stream(sent.destinations[0])
        assert stream is not None
        self.sent.append(Entry(self.count, sent.body, sent.destinations[0], stream.next - 1))

    def subscribe(self, consumer: Consumer) -> None:
        name, headers = consumer.destination, consumer.headers
        topics = TOPICS if name == PATTERN else [name]
        after = dict.fromkeys(topics, self.count)
        strict = not self.killed and (self.play.processes == 1 or name in ("/topic/a", "/topic/b"))
        resume, asked = headers.get("resume", ""), int(headers.get("from-seq", "-1"))
        offset = self.take(resume, name) if resume else None
        if asked == 0:
            after = {topic: self.before_first(topic) for topic in topics}
        elif asked > 0:
            after = {name: self.last_of([each for each in self.sent if each.topic == name and each.seq < asked])}
        elif "x-stream-offset" in headers:
            last = self.last_of([each for each in self.sent if each.topic in topics and self.is_there(each)])
            after = {topic: max(last - 1, self.before_first(topic)) for topic in topics}
        last = 0
        if offset is not None:
            after = {topic: max(offset.position, offset.began[topic]) for topic in topics}
            last = 0 if offset.moved or len(topics) > 1 else offset.position
            strict = strict and not offset.moved and len(topics) == 1
        elif resume:
            old = self.offsets.get(resume)
            replaced = old if old is None or old.written else old.replaced
            offset = self.offsets[resume] = Offset(name, dict(after), min(after.values()), replaced=replaced)
        self.readers[consumer] = Reader(consumer, offset, after, last, strict)

    def take(self, resume: str, name: str) -> Offset | None:
        """The name as it stands; the reader that has it loses it."""
        offset = self.offsets.get(resume)
        for reader in self.readers.values():
            if offset is not None and reader.offset is offset:
                self.move(reader)
                reader.offset = None
        return offset if offset is not None and offset.topic == name else None

    def move(self, reader: Reader) -> None:
        """The name that a reader has stands before the first message that is not done."""
        offset = reader.offset
        if offset is None:
            return
        left = [
            each.number
            for each in self.sent
            if each.number > max(offset.position, offset.began.get(each.topic, self.count))
            and each.number not in reader.done
        ]
        offset.position = max(offset.position, min(left, default=self.count + 1) - 1)
        offset.moved = offset.moved and not reader.done

    def unsubscribe(self, consumer: Consumer) -> None:
        self.move(self.readers.pop(consumer))

    def leave(self, client: Client, *, taken: bool, lost: bool) -> None:
        for consumer in [each for each in self.readers if each.client is client]:
            self.unsubscribe(consumer)

    def settle(self, settlement: Settlement, transaction: Transaction | None = None) -> None:
        for held in settlement.held:
            reader, id = self.readers[held.consumer], held.frame.message_id
            numbers = reader.open.pop(id)
            if settlement.acknowledged:
                reader.done.update(numbers)
            else:
                reader.rejected[id] = numbers

    # what is there

    def stream(self, topic: str) -> Stream | None:
        return self.scene.broker.registry.streams._streams.get(topic)

    def is_there(self, entry: Entry) -> bool:
        stream = self.stream(entry.topic)
        return stream is not None and stream.first <= entry.seq < stream.next

    def before_first(self, topic: str) -> int:
        """The number before the first message that is there."""
        there = [each.number for each in self.sent if each.topic == topic and self.is_there(each)]
        return min(there, default=self.count + 1) - 1

    def last_of(self, entries: list[Entry]) -> int:
        return max([each.number for each in entries], default=0)

    # the store, and the process

    def written(self) -> None:
        for offset in self.offsets.values():
            offset.written, offset.replaced = True, None

    def next_process(self, old: Scene, committed: float, *, clean: bool) -> None:
        for consumer in list(self.readers):
            self.unsubscribe(consumer)
        self.started = self.count
        if not clean:
            self.killed = True
            rows = [(row, old.store.contents[row.content].headers) for row in old.store.rows.values()]
            seqs = {(headers["destination"], int(headers["seq"])) for _, headers in rows if "seq" in headers}
            # What was not written has never been.
            self.sent = [each for each in self.sent if each.topic == IN_MEMORY or self._was_written(each, seqs)]
            known = {name: each if each.written else each.replaced for name, each in self.offsets.items()}
            self.offsets = {name: each for name, each in known.items() if each is not None}
        for offset in self.offsets.values():
            offset.written, offset.replaced = True, None
            offset.moved = offset.moved or not clean

    def _was_written(self, entry: Entry, seqs: set[tuple[str, int]]) -> bool:
        """Or was there once, and has gone."""
        first = min([seq for topic, seq in seqs if topic == entry.topic], default=0)
        return (entry.topic, entry.seq) in seqs or entry.seq < first

    # what is right

    def came(self, consumer: Consumer, frame: Received) -> None:
        reader = self.readers.get(consumer)
        if reader is None:  # it has left
            return
        if frame.redelivered:
            reader.open[frame.message_id] = reader.rejected.pop(frame.message_id)
            return
        assert frame.message_id not in reader.open
        topic, is_gap = frame.headers["destination"], frame.headers.get("gap") == "true"
        if "seq" in frame.headers:
            skipped = self._skipped(reader, frame, topic)
        elif topic == PATTERN:
            assert not reader.strict
            skipped = self._notice(reader, [each for each in self.sent if not self.is_there(each)])
        else:
            first = int(frame.headers["first-seq"])
            skipped = self._notice(reader, [each for each in self.sent if each.topic == topic and each.seq < first])
        assert is_gap or not skipped, f"{skipped} are missing"
        assert not (is_gap and reader.strict and not skipped), "a gap where there is none"
        assert not any(map(self.is_there, skipped)), "a gap, though it is there"
        numbers = [each.number for each in skipped]
        numbers += [each.number for each in self.sent if frame.body and each.body == frame.body]
        if consumer.mode == "auto":
            reader.done.update(numbers)
        else:
            reader.open[frame.message_id] = numbers

    def _notice(self, reader: Reader, gone: list[Entry]) -> list[Entry]:
        """Nobody gets these any more; those that the reader did not have."""
        skipped = [each for each in gone if each.number > reader.after.get(each.topic, self.count)]
        for each in skipped:
            reader.after[each.topic] = max(reader.after[each.topic], each.number)
        return skipped

    def _skipped(self, reader: Reader, frame: Received, topic: str) -> list[Entry]:
        (entry,) = [each for each in self.sent if each.body == frame.body]
        number = entry.number
        assert (entry.topic, entry.seq) == (topic, int(frame.headers["seq"]))
        assert number > reader.last, "out of order, or twice"
        reader.last = number
        skipped = [each for each in self.sent if each.topic == topic and reader.after[topic] < each.number < number]
        reader.after[topic] = max(number, reader.after[topic])
        if "gap" in frame.headers:
            assert frame.headers["first-seq"] == frame.headers["seq"]
            if self.play.processes > 1 and reader.consumer.destination == PATTERN:  # it may stand for forgotten streams
                skipped += self._notice(
                    reader, [each for each in self.sent if each.number < number and not self.is_there(each)]
                )
                # The first message tells of all that the last process had in memory, whenever that came.
                skipped += self._notice(
                    reader, [each for each in self.sent if each.topic == IN_MEMORY and each.number <= self.started]
                )
        return skipped

    def look(self) -> None:
        """A reader that has room has all there is, once the store has read it."""
        storage = self.scene.broker.storage
        if storage is not None and storage._reads:
            return
        for consumer, reader in self.readers.items():
            has_room = consumer.mode == "auto" or len(reader.open) + len(reader.rejected) < consumer.most
            if has_room and not consumer.client.stalled and not consumer.client.closed:  # closed: as too slow
                missing = [each for each in self.sent if each.number > reader.after.get(each.topic, self.count)]
                assert not missing, f"{missing} are missing"
