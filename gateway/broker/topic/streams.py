"""Streams of all topics: which there are, and how several are read as one.

A stream is created with its topic.  One that is empty and has no subscribers is remembered among the last
`_MOST_RESTING`, for the messages that it lost; a client that comes back to another one is told of a gap, though there
may be none.
"""

from __future__ import annotations

import heapq
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ..core.context import Context
from ..model.changes import Container, Stored
from ..model.destinations import REPLY_TOPIC, USER
from ..model.policy import Policy
from ..model.trie import NameTree
from .stream import KIND, Stream, StreamEntry

# Empty streams without a subscriber that are remembered.
_MOST_RESTING = 10_000
# Bytes that a topic with a stream costs beside its messages.
_EMPTY = 2_048
# Readers of the store at a time.
_MOST_READING = 4
# Streams that have gone, beside as many as there are, before they are struck from the list of the oldest messages.
_SLACK = 1_024


class Streams:
    """The streams of all topics.

    Attributes:
        nbytes: bytes that their messages in memory cost.
        index: bytes that the knowledge of those in the store costs.
        forgotten: of a stream that is not known, messages up to that number may be lost.
        unused: names of streams that the store holds, and that no policy keeps there any more.
        started: of a stream in memory, messages up to that number are lost: the last process had them.
    """

    def __init__(self, context: Context) -> None:
        self.nbytes = 0
        self.index = 0
        self.forgotten = 0
        self.started = 0
        self.unused: list[str] = []
        self.most_bytes = context.quotas.memory_limit // 4
        self._context = context
        self._streams: NameTree[Stream] = NameTree()
        self._resting: OrderedDict[str, Stream] = OrderedDict()
        self._place = 0  # in the store, for what was forgotten
        # By the number of its first message, or of one that was the first before: each stream once that has any.
        self._in_memory: list[tuple[int, Stream]] = []
        self._in_store: list[tuple[int, Stream]] = []
        self._offset: float | None = None
        self._waiting: dict[object, tuple[Sequence[int], Callable[[list[Stored]], None]]] = {}
        self._reading = 0

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def messages(self) -> int:
        """The number of messages in all streams."""
        return sum([len(stream) for stream in self._streams.values()])

    def of(self, name: str, policy: Policy) -> Stream | None:
        """The stream of a new topic; None: its policy asks for none."""
        if not policy.keeps_log or name.startswith(REPLY_TOPIC):
            return None
        stream = self._resting.pop(name, None) or self._streams.get(name)
        if stream is None:
            stream = Stream(self, self._context, name, policy)
            self._streams.add(name, stream)
        self._context.memory.keep(_EMPTY)
        return stream

    def now(self) -> float:
        """Seconds since the epoch, as they go on from the start, also if the system's clock is set anew."""
        scheduler = self._context.scheduler
        if self._offset is None:
            self._offset = scheduler.epoch() - scheduler.clock()
        return scheduler.clock() + self._offset

    def begun(self, stream: Stream, number: int) -> None:
        """A stream has its first message, with that number."""
        if stream.is_listed:
            return
        heads = self._in_store if stream.is_stored else self._in_memory
        if len(heads) > 2 * len(self._streams) + _SLACK:
            for _, each in heads:
                each.is_listed = len(each) > 0
            heads[:] = [entry for entry in heads if entry[1].is_listed]
            heapq.heapify(heads)
        stream.is_listed = True
        heapq.heappush(heads, (number, stream))

    def make_room(self) -> None:
        """Keep to the bytes that all streams may cost: the oldest messages go."""
        while self.nbytes > self.most_bytes and (stream := _oldest(self._in_memory)) is not None:
            self._drop_first(stream)
        while self.index > self.most_bytes and (stream := _oldest(self._in_store)) is not None:
            self._drop_first(stream)

    def _drop_first(self, stream: Stream) -> None:
        stream.drop_first()
        stream.compact()
        if not len(stream):
            self.emptied(stream)

    def emptied(self, stream: Stream) -> None:
        """A stream has become empty by time: its topic may go."""
        topic = self._context.destinations.find(stream.name)
        if topic is not None:
            self._context.destinations.forget_if_idle(topic)

    def rest(self, stream: Stream) -> None:
        """The topic of an empty stream goes: its losses are remembered for a while."""
        self._context.memory.release(_EMPTY)
        if stream.lost <= self.forgotten and not stream.has_place:
            self._forget(stream)
            return
        self._resting[stream.name] = stream
        if len(self._resting) > _MOST_RESTING:
            _, oldest = self._resting.popitem(last=False)
            self.forget_up_to(oldest.lost)
            self._forget(oldest)

    def forget_up_to(self, number: int) -> None:
        """Of streams that are not known any more, messages up to that number may be lost."""
        if number <= self.forgotten:
            return
        self.forgotten = number
        storage, facts = self._context.storage, json.dumps({"forgotten": number})
        if storage is None:
            return
        if self._place:
            storage.describe(Container(self._place, KIND, "", facts))
        else:
            self._place = storage.place(KIND, "", facts)

    def leave_unused(self, place: Container) -> None:
        """A stream stays in the store, and messages that come meanwhile are not in it."""
        self.unused.append(place.name)
        storage = self._context.storage
        assert storage is not None  # it holds the stream
        storage.describe(place._replace(facts=json.dumps(json.loads(place.facts) | {"missed": True})))

    def restore(self, place: Container) -> None:
        """Take over what the store has of streams that were forgotten."""
        self._place = place.number
        self.forgotten = json.loads(place.facts)["forgotten"]

    def forget_mail(self, user: str) -> None:
        """A user without a login has gone, and cannot come back."""
        for stream in self._streams.matching(f"{USER}{user}/#"):
            stream.clear()
            self.emptied(stream)
            if self._resting.pop(stream.name, None) is not None:
                self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        self._streams.remove(stream.name)
        stream.end()

    def matching(self, text: str) -> list[Stream]:
        """The streams that a name or pattern means."""
        return self._streams.matching(text)

    # reading

    def read(self, reader: object, rows: Sequence[int], action: Callable[[list[Stored]], None]) -> None:
        """Read rows back, when it is the reader's turn: commits must not wait for very many of them."""
        self._waiting[reader] = (rows, action)
        self._read_on()

    def do_not_read(self, reader: object) -> None:
        """A reader has gone."""
        self._waiting.pop(reader, None)

    def _read_on(self) -> None:
        storage = self._context.storage
        while self._waiting and self._reading < _MOST_READING:
            assert storage is not None  # messages are there
            rows, action = self._waiting.pop(next(iter(self._waiting)))
            self._reading += 1
            storage.read(rows, partial(self._read, action))

    def _read(self, action: Callable[[list[Stored]], None], found: list[Stored]) -> None:
        self._reading -= 1
        action(found)
        self._read_on()

    def each(self, text: str) -> Iterator[Stream]:
        """The streams that a name or pattern means, one by one, in no order.

        It may take many turns, and streams that come meanwhile may be left out.
        """
        return self._streams.each(text)


