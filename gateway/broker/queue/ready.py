"""A lane: the messages of a queue that wait for certain consumers, in the order in which they are due.

A queue has one lane for all that waits, and one more for each selector of its consumers.  A message stands in every
lane that may want it; whoever takes it clears `Message.waits`, and the other lanes pass over it when they come to it.
So taking a message costs the same however many lanes and messages there are.

A selector is asked when a message comes to the front of its lane, once: what it does not want leaves the lane for good.
That is why a selective consumer on a deep queue does not scan it again for each message.  Neighbours that share their
head are asked about together.  A long run of unwanted messages is cut into turns: `first` gives up for the moment and
says so in `tired`.

Due are, in this order: higher priority first, then the order of arrival.  New messages nearly always belong to the end,
which is a deque; those that come back, or have a higher priority than the last one, go into a heap.

The oldest.  New messages in the deque stand there in the order of arrival, whatever their priorities; and one in the
heap came behind one in the deque that is due later.  So the first of the deque is the oldest, unless somebody took
another one out of turn (a selector, an operator, its expiry), or an older one came back.  What came back is remembered
by its number where there are several priorities; where there is one, the first of the heap is the oldest of these.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import islice

from gateway.codec import Head

from ..core.lazy_heap import LazyHeap
from ..model.message import Message
from ..model.options import Selector

# Messages that a selector is asked about in one turn: about 2 ms.
READS_PER_TURN = 3_000
# Bytes of headers, times characters of the selector, that cost about as much as to look at a message at all.
_SCANNED_PER_READ = 8_192
# Messages whose places are copied while one is looked at.
_COPIED_PER_READ = 25
# Places out of order that are looked at for the oldest message.
_LOOKS = 100


class ReadyList:
    """Messages that wait.

    Attributes:
        selector: takes what belongs here; None: all.
        weight: characters of the selector.
        tired: the last `first` gave up; asking again goes on.
    """

    __slots__ = ("_late", "_others", "_spent", "_tail", "_wanted", "_wanted_other", "selector", "tired", "weight")

    def __init__(self, selector: Selector | None = None, weight: int = 0) -> None:
        self.selector = selector
        self.weight = weight
        self.tired = False
        self._tail: deque[Message] = deque()
        self._others: list[tuple[int, int, Message]] = []
        # Those that are older than what stands before them, perhaps; None as long as there was one priority.
        self._late: LazyHeap | None = None
        # The first of each, once the selector took it.
        self._wanted: Message | None = None
        self._wanted_other: Message | None = None
        # Reads that the next turn is short of.
        self._spent = 0

    def __len__(self) -> int:
        """Places taken, also by messages that wait no longer."""
        return len(self._tail) + len(self._others)

    def __iter__(self) -> Iterator[Message]:
        """Those in order, then the others, also such as wait no longer."""
        yield from self._tail
        for _, _, message in self._others:
            yield message

    def is_behind(self, message: Message) -> bool:
        """Whether a message would stand behind all others that came in order."""
        return not self._tail or (self._tail[-1].rank, self._tail[-1].place) < (message.rank, message.place)

    def copy(self, selector: Selector | None = None, weight: int = 0) -> ReadyList:
        """The same messages for others."""
        copy = ReadyList(selector, weight)
        # As they are, also those that wait no longer: of a million this takes 20 ms, and a loop would take 100.
        copy._tail = self._tail.copy()
        copy._others = self._others.copy()
        copy._spent = len(self) // _COPIED_PER_READ
        return copy

    def add(self, message: Message) -> None:
        """A message that waits now.  One that the selector does not want may be added, too."""
        tail = self._tail
        last = tail[-1] if tail else None
        if last is None or (last.rank == message.rank and last.place < message.place):
            tail.append(message)
            return
        others = self._others
        if last.rank < message.rank:
            tail.append(message)
        else:
            heapq.heappush(others, (message.rank, message.place, message))
        is_mixed = last.rank != message.rank or self._late is not None or others[0][0] != message.rank
        if is_mixed and (message.attempts or message.number < last.number):
            self._remember(message)

    def _remember(self, message: Message) -> None:
        """One that may be older than what stands before it."""
        if self._late is None:
            self._late = LazyHeap()
        self._late.tidy(len(self))
        self._late.add(message.number, message)

    def first(self) -> Message | None:
        """The message that is due; None: there is none, or (`tired`) none was found so far."""
        if self.selector is not None:
            return self._first_wanted(self.selector)
        tail, others = self._tail, self._others
        while tail and not tail[0].waits:
            tail.popleft()
        if not others:
            return tail[0] if tail else None
        while others and not others[0][2].waits:
            heapq.heappop(others)
        return self._earlier()

    def _first_wanted(self, selector: Selector) -> Message | None:
        left, self._spent = READS_PER_TURN - self._spent, 0
        self.tired = False
        left = self._read_others(selector, left)
        if self.tired:
            return None
        self._read_tail(selector, left)
        if self.tired:
            # What stands in the heap may be due before all that is left to read.
            tail, others = self._tail, self._others
            return others[0][2] if others and others[0][2].order < tail[0].order else None
        return self._earlier()

    def _read_others(self, selector: Selector, left: int) -> int:
        """Remove from the heap what is not wanted, up to the first that is; the reads that are left."""
        others = self._others
        while others:
            message = others[0][2]
            if message.waits:
                if message is self._wanted_other:
                    break
                if left <= 0:
                    self.tired = True
                    break
                left -= 1 + message.head.cost * self.weight // _SCANNED_PER_READ
                if selector(message.head.headers):
                    self._wanted_other = message
                    break
            heapq.heappop(others)
        return left

    def _read_tail(self, selector: Selector, left: int) -> None:
        """Likewise from the deque.  Each step counts: who comes to 100,000 messages waits for as many."""
        tail, weight = self._tail, self.weight
        if tail and tail[0] is self._wanted and self._wanted.waits:
            return
        leave = tail.popleft
        light = _SCANNED_PER_READ // (weight or 1)
        unwanted: Head | None = None
        while tail and left > 0:
            message = leave()
            if not message.waits:
                continue
            left -= 1
            head = message.head
            if head is unwanted:
                continue
            if head.cost >= light:
                left -= head.cost * weight // _SCANNED_PER_READ
            if selector(head.headers):
                self._wanted = message
                tail.appendleft(message)
                return
            unwanted = head
        while tail and not tail[0].waits:
            leave()
        self.tired = bool(tail)

    def _earlier(self) -> Message | None:
        """The first of both."""
        tail, others = self._tail, self._others
        if others and (not tail or (others[0][0], others[0][1]) <= (tail[0].rank, tail[0].place)):
            return others[0][2]
        return tail[0] if tail else None

    def pop(self) -> None:
        """Remove what `first` just gave."""
        tail, others = self._tail, self._others
        if others and self._earlier() is others[0][2]:
            heapq.heappop(others)
            self._wanted_other = None
        else:
            tail.popleft()
            self._wanted = None

    def shed(self) -> None:
        """Forget those at the front that wait no longer: where all go in order, nobody needs to look at the others."""
        while self._tail and not self._tail[0].waits:
            self._tail.popleft()
        while self._others and not self._others[0][2].waits:
            heapq.heappop(self._others)

    def oldest(self) -> Message | None:
        """The message that came first, of those that wait; nearly always, see above."""
        if self._tail and self._tail[0].waits and not self._others and self._late is None:
            return self._tail[0]  # of all queues this is asked at each scrape, and nearly all are like that
        self.shed()
        found = [message for _, _, message in islice(self._others, _LOOKS) if message.waits]
        if self._tail:
            found.append(self._tail[0])
        if self._late is not None and (late := self._late.first()) is not None:
            found.append(late[1])
        return min(found, default=None)

    def compact(self) -> None:
        """Forget those that wait no longer."""
        self._tail = deque([message for message in self._tail if message.waits])
        self._others = [entry for entry in dict.fromkeys(self._others) if entry[2].waits]
        heapq.heapify(self._others)
        self._wanted = self._wanted_other = None
        if self._late is not None:
            late, self._late = self._late, LazyHeap()
            for message in dict.fromkeys([message for _, _, message in late.heap if message.waits]):
                self._late.add(message.number, message)

    def messages(self) -> list[Message]:
        """All that wait, in the order in which they are due; each once."""
        waiting = [message for message in self._tail if message.waits]
        if self._others:
            waiting += [message for _, _, message in self._others if message.waits]
            waiting = sorted(dict.fromkeys(waiting), key=lambda message: message.order)
        return waiting
