"""Streams of topics: the last messages of each, numbered, for clients that were away and ask for those they missed.

A topic has a stream where its policy says so (`log_messages`, `log_bytes`, `log_age`).  A message has two numbers:

    number   of the broker: in the order of arrival over all topics, so that the streams of a pattern are read as one
    seq      of the stream, shown as a header: each the last one and 1, so that a client sees whether it missed anything

With a store, the stream is in it, and the memory holds its end alone: enough to pass a reader on to live messages.  A
policy with `durable = false` keeps the stream in memory.  All streams may take a quarter of `memory_limit` there, and
the knowledge of stored messages another quarter; beyond, the oldest message of them all goes.

A stream is created with its topic.  The last empty ones without subscribers (`resting_streams`) are remembered, for the
messages that they lost.
"""

from __future__ import annotations

import heapq
import json
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from gateway.codec import Head

from ..core.context import Context
from ..core.scheduler import Timer
from ..core.storage import Storage
from ..model.changes import Container, Stored, StoredRow
from ..model.destinations import REPLY_TOPIC, USER
from ..model.message import Message
from ..model.policy import Policy
from ..model.trie import NameTree

KIND = "log"
"""The kind of its container in the store."""

# What an entry costs in memory beside its message.
_ENTRY = 32
# Seconds between two looks for what is too old.
_PAUSE = 1.0
# Behind a kill, numbers go on so far ahead at least.
_AHEAD = 1_000_000
# Bytes that a topic with a stream costs beside its messages.
_EMPTY = 2_048
# Readers of the store at a time.
_MOST_READING = 4
# Headers that the broker writes: those of a sender would be taken for them.
_OURS = frozenset({"gap", "first-seq"})


class StreamEntry(NamedTuple):
    """A message of a stream."""

    number: int  # of the broker, and of the row in the store
    stream: Stream
    size: int  # bytes in memory; 0: it is there no longer
    message: Message | None  # None: it is in the store alone, or nowhere
    sender: str  # id of the session that sent it; empty: the broker, or it is to be read


