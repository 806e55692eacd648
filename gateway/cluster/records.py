"""Records of the replicated log: the binary form of a commit.

A record is one commit of the store, or says who writes from here on.  It is one message of the log, or several parts in
a row where it is too long for one.  A part:

    bytes   content                      (numbers are unsigned, big-endian)
    0-2     b"GWR"
    3       form of the record, 1
    4       kind of the record: 1 batch, 2 epoch, 3 end
    5       0
    6-7     number of the part, from 0
    8-9     parts of the record
    10-17   epoch of the writer: one higher with each primary
    18-25   number of the batch in its epoch, from 1; 0 for other kinds
    26-33   the writer's clock, in microseconds since 1970
    34-37   CRC-32 of the bytes 0-33 and of the rest
    38-     payload, or its next piece, in MessagePack

    kind     payload
    batch    array: containers [number, kind, name, facts]; contents [number, headers, body];
             rows [row, container, content, rank, size, facts]; facts {row: facts}; rows that go; containers that are
             emptied; containers that go; de-duplication ids {digest: end in seconds since 1970}
    epoch    map: `node`, `address`, `token` (of the store, in message ids), `version` (of the gateway)
    end      map, empty: the writer had told all it knew, and stopped in order

Transient rows are no part of a record: they end with the process.  A record counts when all its parts are there, one
behind the other; the rest of one whose writer was lost is passed over.

A gateway reads all forms up to `FORM`.  A primary writes the newest one that all nodes read when it takes over.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import msgpack

from gateway.broker.model.changes import Batch, Container, Payload, StoredRow

FORM = 1
"""The newest form that this gateway reads and writes."""

LONGEST_PART = 900_000
"""Bytes of payload in a part: below the 1 MiB that a NATS server takes by default."""

MOST_PARTS = 0xFFFF

_MAGIC = b"GWR"
_HEAD = struct.Struct(">3sBBxHHQQQ")
_CHECK = struct.Struct(">I")
_START = _HEAD.size + _CHECK.size


class Kind(IntEnum):
    """What a record is."""

    BATCH = 1
    EPOCH = 2
    END = 3


_KINDS = frozenset(Kind)


class RecordError(Exception):
    """A message of the log is no record that this gateway can read; `str()` is one sentence."""


class NewerForm(RecordError):
    """A newer gateway wrote it."""

    def __init__(self, form: int, newest: int) -> None:
        super().__init__(
            f"a newer gateway wrote records of form {form}, and this one reads up to form {newest}; upgrade this node"
        )


class Part(NamedTuple):
    """A record, or a piece of one."""

    kind: Kind
    part: int  # from 0
    parts: int
    epoch: int
    number: int
    time: int  # microseconds since 1970, by the clock of the writer
    payload: bytes
    form: int

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What no two parts of a log have in common."""
        return self.kind, self.epoch, self.number, self.part

    @property
    def mark(self) -> str:
        """As that of its record."""
        return _mark(self)


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record."""

    kind: Kind
    epoch: int
    number: int
    time: int
    payload: bytes
    form: int = FORM

    @property
    def mark(self) -> str:
        """What no record of another log has in common with it, at the same sequence."""
        return _mark(self)


def _mark(named: Part | Record) -> str:
    return f"{named.kind:d} {named.epoch} {named.number} {named.time}"


def parts_of(record: Record, longest: int = LONGEST_PART) -> list[bytes]:
    """The parts of a record, each as one message of the log.

    `longest`: bytes of payload in a part.  Raises RecordError: it is too long for all parts there may be.
    """
    payload = memoryview(record.payload)
    pieces = [payload[at : at + longest] for at in range(0, len(payload), longest)] or [payload]
    if len(pieces) > MOST_PARTS:
        raise RecordError(f"a commit of {len(payload):,} bytes is too long for the log: send less in a transaction")
    made = []
    for part, piece in enumerate(pieces):
        head = _HEAD.pack(_MAGIC, record.form, record.kind, part, len(pieces), record.epoch, record.number, record.time)
        made.append(b"".join((head, _CHECK.pack(zlib.crc32(piece, zlib.crc32(head))), piece)))
    return made


def length_of(record: Record, longest: int = LONGEST_PART) -> int:
    """The bytes of all its parts, as `parts_of` makes them."""
    size = len(record.payload)
    return size + _START * max(1, -(-size // longest))


def parse(data: bytes, newest: int = FORM) -> Part:
    """Read a message of the log.  `newest`: form that is read.

    Raises RecordError: it is not a record, or is damaged; NewerForm.
    """
    if len(data) < _START or data[:3] != _MAGIC:
        raise RecordError("it is not a record of the gateway")
    if data[3] > newest:
        raise NewerForm(data[3], newest)
    head, payload = data[: _HEAD.size], data[_START:]
    if _CHECK.unpack_from(data, _HEAD.size) != (zlib.crc32(payload, zlib.crc32(head)),):
        raise RecordError("its checksum is wrong")
    _, form, kind, part, parts, epoch, number, time = _HEAD.unpack(head)
    if kind not in _KINDS or part >= parts:
        raise RecordError(f"there is no record of kind {kind} with part {part} of {parts}")
    return Part(Kind(kind), part, parts, epoch, number, time, payload, form)


class Assembler:
    """Makes records of parts, in the order of the log."""

    def __init__(self) -> None:
        self._pieces: list[Part] = []

    @property
    def is_between(self) -> bool:
        """True if no record is begun."""
        return not self._pieces

    def add(self, part: Part) -> Record | None:
        """Take the next part; returns the record that it completes."""
        begun = self._pieces
        if begun and not (part.part == len(begun) and part.identity[:3] == begun[0].identity[:3]):
            begun.clear()  # its writer was lost
        if part.part != len(begun):
            return None
        begun.append(part)
        if len(begun) < part.parts:
            return None
        payload = part.payload if part.parts == 1 else b"".join([each.payload for each in begun])
        begun.clear()
        return Record(part.kind, part.epoch, part.number, part.time, payload, part.form)


def pack_batch(batch: Batch) -> bytes:
    """The payload of a batch without its transient rows; empty: nothing is left of it."""
    rows = [(*row[:5], row.facts) for row in batch.rows.values() if not row.transient]
    contents = batch.contents
    if len(rows) < len(batch.rows):
        used = {row[2] for row in rows}
        contents = {number: content for number, content in contents.items() if number in used}
    fields = [
        list(batch.places.values()),
        [(number, headers, body) for number, (headers, body) in contents.items()],
        rows,
        batch.facts,
        batch.gone,
        batch.emptied,
        batch.dropped,
        batch.seen,
    ]
    return _packed(fields) if any(fields) else b""


def unpack_batch(number: int, payload: bytes) -> Batch:
    """The batch of a payload.  Raises RecordError: the payload is not that of a batch."""
    try:
        places, contents, rows, facts, gone, emptied, dropped, seen = _unpacked(payload)
        return Batch(
            number,
            {place[0]: Container(*place) for place in places},
            {content: Payload(headers, body) for content, headers, body in contents},
            {row[0]: StoredRow._make([*row[:5], False, row[5]]) for row in rows},
            facts,
            gone,
            emptied,
            dropped,
            seen,
        )
    except (ValueError, TypeError, IndexError) as error:
        raise RecordError(f"its batch cannot be read: {error}") from None


def pack_map(values: dict[str, str]) -> bytes:
    """The payload of an epoch or an end."""
    return _packed(values)


def unpack_map(payload: bytes) -> dict[str, str]:
    """The map of an epoch or an end.  Raises RecordError: it is none."""
    try:
        values = _unpacked(payload)
    except ValueError as error:
        raise RecordError(f"it cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise RecordError("it cannot be read: it is not a map")
    return values


def _packed(value: object) -> bytes:
    return bytes(msgpack.packb(value))


def _unpacked(payload: bytes) -> Any:
    return msgpack.unpackb(payload, strict_map_key=False)
