"""Ready list: the messages of a queue that wait for certain consumers, in the order in which they are due.

A queue has one ready list for all messages that wait, and one more for each selector of its consumers.  A message
stands in every list with consumers that may want it.  Taking it clears `Message.waits`, and the other lists pass over
it when it comes to their front.  So taking a message costs the same however many lists and messages there are.

A selector is asked when a message comes to the front of its list, once: an unwanted message leaves the list for good,
and a selective consumer does not scan a deep queue again for each message.  A long run of unwanted messages is cut into
turns: `first` gives up for the moment and says so in `tired`.

Due are, in this order: higher priority first, then the order of arrival.  New messages nearly always belong to the end,
which is a deque; those that come back, or have a higher priority than the last one, go into a heap.

The first of the deque is the oldest message, unless another one was taken out of turn (by a selector, an operator, its
expiry), or an older one came back.  Messages that came back are remembered by their numbers where there are several
priorities; where there is one, the first of the heap is the oldest of these.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import islice

from gateway.codec import Head

from ..core.lazy_heap import LazyHeap
from ..core.work_limits import WORK_LIMITS
from ..model.message import Message
from ..model.options import Selector

# Bytes of headers, times characters of the selector, that cost about as much as to look at a message at all.
_SCANNED_PER_READ = 8_192
_COPIED_PER_READ = 25  # places that are copied in the time of one read
_LOOKS = 100  # places out of order that are looked at for the oldest message


class ReadyList:
    """Messages that wait.

    Attributes:
        selector: takes the messages that belong here; None: all.
        weight: characters of the selector.
        tired: the last `first` gave up; asking again goes on.

    Args:
        most_reads: messages that the selector is asked about in one turn.
    """

    __slots__ = (
        *("_late", "_most_reads", "_others", "_spent", "_tail", "_wanted", "_wanted_other"),
        *("selector", "tired", "weight"),
    )

    def __init__(
        self, selector: Selector | None = None, weight: int = 0, most_reads: int = WORK_LIMITS.selector_reads
    ) -> None:
        self.selector = selector
        self.weight = weight
        self.tired = False
        self._tail: deque[Message] = deque()
        self._others: list[tuple[int, int, Message]] = []
        # Messages that may be older than those before them; None as long as there was one priority.
        self._late: LazyHeap | None = None
        # The first of each, once the selector took it: it is not asked twice about one message.
        self._wanted: Message | None = None
        self._wanted_other: Message | None = None
        # Reads that the next turn has less, for the work that `copy` was.
        self._spent = 0
        self._most_reads = most_reads

    def __len__(self) -> int:
        """Places taken, also by messages that wait no longer."""
        return len(self._tail) + len(self._others)

    def __iter__(self) -> Iterator[Message]:
        """The messages of the deque, then those of the heap; some may wait no longer."""
        yield from self._tail
        for _, _, message in self._others:
            yield message

    def is_behind(self, message: Message) -> bool:
        """True if a message would stand behind all others that came in order."""
        return not self._tail or (self._tail[-1].rank, self._tail[-1].place) < (message.rank, message.place)

    def copy(self, selector: Selector | None = None, weight: int = 0) -> ReadyList:
        """A list of the same messages, for the consumers of another selector."""
        copy = ReadyList(selector, weight, self._most_reads)
        # As they are, also those that wait no longer: of a million this takes 20 ms, and a loop would take 100.
        copy._tail = self._tail.copy()
        copy._others = self._others.copy()
        copy._spent = len(self) // _COPIED_PER_READ
        return copy

    def add(self, message: Message) -> None:
        """Add a message that waits now, also one that the selector may not want."""
        tail = self._tail
        last = tail[-1] if tail else None
        # The usual case.  The deque is sorted by (rank, place), so that its first is always due before the rest.
        if last is None or (last.rank == message.rank and last.place < message.place):
            tail.append(message)
            return
        others = self._others
        # A lower priority than that of the last message: it is due behind all of the deque.
        if last.rank < message.rank:
            tail.append(message)
        else:
            heapq.heappush(others, (message.rank, message.place, message))
        # With one priority the fronts of deque and heap are the oldest, and nothing needs to be remembered.
        is_mixed = last.rank != message.rank or self._late is not None or others[0][0] != message.rank
        if is_mixed and (message.attempts or message.number < last.number):
            if self._late is None:
                self._late = LazyHeap()
            # Its entries of messages that have gone are bounded by the places here.
            self._late.tidy(len(self))
            self._late.add(message.number, message)

    def first(self) -> Message | None:
        """The message that is due; None: there is none, or (`tired`) none was found so far."""
        if self.selector is not None:
            return self._first_wanted(self.selector)
        tail, others = self._tail, self._others
        # Another list gave these out, or they were removed: their places are void.
        while tail and not tail[0].waits:
            tail.popleft()
        if not others:
            return tail[0] if tail else None
        while others and not others[0][2].waits:
            heapq.heappop(others)
        return self._earlier()

    def _first_wanted(self, selector: Selector) -> Message | None:
        # Both parts share one budget of reads, so that a turn is bounded however they are filled.
        left, self._spent = self._most_reads - self._spent, 0
        self.tired = False
        left = self._read_others(selector, left)
        if self.tired:
            return None
        # The heap first: its first wanted message is known before the two are compared.
        self._read_tail(selector, left)
        if self.tired:
            # What stands in the heap may be due before all that is left to read.
            tail, others = self._tail, self._others
            return others[0][2] if others and others[0][2].order < tail[0].order else None
        return self._earlier()

    def _read_others(self, selector: Selector, left: int) -> int:
        """Remove unwanted messages from the heap, up to the first wanted one; returns the reads that are left."""
        others = self._others
        while others:
            message = others[0][2]
            if message.waits:
                # The selector took it already, in an earlier call.
                if message is self._wanted_other:
                    break
                if left <= 0:
                    self.tired = True
                    break
                # A long selector on many headers costs as much as several reads.
                left -= 1 + message.head.cost * self.weight // _SCANNED_PER_READ
                if selector(message.head.headers):
                    self._wanted_other = message
                    break
            heapq.heappop(others)
        return left

    def _read_tail(self, selector: Selector, left: int) -> None:
        """Remove unwanted messages from the deque, up to the first wanted one.

        Each step of the loop counts: a consumer that joins a queue of 100,000 messages waits for as many of them.
        """
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
            # A selector sees headers alone: messages that share one head get one answer.
            if head is unwanted:
                continue
            if head.cost >= light:
                left -= head.cost * weight // _SCANNED_PER_READ
            if selector(head.headers):
                self._wanted = message
                # It stays until `pop`: `first` only tells it.
                tail.appendleft(message)
                return
            unwanted = head
        # The turn is over; the list is `tired` only if a message is left that waits.
        while tail and not tail[0].waits:
            leave()
        self.tired = bool(tail)

    def _earlier(self) -> Message | None:
        """The message that is due first, of the deque and the heap."""
        tail, others = self._tail, self._others
        # Equal places: the copy in the heap is the same message, which came back, and goes first.
        if others and (not tail or (others[0][0], others[0][1]) <= (tail[0].rank, tail[0].place)):
            return others[0][2]
        return tail[0] if tail else None

    def pop(self) -> None:
        """Remove the message that `first` just gave."""
        tail, others = self._tail, self._others
        if others and self._earlier() is others[0][2]:
            heapq.heappop(others)
            self._wanted_other = None
        else:
            tail.popleft()
            self._wanted = None

    def shed(self) -> None:
        """Forget the messages at the front that wait no longer: where all go in order, there are no others."""
        while self._tail and not self._tail[0].waits:
            self._tail.popleft()
        while self._others and not self._others[0][2].waits:
            heapq.heappop(self._others)

    def oldest(self) -> Message | None:
        """The message that came first, of those that wait; the module tells when it may be another."""
        if self._tail and self._tail[0].waits and not self._others and self._late is None:
            return self._tail[0]  # each scrape of the metrics asks all queues, and nearly all are like that
        self.shed()
        found = [message for _, _, message in islice(self._others, _LOOKS) if message.waits]
        if self._tail:
            found.append(self._tail[0])
        if self._late is not None and (late := self._late.first()) is not None:
            found.append(late[1])
        return min(found, default=None)

    def compact(self) -> None:
        """Forget the messages that wait no longer."""
        self._tail = deque([message for message in self._tail if message.waits])
        # A message that left and came back may have two places; one is enough.
        self._others = [entry for entry in dict.fromkeys(self._others) if entry[2].waits]
        heapq.heapify(self._others)
        # The first of each may be another one now, about which the selector was not asked.
        self._wanted = self._wanted_other = None
        if self._late is not None:
            late, self._late = self._late, LazyHeap()
            for message in dict.fromkeys([message for _, _, message in late.heap if message.waits]):
                self._late.add(message.number, message)

    def messages(self) -> list[Message]:
        """All messages that wait, in the order in which they are due; each once."""
        waiting = [message for message in self._tail if message.waits]
        if self._others:
            waiting += [message for _, _, message in self._others if message.waits]
            waiting = sorted(dict.fromkeys(waiting), key=lambda message: message.order)
        return waiting