class MergedStreams:
    """The messages of several streams up to a certain one, in the order in which they came.

    Attributes:
        end: the number of the last one that may be in it.
    """

    __slots__ = ("_heap", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._heap: list[tuple[int, Stream]] = []

    def __len__(self) -> int:
        """Streams that have more messages."""
        return len(self._heap)

    def add(self, first: StreamEntry | None) -> None:
        """Add a stream that begins with that message; None: it has none."""
        if first is not None and first.number <= self.end:
            heapq.heappush(self._heap, (first.number, first.stream))

    def keep_last(self) -> None:
        """Keep one stream: the one with the last first message."""
        self._heap = [max(self._heap)] if self._heap else []

    def next(self) -> StreamEntry | None:
        """The next message.

        A slow reader finds some of them gone: the first of these of a stream comes without message and size.
        """
        if not self._heap:
            return None
        number, stream = self._heap[0]
        entry, following = stream.behind(number - 1), stream.behind(number)
        if following is None or following.number > self.end:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (following.number, stream))
        return entry if entry is not None and entry.number == number else StreamEntry(number, stream, 0, None, "")


def _oldest(heads: list[tuple[int, Stream]]) -> Stream | None:
    """The stream with the oldest message of all."""
    while heads:
        number, stream = heads[0]
        if not len(stream):
            heapq.heappop(heads)
            stream.is_listed = False
        elif stream.first_number != number:
            heapq.heapreplace(heads, (stream.first_number, stream))
        else:
            return stream
    return None
