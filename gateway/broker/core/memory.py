"""Memory account: the cost of kept messages, and the pressure that begins when they cost too much.

`used` counts messages that wait, that are unacknowledged or held by a transaction, and partial messages of which only
some frames' bytes have come.  From 3/4 of `memory_limit` on, `pressed` tells the connections to stop reading from
publishers.  At the limit itself a SEND is refused.  Nothing is dropped.

The memory guard of the transports knows what the whole process takes, and reports that here (`judge`).  Too much of it
is the same pressure, and at its end SENDs are refused in the same way.
"""

from collections.abc import Callable

from ..errors import NotAllowed
from ..model.policy import Quotas

# Partial messages, or outboxes, have a good part of the memory from 1/8 of it on.
_GOOD_PART = 8
# Sessions that must be read are slowed down when only 1/16 of the memory is left.
_LAST_PART = 16


class Memory:
    """The account of kept messages, in bytes.  `on_change`: called when `pressed` has changed."""

    __slots__ = (
        *("_exhausted", "_high", "_is_nearly_exhausted", "_is_scarce", "_limit", "_on_change", "crowd"),
        *("flooded", "kept", "partial", "pressed", "used"),
    )

    def __init__(self, quotas: Quotas, on_change: Callable[[], None]) -> None:
        self.used = 0  # cost of all kept messages, partial ones included
        self.kept = 0  # cost of all messages that were kept since the start; it only grows
        self.partial = 0  # the part of `used` that is partial messages
        self.pressed = False  # memory is short, by `used` or by what the process takes
        self.flooded = False  # outboxes have a good part of it while it is short, so each may hold only a little
        self._limit = quotas.memory_limit
        self._high = quotas.memory_high
        self.crowd = quotas.memory_limit // _GOOD_PART  # bytes of partial messages that are a good part of the memory
        self._is_scarce = False
        self._is_nearly_exhausted = False
        self._exhausted = ""
        self._on_change = on_change

    def keep(self, nbytes: int) -> None:
        """Count that many bytes more of kept messages."""
        self.used += nbytes
        self.kept += nbytes
        # Asked with each message: only a change of `pressed` is worth a call.
        if self.used > self._high and not self.pressed:
            self._weigh()

    def release(self, nbytes: int) -> None:
        """Count that many bytes less."""
        self.used -= nbytes
        if self.pressed and self.used <= self._high:
            self._weigh()

    def buffer(self, nbytes: int) -> None:
        """Count that many bytes more of partial messages; less where it is negative."""
        self.partial += nbytes
        self.used += nbytes
        self._weigh()

    @property
    def is_crowded(self) -> bool:
        """Whether partial messages have a good part of the memory."""
        return self.partial > self.crowd

    @property
    def nearly_full(self) -> bool:
        """Whether a session that adds to it, and must be read, has to be slowed down."""
        return self._is_nearly_exhausted or self.used >= self._limit - self._limit // _LAST_PART

    def judge(self, *, scarce: bool, flooded: bool, nearly_exhausted: bool, exhausted: str) -> None:
        """Take the memory guard's finding about the whole process.

        Args:
            scarce: publishers are to be held back.
            flooded: outboxes have a good part of the memory.
            nearly_exhausted: `exhausted` is near.
            exhausted: why nothing more is accepted, as a sentence; empty: there is memory.
        """
        self._is_scarce, self._is_nearly_exhausted, self._exhausted = scarce, nearly_exhausted, exhausted
        self.flooded = flooded
        self._weigh()

    def _weigh(self) -> None:
        """Let pressure begin, or end."""
        pressed = self._is_scarce or self.used > self._high
        if pressed != self.pressed:
            self.pressed = pressed
            self._on_change()

    @property
    def is_full(self) -> str:
        """Why nothing more is accepted, as a sentence; empty: there is memory."""
        if self.used >= self._limit:
            return f"kept messages cost {self.used:,} bytes, {self._limit:,} may (memory_limit)"
        return self._exhausted

    def check(self) -> None:
        """Refuse a SEND at the limit.  Raises NotAllowed: the limit is reached."""
        # Publishers were held back long before; but one that also consumes is read on, for its ACKs make room.
        reason = self.is_full
        if reason:
            raise NotAllowed("memory limit reached", reason)