class Stream:
    """The stream of one topic.

    Attributes:
        lost: the number of the last message that is, or may be, there no longer; 0: all are.
    """

    def __init__(self, streams: Streams, context: Context, name: str, policy: Policy) -> None:
        self.name = name  # of the topic
        # The time, in microseconds: so no number is used again, although a stream was forgotten.
        self.next = int(context.scheduler.epoch() * 1e6)  # the seq of the next message
        self.nbytes = 0  # bytes that its messages would cost in memory
        self.memory = 0  # bytes that it costs there
        self.is_listed = False  # it stands among the streams that may have to drop their first message
        self._streams = streams
        self._context = context
        limits = context.work_limits
        self._most_tail, self._most_tail_bytes = limits.tail_messages, limits.tail_bytes
        self._slack, self._most_drops = limits.stream_slack, limits.stream_drops
        self._most = policy.log_messages
        self._most_bytes = policy.log_bytes or (0 if policy.log_messages else limits.stream_bytes)
        self._age = policy.log_age
        self._time_to_live = policy.time_to_live
        self.is_stored = context.storage is not None and policy.durable is not False  # it outlives the process
        self.lost = streams.forgotten if self.is_stored else max(streams.forgotten, streams.started)
        self._container = 0
        self._has_missed = False  # no policy kept it for a while
        self._date: Timer | None = None
        # The first `_start` entries have gone; of the tail, the first `_tail_start`.
        self._numbers, self._seqs, self._sizes = array("q"), array("q"), array("q")
        self._dates = array("d")
        self._start = 0
        self._tail: list[tuple[Message, str]] = []
        self._tail_start = 0

    def __len__(self) -> int:
        """Messages that are there."""
        return len(self._numbers) - self._start

    @property
    def first_number(self) -> int:
        """The number of the first message, of which there is one."""
        return self._numbers[self._start]

    @property
    def first(self) -> int:
        """The seq of the first message that is there, or of the next one."""
        return self._seqs[self._start] if len(self) else self.next

    @property
    def has_container(self) -> bool:
        """True if it has a container in the store."""
        return self._container > 0

    # messages come

    def add(self, message: Message, sender: str) -> Message:
        """Number a message and keep it; returns the one that subscribers get."""
        seq, now = self.next, self._streams.now()
        numbered = Message(message.number, _with_seq(message.head, seq), message.body, message.options)
        numbered.expires, numbered.at = message.expires, message.at
        if self._time_to_live and not message.expires:
            numbered.expires = self._context.scheduler.clock() + self._time_to_live
        size = numbered.size
        if self.is_stored:
            # By `before`, the first row that is left tells a restart which message is the last that is gone.
            before = self._numbers[-1] if len(self) else self.lost
            self._store(numbered, {"seq": seq, "at": round(now * 1000), "before": before, "sender": sender})
        self._note(message.number, seq, size, now)
        self._tail.append((numbered, sender))
        self._spend(size)
        self._cut_tail()
        self._trim()
        self._streams.make_room()
        return numbered

    def remember(self) -> None:
        """Give the stream a container in the store, if it has none."""
        if self.is_stored and not self._container:
            self._container = self._storage.place(KIND, self.name, self._facts)

    def _store(self, message: Message, extra: dict[str, object]) -> None:
        self.remember()
        kept = Message(message.number, message.head, message.body, message.options)
        kept.expires = message.expires
        self._storage.enter(self._container, kept, row=message.number, extra=extra)

    def _note(self, number: int, seq: int, size: int, at: float) -> None:
        if not len(self):
            self._streams.begun(self, number)
        self._numbers.append(number)
        self._seqs.append(seq)
        self._sizes.append(size)
        self._dates.append(max(at, self._dates[-1]) if self._dates else at)  # the system's clock may be set back
        self.next = seq + 1
        self.nbytes += size
        self._spend(_ENTRY, is_index=self.is_stored)
        if self._age and self._date is None:
            self._look_at(at + self._age)

    def _spend(self, nbytes: int, *, is_index: bool = False) -> None:
        self.memory += nbytes
        if is_index:
            self._streams.index += nbytes
        else:
            self._streams.nbytes += nbytes
        if nbytes > 0:
            self._context.memory.keep(nbytes)
        else:
            self._context.memory.release(-nbytes)

    # messages go

    def _trim(self) -> None:
        """Keep the bounds; a stream that got narrower ones does so in several turns."""
        if self._has_too_many():
            self._context.scheduler.run(self._drop_first_ones())
        else:
            self._tidy()

    def _has_too_many(self) -> bool:
        return len(self) > 0 and (0 < self._most < len(self) or 0 < self._most_bytes < self.nbytes)

    def _drop_first_ones(self) -> Iterator[None]:
        drops = 0
        while self._has_too_many():
            if drops == self._most_drops:
                drops = 0
                self.compact()
                yield
            drops += 1
            self.drop_first()
        self._tidy()

    def _tidy(self) -> None:
        self.compact()
        if not len(self):
            self._streams.emptied(self)

    def _cut_tail(self) -> None:
        """Drop old messages from memory that the store has, too."""
        if not self.is_stored:
            return
        while (
            len(self._tail) - self._tail_start > self._most_tail
            or self.memory - _ENTRY * len(self) > self._most_tail_bytes
            or (self._streams.nbytes > self._streams.most_bytes and self._tail_start < len(self._tail))
        ):
            self._drop_first_of_tail()

    def _drop_first_of_tail(self) -> None:
        message, _ = self._tail[self._tail_start]
        self._tail[self._tail_start] = _NOTHING
        self._tail_start += 1
        self._spend(-message.size)

    def drop_first(self) -> None:
        """The first message goes."""
        start = self._start
        self.lost = self._numbers[start]
        self.nbytes -= self._sizes[start]
        # The tail is the end of the stream: it has the first message only if it has all.
        if len(self) == len(self._tail) - self._tail_start:
            self._drop_first_of_tail()
        self._start += 1
        self._spend(-_ENTRY, is_index=self.is_stored)
        if self.is_stored:
            self._storage.leave_row(self.lost)
            # No row is left that would tell what was lost.
            if not len(self):
                self._describe()

    def compact(self) -> None:
        """Cut off what has gone."""
        if self._start > self._slack and self._start > len(self):
            for each in (self._numbers, self._seqs, self._sizes, self._dates):
                del each[: self._start]
            self._start = 0
        if self._tail_start > self._slack and 2 * self._tail_start > len(self._tail):
            del self._tail[: self._tail_start]
            self._tail_start = 0

    def _look_at(self, moment: float) -> None:
        """Look for what is too old at that time, in seconds since the epoch, or a little later."""
        scheduler = self._context.scheduler
        due = scheduler.clock() + max(moment - self._streams.now(), _PAUSE)
        self._date = scheduler.at(due, lambda: scheduler.run(self._sweep()))

    def _sweep(self) -> Iterator[None]:
        # Many streams may be due at one moment: each has turns of its own, also for its first slice.
        yield
        # A message that comes between two slices, or after a fault in one, sets a timer of its own.
        self._date = None
        drops = 0
        while len(self) and self._dates[self._start] <= self._streams.now() - self._age:
            self.drop_first()
            drops += 1
            if drops == self._most_drops:
                drops = 0
                self.compact()
                yield
        if len(self) and self._date is None:
            self._look_at(self._dates[self._start] + self._age)
        self._tidy()

    # messages are read

    def behind(self, number: int) -> StreamEntry | None:
        """The first message behind that number."""
        index = bisect_right(self._numbers, number, self._start)
        return None if index == len(self._numbers) else self._entry(index)

    def newest(self, skip: int) -> Iterator[tuple[StreamEntry, float]]:
        """The messages and their dates, in seconds since the epoch, the newest first, without so many."""
        for index in range(len(self._numbers) - 1 - skip, self._start - 1, -1):
            yield self._entry(index), self._dates[index]

    def _entry(self, index: int) -> StreamEntry:
        # Those that are in memory are the last.
        in_tail = index - len(self._numbers) + len(self._tail)
        message, sender = self._tail[in_tail] if in_tail >= self._tail_start else (None, "")
        return StreamEntry(self._numbers[index], self, self._sizes[index], message, sender)

    def count_behind(self, number: int) -> int:
        """The number of messages behind that number."""
        return len(self._numbers) - bisect_right(self._numbers, number, self._start)

    def before_seq(self, seq: int) -> int:
        """The number before the first message with at least that seq."""
        return self._before(bisect_left(self._seqs, seq, self._start))

    def before_time(self, moment: float) -> int:
        """The number before the first message of that time, in seconds since the epoch, or later."""
        return self._before(bisect_left(self._dates, moment, self._start))

    def has_lost_since(self, moment: float) -> bool:
        """True if messages of that time, in seconds since the epoch, or later may be gone."""
        return self.lost > 0 and (not len(self) or moment < self._dates[self._start])

    def before_last(self) -> int:
        """The number before the last message; there is one."""
        return self._numbers[-1] - 1

    def _before(self, index: int) -> int:
        return self._numbers[index] - 1 if index < len(self._numbers) else self._context.last_number

    # the store

    @property
    def _storage(self) -> Storage:
        storage = self._context.storage
        assert storage is not None  # the stream is stored
        return storage

    @property
    def _facts(self) -> str:
        return json.dumps({"next": self.next, "lost": self.lost})

    def _describe(self) -> None:
        self._storage.describe(Container(self._container, KIND, self.name, self._facts))

    def recover(self, container: Container) -> None:
        """Take over the facts that the store has of it; its rows follow."""
        self._container = container.number
        facts = json.loads(container.facts)
        self.lost, self.next = facts["lost"], facts["next"]
        self._has_missed = "missed" in facts

    def recover_row(self, row: StoredRow) -> None:
        """Take over one of its rows; they come in order."""
        extra: dict[str, Any] = json.loads(row.facts or "{}")["extra"]
        if not len(self):
            self.lost = extra["before"]
        next_one = self.next
        self._note(row.row, extra["seq"], row.size, extra["at"] / 1000)
        self.next = max(self.next, next_one)

    def recovered(self, *, clean: bool) -> None:
        """Go on with all rows; `clean`: the last process told all it knew before it ended."""
        if not clean or self._has_missed:
            self._has_missed = False
            # Clients may have seen messages that were never written.
            self.next = max(self.next + _AHEAD, int(self._context.scheduler.epoch() * 1e6))
            self._describe()
        self._trim()
        self._streams.make_room()

    def clear(self) -> None:
        """Drop all messages."""
        while len(self):
            self.drop_first()
        self.compact()

    def end(self) -> None:
        """Forget the stream, which is empty."""
        self._context.scheduler.cancel(self._date)
        if self._container:
            self._storage.drop(self._container)


