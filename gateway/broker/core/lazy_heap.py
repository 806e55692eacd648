"""Heap of messages with lazy deletion: a message that waits no longer is passed over when it comes to the front."""

import heapq

from ..model.message import Message

# Entries that may belong to messages that have gone, beside twice as many as wait.
_SLACK = 8


class LazyHeap:
    """Waiting messages by a key of theirs, the lowest first."""

    __slots__ = ("heap",)

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Message]] = []

    def add(self, key: float, message: Message) -> None:
        """Add a message that waits."""
        # Of equal keys, the message that came first.
        heapq.heappush(self.heap, (key, message.number, message))

    def first(self) -> tuple[float, Message] | None:
        """The lowest key and its message; None: no message waits."""
        heap = self.heap
        while heap and not heap[0][2].waits:
            heapq.heappop(heap)
        return (heap[0][0], heap[0][2]) if heap else None

    def tidy(self, waiting: int) -> None:
        """Forget messages that wait no longer, once they are many.  `waiting`: messages that wait."""
        if len(self.heap) > 2 * waiting + _SLACK:
            self.heap = [entry for entry in self.heap if entry[2].waits]
            heapq.heapify(self.heap)
