"""Recorder of the journal: each event becomes the bytes of a row, which wait in the buffer.

What costs time is done once.  The broker keeps names encoded (`names_of_subscription`).  Of destinations, and of
headers, the last ones are remembered: frames that share their headers share the dictionary, so its identity is looked
up first.  The three events that come with each message are written out; for all others the table says what stands
where (`record`).

Nothing raises, whatever a client may have sent: text that is no Unicode is written with question marks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import cast

from .buffer import RowBuffer
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
_MOST_BLOCKS = 1024
_LONGEST_BLOCK = 1024

_ACCEPTED, _DELIVERED, _ACKED = [LAYOUTS[name] for name in ("accepted", "delivered", "acked")]
_pack_accepted, _pack_delivered, _pack_acked = _ACCEPTED.pack, _DELIVERED.pack, _ACKED.pack
_REST_ACCEPTED, _REST_DELIVERED, _REST_ACKED = _ACCEPTED.rest, _DELIVERED.rest, _ACKED.rest
_CODE_ACCEPTED, _CODE_DELIVERED, _CODE_ACKED = _ACCEPTED.code, _DELIVERED.code, _ACKED.code


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
            if len(self._blocks) >= _MOST_BLOCKS:
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