_NOTHING = (Message(0, Head.of("SEND", {}), b""), "")


def _with_seq(head: Head, seq: int) -> Head:
    headers = {**head.headers, "seq": str(seq)}
    for name in _OURS & headers.keys():
        del headers[name]
    numbered = Head.of(head.command, headers)
    numbered.derived = seq
    return numbered


class Streams:
    """The streams of all topics."""

    def __init__(self, context: Context) -> None:
        self.nbytes = 0  # bytes that their messages in memory cost
        self.index = 0  # bytes that the knowledge of those in the store costs
        self.forgotten = 0  # of a stream that is not known, messages up to that number may be lost
        self.started = 0  # of a stream in memory, messages up to that number are lost: the last process had them
        self.unused: list[str] = []  # names of streams that the store holds, and that no policy keeps there any more
        self.most_bytes = context.quotas.memory_limit // 4  # that each of these two may be
        self._context = context
        self._limits = context.work_limits
        self._streams: NameTree[Stream] = NameTree()
        self._resting: OrderedDict[str, Stream] = OrderedDict()
        self._container = 0  # in the store, for what was forgotten
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
        if not policy.keeps_stream or name.startswith(REPLY_TOPIC):
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
        # By a clock that was set anew, messages would go too early or too late (`log_age`).
        if self._offset is None:
            self._offset = scheduler.epoch() - scheduler.clock()
        return scheduler.clock() + self._offset

    def begun(self, stream: Stream, number: int) -> None:
        """List a stream that has its first message, with that number."""
        if stream.is_listed:
            return
        heads = self._in_store if stream.is_stored else self._in_memory
        if len(heads) > 2 * len(self._streams) + self._limits.stream_slack:
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
        """Let the topic of an empty stream go, if it has no subscribers."""
        topic = self._context.destinations.find(stream.name)
        if topic is not None:
            self._context.destinations.forget_if_idle(topic)

    def rest(self, stream: Stream) -> None:
        """Remember for a while what an empty stream has lost, whose topic goes."""
        self._context.memory.release(_EMPTY)
        # What is known of it is no more than what is assumed of a stream that is not known.
        if stream.lost <= self.forgotten and not stream.has_container:
            self._forget(stream)
            return
        self._resting[stream.name] = stream
        if len(self._resting) > self._limits.resting_streams:
            _, oldest = self._resting.popitem(last=False)
            self.forget_up_to(oldest.lost)
            self._forget(oldest)

    def forget_up_to(self, number: int) -> None:
        """Of streams that are not known any more, messages up to that number may be lost."""
        # One number for all of them: a client that comes back to one is told of a gap, though there may be none.
        if number <= self.forgotten:
            return
        self.forgotten = number
        storage, facts = self._context.storage, json.dumps({"forgotten": number})
        if storage is None:
            return
        if self._container:
            storage.describe(Container(self._container, KIND, "", facts))
        else:
            self._container = storage.place(KIND, "", facts)

    def lost_of(self, pattern: str) -> int:
        """Messages up to that number may be lost, of streams that a pattern matches and that are not known any more."""
        in_memory = self._context.policies.may_keep_stream_in_memory(pattern)
        return max(self.forgotten, self.started) if in_memory else self.forgotten

    def leave_unused(self, container: Container) -> None:
        """Leave a stream in the store, and note that messages which come meanwhile are not in it."""
        self.unused.append(container.name)
        storage = self._context.storage
        assert storage is not None  # it holds the stream
        storage.describe(container._replace(facts=json.dumps(json.loads(container.facts) | {"missed": True})))

    def restore(self, container: Container) -> None:
        """Take over what the store has of streams that were forgotten."""
        self._container = container.number
        self.forgotten = json.loads(container.facts)["forgotten"]

    def forget_user(self, user: str) -> None:
        """Drop the streams of user destinations of a user without a login, which has gone and cannot come back."""
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

    def each(self, text: str) -> Iterator[Stream]:
        """The same, over many turns, in no order; streams that come meanwhile may be left out."""
        return self._streams.each(text)

    # reading

    def read(self, reader: object, rows: Sequence[int], action: Callable[[list[Stored]], None]) -> None:
        """Read rows back, when it is the reader's turn; what waits of the same reader is dropped."""
        self._waiting[reader] = (rows, action)
        self._read_on()

    def do_not_read(self, reader: object) -> None:
        """Drop what a reader waits for."""
        self._waiting.pop(reader, None)

    def _read_on(self) -> None:
        storage = self._context.storage
        # Commits must not wait for very many reads.
        while self._waiting and self._reading < _MOST_READING:
            assert storage is not None  # messages are there
            rows, action = self._waiting.pop(next(iter(self._waiting)))
            self._reading += 1
            storage.read(rows, partial(self._read, action))

    def _read(self, action: Callable[[list[Stored]], None], found: list[Stored]) -> None:
        self._reading -= 1
        action(found)
        self._read_on()


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
