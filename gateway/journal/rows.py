"""Recorder of the journal: each event becomes the bytes of a row, which wait in the buffer.

What costs time is done once.  The broker keeps names encoded (`names_of_subscription`).  Of destinations, and of
headers, the last ones are remembered: frames that share their headers share the dictionary, so its identity is looked
up first.  The three events that come with each message are written out; for all others the table says what stands
where (`record`).

Nothing raises, whatever a client may have sent: text that is no Unicode is written with question marks.

The buffer stands between the event loop and the thread that writes.  There is one list.  The loop appends to it; the
thread copies its start and then deletes that.  Each of these is one operation of the interpreter, so no row needs a
lock.  The loop counts bytes that `entered`, the thread bytes that are `settled`; the difference waits.

Beyond the limit rows are dropped and counted, until a quarter of the limit is free; then a row tells their number.
With `holds` publishers are held back instead (`is_behind`), from three quarters of the limit down to a half, but not
for a disk that takes nothing.  Sizes are bytes of the records; in memory each row costs about 40 more.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from typing import cast

from .record import LAYOUTS, NULL, headers_of, length_of, string, strings

Value = int | str | None | Mapping[str, str]

ALL = sys.maxsize
NONE = -1  # bytes of a body that are kept; `NONE` leaves even the column empty

# A number that is not given.
_UNKNOWN = -1
# Larger bodies are not copied on the loop.
_APART = 32 * 1024
# Destinations and header blocks that are remembered, and how long a block may be: together about 5 MiB.
_MOST_DESTINATIONS = 4096
MOST_BLOCKS = 1024
_LONGEST_BLOCK = 1024

_ACCEPTED, _DELIVERED, _ACKED = [LAYOUTS[name] for name in ("accepted", "delivered", "acked")]
_pack_accepted, _pack_delivered, _pack_acked = _ACCEPTED.pack, _DELIVERED.pack, _ACKED.pack
_REST_ACCEPTED, _REST_DELIVERED, _REST_ACKED = _ACCEPTED.rest, _DELIVERED.rest, _ACKED.rest
_CODE_ACCEPTED, _CODE_DELIVERED, _CODE_ACKED = _ACCEPTED.code, _DELIVERED.code, _ACKED.code

# Bytes that are written before the usual time.
_STEP = 1024 * 1024

Piece = bytes | tuple[bytes, ...]  # a row; a large body is a piece of its own, and is not copied

_DROPPED = LAYOUTS["journal_dropped"]


class RowBuffer:
    """The rows that wait.

    `clock`: nanoseconds, monotonic.  `limit`: most bytes that wait.  `holds`: hold publishers back before the limit is
    reached.
    """

    def __init__(self, clock: Callable[[], int], limit: int, *, holds: bool) -> None:
        self.clock = clock
        self.rows_dropped = 0  # number of dropped rows
        self.is_behind = False  # publishers must be held back
        self.failure = ""  # reason why rows cannot be written now; empty: none
        self.wake = threading.Event()  # wakes the thread
        self._limit = limit
        self._holds = holds
        self.step = min(_STEP, limit // 8)  # bytes that are written before the usual time
        self._rows: list[Piece] = []
        self._append: Callable[[Piece], None] = self._rows.append
        self._entered = 0
        self._settled = 0
        self._alarm = 0
        self._missing = 0  # dropped rows that no row has told yet
        self._why = ""

    @property
    def queued(self) -> int:
        """Bytes that wait."""
        return self._entered - self._settled

    @property
    def waiting(self) -> int:
        """Rows that wait, without those that the thread is writing."""
        return len(self._rows)

    # the loop

    def _enter(self, row: Piece) -> None:
        self._append(row)
        self._entered += bytes_of(row)
        if self._entered > self._alarm:
            self._ring()

    def _ring(self) -> None:
        """Wake the thread: it sleeps, or a step is full; otherwise a row costs one comparison."""
        # The loop appends, then looks at the alarm; the thread sets the alarm, then looks at the rows (`is_empty`).  So
        # the thread never sleeps while there are rows.
        queued = self._entered - self._settled
        if queued > self._limit:
            self._append = self._refuse
        if self._holds and queued > self._limit * 3 // 4 and not self.failure:
            self.is_behind = True
        self._alarm = self._entered + self.step
        self.wake.set()

    def _refuse(self, row: Piece) -> None:
        """In place of append: drop the row, unless there is room again."""
        if self._entered - self._settled <= self._limit * 3 // 4:
            self._append = self._rows.append
            self.tell_missing()
            self._append(row)
            return
        self._entered -= bytes_of(row)  # the caller counts it
        self._drop("the queue is full")

    def _drop(self, reason: str) -> None:
        self._append = self._refuse  # the next row that finds room tells the number
        self._why = self.failure or reason
        self._missing += 1
        self.rows_dropped += 1

    def _give_up(self, row: Piece) -> None:
        """In place of append, after `end`."""
        self._entered -= bytes_of(row)
        self.rows_dropped += 1

    def end(self) -> None:
        self.tell_missing()
        self._append = self._give_up

    def tell_missing(self) -> None:
        """Append a row with the number of dropped rows."""
        if self._missing:
            payload = string(self._why)
            row = _DROPPED.pack(_DROPPED.rest + len(payload), _DROPPED.code, 0, self.clock(), self._missing) + payload
            self._missing = 0
            self._rows.append(row)
            self._entered += len(row)

    # the thread

    def is_empty(self) -> bool:
        """Whether no row waits; then the next one wakes the thread."""
        if self._rows:
            return False
        self._alarm = 0
        return not self._rows

    def take(self) -> list[Piece]:
        """The oldest rows, of about `step` bytes."""
        rows = self._rows
        count, queued = len(rows), self.queued
        if queued > 2 * self.step:
            count = max(1, count * self.step // queued)
        taken = rows[:count]
        del rows[:count]
        return taken

    def settle(self, nbytes: int) -> None:
        """Rows of so many bytes are written, or dropped."""
        self._settled += nbytes

    def is_relieved(self) -> bool:
        """End `is_behind` if publishers may go on; returns whether it ended now."""
        if self.is_behind and (self.failure or self.queued <= self._limit // 2):
            self.is_behind = False
            return True
        return False


def bytes_of(row: Piece) -> int:
    """The bytes of a row."""
    return len(row) if isinstance(row, bytes) else sum([len(piece) for piece in row])


def joined(rows: list[Piece]) -> list[bytes]:
    """The bytes of rows, the small ones together."""
    try:
        return [b"".join(rows)]  # type: ignore[arg-type]  # mostly they are all bytes
    except TypeError:
        pass  # there are large bodies
    pieces: list[bytes] = []
    small: list[bytes] = []
    for row in rows:
        if isinstance(row, bytes):
            small.append(row)
            continue
        pieces += [b"".join(small), *row]
        small.clear()
    return [*pieces, b"".join(small)]


class Rows(RowBuffer):
    """Takes what happens; `gateway.broker.core.ports.Recorder` says what each method is told.

    `bodies`: bytes of a body that are kept, by destination.  `clock`, `limit`, `holds`: see `RowBuffer`.
    """

    def __init__(
        self, clock: Callable[[], int], limit: int, *, holds: bool, bodies: Callable[[str], int] = lambda _: ALL
    ) -> None:
        super().__init__(clock, limit, holds=holds)
        self._bodies = bodies
        self._destinations: dict[str, tuple[bytes, int]] = {}
        self._blocks: dict[int, tuple[Mapping[str, str], bytes]] = {}

    # names

    def names_of_session(
        self, transport: str | None, peer: str | None, principal: str | None = None, session: str | None = None
    ) -> bytes:
        return strings(transport, peer, principal, session)

    def names_of_subscription(self, session: bytes, subscription: str | None, ack_mode: str, destination: str) -> bytes:
        return session + strings(subscription, ack_mode, destination)

    def names_of_destination(self, destination: str) -> bytes:
        return (self._destinations.get(destination) or self._know(destination))[0]

    def _know(self, destination: str) -> tuple[bytes, int]:
        """A destination's bytes, and how much of its bodies is kept."""
        if len(self._destinations) >= _MOST_DESTINATIONS:
            self._destinations.clear()
        self._destinations[destination] = known = string(destination), self._bodies(destination)
        return known

    def _block_of(self, headers: Mapping[str, str]) -> bytes:
        block = headers_of(headers)
        if len(block) <= _LONGEST_BLOCK:
            if len(self._blocks) >= MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[id(headers)] = headers, block  # while it is here nobody else has its identity
        return block

    # what comes with each message

    def accepted(
        self,
        now: int,
        names: bytes,
        destination: str,
        number: int,
        headers: Mapping[str, str],
        body: bytes,
        transaction: str | None = None,
    ) -> None:
        name, most = self._destinations.get(destination) or self._know(destination)
        known = self._blocks.get(id(headers))
        block = known[1] if known is not None and known[0] is headers else self._block_of(headers)
        size = len(body)
        if size > most or size > _APART or transaction is not None:
            self._accept(now, names + name, number, block, body, most, transaction)
            return
        length = len(names) + len(name)
        row = b"".join(
            (
                _pack_accepted(
                    _REST_ACCEPTED + length + len(block) + 4 + size, _CODE_ACCEPTED, length, now, number, size
                ),
                names,
                name,
                block,
                length_of(size),
                body,
            )
        )
        self._append(row)
        self._entered = entered = self._entered + len(row)
        if entered > self._alarm:
            self._ring()

    def _accept(
        self, now: int, names: bytes, number: int, block: bytes, body: bytes, most: int, transaction: str | None
    ) -> None:
        """The same of a message that is not like most others."""
        size = len(body)
        if most < 0:
            kept, before = b"", NULL
        else:
            kept = body[:most]
            before = length_of(len(kept))
        if len(kept) > self._limit:
            self._drop("a body is larger than the queue may be")
            return
        behind = b"" if transaction is None else string(transaction)
        length = _REST_ACCEPTED + len(names) + len(block) + len(before) + len(kept) + len(behind)
        front = _pack_accepted(length, _CODE_ACCEPTED, len(names), now, number, size) + names + block + before
        self._enter((front, kept, behind) if len(kept) > _APART else front + kept + behind)

    def delivered(self, now: int, names: bytes, number: int, size: int, delivery_count: int, queue_us: int) -> None:
        length = len(names)
        row = (
            _pack_delivered(
                length + _REST_DELIVERED, _CODE_DELIVERED, length, now, number, size, delivery_count, queue_us
            )
            + names
        )
        self._append(row)
        self._entered = entered = self._entered + len(row)
        if entered > self._alarm:
            self._ring()

    def acked(
        self, now: int, names: bytes, number: int, delivery_count: int, ack_us: int, transaction: str | None = None
    ) -> None:
        """A delivery was settled by ACK."""
        length = len(names)
        # A transaction that is left out is null.
        behind = b"" if transaction is None else string(transaction)
        rest = length + _REST_ACKED + len(behind)
        row = _pack_acked(rest, _CODE_ACKED, length, now, number, delivery_count, ack_us) + names + behind
        self._append(row)
        self._entered = entered = self._entered + len(row)
        if entered > self._alarm:
            self._ring()

    def record(self, event: str, now: int, names: bytes, **columns: Value) -> None:
        """Any other event; `gateway.broker.core.ports.Recorder` says what it is told."""
        layout = LAYOUTS[event]
        numbers = [columns.get(name, _UNKNOWN) for name in layout.numbers]
        payload = b"".join([_encoded(columns.get(name)) for name in layout.payload]) if layout.payload else b""
        length = layout.rest + len(names) + len(payload)
        self._enter(layout.pack(length, layout.code, len(names), now, *numbers) + names + payload)


def _encoded(value: Value) -> bytes:
    return string(value) if value is None or isinstance(value, str) else headers_of(cast("Mapping[str, str]", value))
