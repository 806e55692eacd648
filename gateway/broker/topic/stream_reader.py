"""Stream reader: reads streams for one subscription, to their ends; then the topic serves it like any other.

    begin     the streams are looked at, in turns where there are many: which message of each is the first
    run       their messages up to that moment, page by page, as fast as the client reads
    run       the messages that came meanwhile, and so on
    welcome   nothing came meanwhile

No message is missed, doubled or out of order.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from gateway.codec import Head

from ..core.context import Context
from ..model.changes import Stored
from ..model.message import Message
from ..model.options import Origin, Start
from ..queue.subscription import ExtraHeaders, Subscription
from .offsets import Offsets
from .stream import Stream, StreamEntry, Streams
from .topic import Topic, wants

# Bytes in the outbox from which on nothing more is read; a client that follows live may have more.
_AHEAD = 256 * 1024
# Bytes that a stream costs while it is read.
_PLACE = 200
# No stream has lower numbers: they begin with the time in microseconds, and this is in 2001.
_EARLIEST = 10**15


class StreamReader:
    """The rest of the streams that a new subscriber is to get.

    `position`: the number of the last message that was given, or passed over.
    """

    def __init__(
        self, context: Context, streams: Streams, offsets: Offsets, topic: Topic, subscription: Subscription
    ) -> None:
        self.position = context.last_number
        self._offsets = offsets
        # Gaps still to be told: stream -> number of a message that is gone; None: a stream that is not known any more.
        self._gaps: dict[Stream | None, int] = {}
        self._context = context
        self._limits = context.work_limits
        self._streams = streams
        self._topic = topic
        self._subscription = subscription
        self._start: Start | None = None
        self._to_visit: Iterator[Stream] | None = None
        self._news: dict[Stream, None] = {}
        self._run = MergedStreams(self.position)
        self._page: deque[StreamEntry] = deque()
        self._kept = 0  # bytes of the messages in the page, and of the streams that are read
        self._is_reading = True  # it is not to go on before `start`, or before the store has answered

    def begin_at(self, start: Start) -> None:
        """Begin where a SUBSCRIBE says."""
        self._start = start
        self._to_visit = self._streams.each(self._topic.name)
        stream = self._topic.stream
        if stream is None:
            self.position = 0
            return
        first, has_gap = self._first_of(stream)
        if has_gap:
            self.position = stream.lost - 1  # until the message that tells of it is acknowledged, it is told again
        elif first is not None:
            self.position = first.number - 1

    def begin_behind(self, position: int) -> None:
        """Begin behind that message."""
        self.position = position
        self._to_visit = self._streams.each(self._topic.name)
        if self._topic.stream is None:  # a pattern
            lost = self._streams.lost_of(self._topic.name)
            if position < lost:
                self._gaps[None] = lost

    def start(self) -> None:
        """Give what there is, from now on: all up to the position may be seen."""
        self._is_reading = False
        self.offer()

    def note(self, stream: Stream) -> None:
        """Look at a stream that the pattern matches: it has a new message."""
        # So the other streams of the pattern, perhaps very many, need not be looked at again.
        self._news[stream] = None

    def offer(self) -> None:
        """Go on: there may be room."""
        # `_arrived` goes on, with the store's answer.
        if self._is_reading:
            return
        for _ in range(self._limits.replay_messages):
            if self._subscription.reader is not self or not self._has_room() or not (self._page or self._turn_page()):
                return
            self._give(self._page.popleft())
        self._context.scheduler.later(self.offer)

    def end(self) -> None:
        """Stop: the subscription goes, or has come to the end of the streams."""
        self._subscription.reader = None
        self._subscription.outbox.starved.pop(self, None)
        self._streams.do_not_read(self)
        self._keep(-self._kept)

    def _keep(self, nbytes: int) -> None:
        self._kept += nbytes
        if nbytes > 0:
            self._context.memory.keep(nbytes)
        else:
            self._context.memory.release(-nbytes)

    # what is next

    def _turn_page(self) -> bool:
        """Have more to give; False: there is nothing left, or it is being looked for."""
        if self._to_visit is not None and not self._visit(self._to_visit):
            return False
        entries = self._next_entries()
        if not entries:
            self._follow()
            entries = self._next_entries()
        # In the turn of the last look, so that no message can come between the two.
        if not entries:
            self._go_live()
            return False
        missing = [entry.number for entry in entries if entry.message is None and entry.size]
        if not missing:
            self._add(entries)
            return True
        self._is_reading = True
        self._streams.read(self, missing, partial(self._arrived, entries))
        return False

    def _visit(self, streams: Iterator[Stream]) -> bool:
        """Look at streams for the first time; False: another turn looks at the rest."""
        count = 0
        for stream in islice(streams, self._limits.replay_looks):
            count += 1
            first, has_gap = self._first_of(stream)
            self._run.add(first)
            if has_gap:
                self._gaps.setdefault(stream, stream.lost)
        self._keep(_PLACE * count)
        if count == self._limits.replay_looks:
            self._context.scheduler.later(self.offer)
            return False
        # Of a pattern, that is one message and not one of each topic.
        if self._start is not None and self._start.origin is Origin.LAST:
            self._run.keep_last()
        self._to_visit = None
        return True

    def _first_of(self, stream: Stream) -> tuple[StreamEntry | None, bool]:
        """The first message of a stream that is asked for; True: earlier ones were asked for, and are gone."""
        start = self._start
        if start is None:
            return stream.behind(self.position), stream.lost > self.position
        if start.origin is Origin.SEQ:
            if stream.first <= start.value <= stream.next:
                return stream.behind(stream.before_seq(start.value)), False
            # A number that is no time at all was never given: it means the first.
            return stream.behind(0), start.value >= _EARLIEST or stream.lost > 0
        if start.origin is Origin.TIME:
            return stream.behind(stream.before_time(start.value)), stream.has_lost_since(start.value)
        if start.origin is Origin.LAST:
            return (stream.behind(stream.before_last()) if len(stream) else None), False
        return stream.behind(0), False

    def _follow(self) -> None:
        """Look for messages that came meanwhile, and for those that went."""
        stream, end = self._topic.stream, self._run.end
        streams: Iterable[Stream] = self._news if stream is None else (stream,)
        # What the topic, or the pattern, has not shown comes live, or when it may be seen.
        unseen = self._topic.first_unseen
        self._run = MergedStreams(unseen - 1 if unseen else self._context.last_number)
        self._news = {each: None for each in self._news if unseen and each.count_behind(unseen - 1)}
        self.position = max(self.position, end)
        for stream in streams:
            if stream.lost > end:
                self._gaps.setdefault(stream, stream.lost)
            self._run.add(stream.behind(end))

    def _next_entries(self) -> list[StreamEntry]:
        entries: list[StreamEntry] = []
        most, nbytes = self._limits.replay_messages, self._limits.replay_bytes
        while len(entries) < most and nbytes > 0 and (entry := self._run.next()) is not None:
            entries.append(entry)
            nbytes -= entry.size
        return entries

    def _arrived(self, entries: list[StreamEntry], found: list[Stored]) -> None:
        """Take the messages that were read; some may be gone."""
        self._is_reading = False
        if self._subscription.reader is not self:
            return
        storage = self._context.storage
        assert storage is not None  # they come from there
        read = {stored.row.row: storage.facts.read(stored) for stored in found}
        for index, entry in enumerate(entries):
            if entry.number in read:
                message, extra = read[entry.number]
                # The row is the stream's: an ACK of this subscriber must not remove it.
                message.row = 0
                message.head.derived = extra["seq"]
                entries[index] = entry._replace(message=message, sender=extra["sender"])
        self._add(entries)
        self.offer()

    def _add(self, entries: list[StreamEntry]) -> None:
        self._page.extend(entries)
        self._keep(sum([entry.size for entry in entries]))

    # giving it

    def _has_room(self) -> bool:
        subscription = self._subscription
        outbox, queue = subscription.outbox, subscription.queue
        if outbox.closed or (queue is not None and queue.waiting):
            return False  # the subscription asks again when it has room; meanwhile its queue does not grow
        if outbox.size >= min(subscription.window, _AHEAD):
            outbox.starved[self] = None
            return False
        return True

    def _give(self, entry: StreamEntry) -> None:
        # Also of what is passed over below: a client that resumes need not look at it again.
        self.position = entry.number
        self._keep(-entry.size)
        message, subscription = entry.message, self._subscription
        # It went before the reader came to it.
        if message is None:
            self._gaps.setdefault(entry.stream, entry.number)
            return
        # Most messages never expire, and need no look at the clock.
        if message.expires and message.has_expired(self._context.scheduler.clock()):
            return
        if not wants(subscription, message, entry.sender):
            return
        found = [stream for stream in (entry.stream, None) if stream in self._gaps]
        if found:
            self._tell(message, found)
            subscription.extra_headers = subscription.extra_headers or ExtraHeaders([], numbered=True)
            subscription.extra_headers.tell_gap(message, int(message.head.headers["seq"]))
        message.at = 0  # it did not wait for this subscriber all the time
        self._topic.give(subscription, message)

    def _tell(self, message: Message, streams: Iterable[Stream | None]) -> None:
        """A message tells of a gap in these streams; until it is acknowledged, the client is told again."""
        lost = min([self._gaps.pop(stream) for stream in streams])
        offset = self._offsets.of(self._subscription)
        if offset is not None:
            offset.gaps[message.number] = lost

    def _go_live(self) -> None:
        """Have the topic serve the subscription from now on."""
        self.end()
        for stream in list(self._gaps):
            notice = self._notice(stream)
            self._tell(notice, [stream])
            self._topic.give(self._subscription, notice)
        # Without header lines of its own it is served by the topic's fast loop.
        if not self._subscription.extra_headers:
            self._subscription.extra_headers = None
        self._topic.welcome(self._subscription)

    def _notice(self, stream: Stream | None) -> Message:
        """A MESSAGE that tells of a gap, where there is no other."""
        headers = {"destination": self._subscription.destination, "gap": "true"}
        if stream is not None and stream is not self._topic.stream:
            headers["destination"] = stream.name
        if stream is not None:
            headers["first-seq"] = str(stream.first)
        return Message(self._context.next_number(), Head.of("MESSAGE", headers), b"")


class MergedStreams:
    """The messages of several streams, up to the number `end`, in the order in which they came."""

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
        # The stream may have dropped that message meanwhile: `entry` is a later one then.
        entry, following = stream.behind(number - 1), stream.behind(number)
        if following is None or following.number > self.end:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (following.number, stream))
        return entry if entry is not None and entry.number == number else StreamEntry(number, stream, 0, None, "")
