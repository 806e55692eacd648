"""Header lines that one subscription alone gets with its messages: numbers under names that it chose, and gaps.

A MESSAGE is encoded once for all its receivers, so what one of them asked for stands before that, in its prefix.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.message import Message


def gap(first: int) -> bytes:
    """What tells a client that messages before that seq are gone."""
    return b"gap:true\nfirst-seq:%d\n" % first


class ExtraHeaders:
    """The lines of one subscription.

    Args:
        names: of headers that tell each message's number.
        numbered: the numbers are those of a log; else of a queue.
    """

    __slots__ = ("_gaps", "_names", "_numbered")

    def __init__(self, names: Iterable[str], *, numbered: bool) -> None:
        every = {"seq"} if numbered else set()  # all of them have that
        self._names = tuple(dict.fromkeys(name.encode() for name in names if name and name not in every))
        self._numbered = numbered
        self._gaps: dict[int, bytes] = {}

    def __bool__(self) -> bool:
        """There will be any."""
        return bool(self._names or self._gaps)

    def tell_gap(self, message: Message, first: int) -> None:
        """Before that message, others are gone; `first` is the seq of the first that is there."""
        self._gaps[message.number] = gap(first)

    def of(self, message: Message) -> bytes:
        """The lines of a message."""
        lines = self._gaps.pop(message.number, b"") if self._gaps else b""
        seq = message.head.derived if self._numbered else message.place
        if isinstance(seq, int):
            for name in self._names:
                lines += b"%b:%d\n" % (name, seq)
        else:  # of a topic that a pattern matched, and that has no log: a number there would be the sender's
            for name in self._names:
                if name.decode() in message.head.headers:
                    lines += b"%b:\n" % name
        return lines
