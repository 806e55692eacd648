"""A log in memory with the verbs of the real one, which can lose answers and forget what a follower lags behind."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.cluster.log import Bounds, LogUnavailable, Message, SequenceRefused

AT_ONCE = 100


class MemoryLog:
    """A `Log`.

    `is_down`: it does not answer.  `lost_answers`: so many of the next appends happen, and say that they did not.
    `appends_left`: so many happen, and then no more; None: any number.  `lag`: so many of the last messages do not show
    when it is read.  `approached`: how often a node was about to write.
    """

    def __init__(self) -> None:
        self.messages: list[bytes] = []  # all that ever were there
        self.purged = 0
        self.is_down = False
        self.lost_answers = 0
        self.appends_left: int | None = None
        self.lag = 0
        self.approached = 0

    def approach(self) -> None:
        self._answer()
        self.approached += 1

    def append(self, data: bytes, expected: int) -> int:
        self._answer()
        if self.appends_left is not None:
            if not self.appends_left:
                raise LogUnavailable("the writer is lost")
            self.appends_left -= 1
        if expected != len(self.messages):
            raise SequenceRefused
        self.messages.append(bytes(data))
        if self.lost_answers:
            self.lost_answers -= 1
            raise LogUnavailable("no answer")
        return len(self.messages)

    def read(self, first: int) -> Sequence[Message]:
        self._answer()
        first = max(first, self.purged + 1)
        end = min(len(self.messages) - self.lag, first + AT_ONCE - 1)
        return [Message(sequence, self.messages[sequence - 1]) for sequence in range(first, end + 1)]

    def bounds(self) -> Bounds:
        self._answer()
        left = self.messages[self.purged :]
        return Bounds(self.purged + 1, len(self.messages), sum(map(len, left)))

    def purge(self, first: int) -> None:
        self._answer()
        self.purged = max(self.purged, first - 1)

    def _answer(self) -> None:
        if self.is_down:
            raise LogUnavailable("the log is down")
