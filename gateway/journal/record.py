r"""Rows to bytes and back.

    file    = *record
    record  = length crc body               u32 bytes of the body, u32 CRC-32 of the body
    body    = version first_seq epoch offset rows gateway run *row
                                            u8, u64, i64 us, i64 ns, u32 (how many), string, string
    row     = length event names_length time *number names *payload
                                            u32 bytes behind it, u8 code, u32, i64 ns
    names   = *string                       transport, peer, principal, session, subscription, ack_mode, destination
    payload = string / headers / bytes     each with a u32 length in front, as a string has it
    string  = length bytes                 UTF-8; length 4,294,967,295 and no bytes: null
    headers = *(text NUL)                   name, value, name, value; in a text 01 31 is an 01, and 01 30 is a NUL

All numbers are little-endian.  Which numbers, names and payload an event has, and in which order, its columns in
`schema` say.  A number that is negative is null; `message_id` is u64, and `run` with a hyphen stands in front of it.
`seq` counts from `first_seq`, and `ts` is time + offset.

Why a record holds many rows.  A CRC for each row costs 0.27 us on the loop, as much as all else of a thin row; the
thread that writes has one call for all that it writes at once, without the interpreter's lock.  What a crash tears is
the last record, and that was one write.

Why rows are encoded on the loop.  A tuple for a row costs 0.2 us less there, but to encode it in the thread costs more
than that, and the loop waits meanwhile, for it needs the same lock: at 20,000 rows a second its 99th percentile is then
0.3 ms later.  What does not change between rows is encoded once: the names of a subscription are one `bytes`, and so
are the headers that equal frames share.

Compatibility.  A record of another version is refused.  A row of an unknown event is skipped and counted.  New columns
of an event go to the end of its payload: who does not know them skips them, and what a row does not have there is null.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import BinaryIO, NamedTuple

from . import schema

_FRAME = struct.Struct("<II")
_FACTS = struct.Struct("<BQqqI")
_ROW = "<IBIq"
_LENGTH = struct.Struct("<I")
NO_LENGTH = 0xFFFFFFFF
"""What stands in front of a null."""
NULL = _LENGTH.pack(NO_LENGTH)

NUMBERS = {
    "message_id": "Q",
    "size": "i",
    "delivery_count": "i",
    "queue_us": "q",
    "ack_us": "q",
    "pending": "i",
    "depth": "i",
    "oldest_us": "q",
    "dropped_rows": "q",
}
"""The columns that are numbers, and how `struct` writes each."""
_NAMES = frozenset(("transport", "peer", "principal", "session", "subscription", "ack_mode", "destination"))

# In a text of a header block.
_ESCAPE = "\x01" + "1"
_NUL = "\x01" + "0"

# Different names that a reader remembers; each is about 300 bytes.
_MOST_NAMES = 16 * 1024

Row = tuple[object, ...]
"""The values of `schema.COLUMNS`, in that order.  `ts` is an int: microseconds since 1970."""


Names = tuple[str | None, ...]
_ReadNames = Callable[[bytes], Names]


class RecordError(Exception):
    """A record is whole, but cannot be read; `str()` is one sentence."""


class RecordFacts(NamedTuple):
    """What is the same for all rows of a record, or nearly.

    Attributes:
        epoch: microseconds since 1970, when the gateway started.
        offset: nanoseconds from its monotonic clock to 1970.
        run: what its message-ids start with.
    """

    gateway: str
    run: str
    epoch: int
    offset: int


# layouts


class Layout:
    """How the rows of one event look.

    Attributes:
        numbers, names, payload: its columns, in the order of a row.
        pack: length, code, names_length, time and the numbers to bytes.
        rest: what `length` counts beside names and payload.
    """

    __slots__ = (
        *("_columns", "_has_message", "_nothing", "_read", "_row"),
        *("code", "event", "names", "numbers", "pack", "payload", "rest"),
    )

    def __init__(self, event: schema.Event) -> None:
        self.event = event.name
        self.code = event.code
        self.numbers = numbers = [name for name in event.columns if name in NUMBERS]
        self.names = names = [name for name in event.columns if name in _NAMES]
        self.payload = payload = [name for name in event.columns if name not in NUMBERS and name not in _NAMES]
        self._row = struct.Struct(_ROW + "".join([NUMBERS[name] for name in numbers]))
        self._read = [_READERS[schema.COLUMNS[schema.INDEX[name]].type] for name in payload]
        self._nothing = (None,) * len(payload)
        self._has_message = "message_id" in numbers
        self.pack = self._row.pack
        self.rest = self._row.size - _LENGTH.size
        # Where in what `unpack` puts together a column is found.  A None stands in front, for those that there are not;
        # the number of a message is found behind its id, and so is not.
        given = ["", *schema.OF_EVERY_ROW, "message_id" if self._has_message else "", *[""] * 4]
        given += [*numbers, *names, *payload]
        self._columns = itemgetter(*[given.index(each.name) if each.name in given else 0 for each in schema.COLUMNS])

    def unpack(self, body: bytes, place: int, end: int, context: _Context) -> Row:
        """A row that is at a place of a record's body.

        Raises:
            ValueError: it is not what it should be.
        """
        numbers = self._row.unpack_from(body, place)
        message_id = f"{context.run}-{numbers[4]}" if self._has_message else None
        ts = (numbers[3] + context.offset) // 1000
        place += self._row.size
        nbytes = body[place : place + numbers[2]]
        place += numbers[2]
        if min(numbers) < 0:
            numbers = tuple([None if number < 0 else number for number in numbers])
        names = context.known.get(nbytes) or context.names(nbytes)
        if len(names) != len(self.names):
            raise ValueError("names")
        payload = self._nothing if place == end else self._read_payload(body, place, end)
        row: Row = self._columns(
            (None, context.gateway, context.epoch, context.seq, ts, self.event, message_id) + numbers + names + payload  # noqa: RUF005 - this is faster
        )
        return row

    def _read_payload(self, body: bytes, place: int, end: int) -> tuple[object, ...]:
        payload: list[object] = []
        for read in self._read:
            if place == end:
                payload.append(None)
                continue
            nbytes, place = _read(body, place)
            payload.append(None if nbytes is None else read(nbytes))
        if place > end:
            raise ValueError("payload")
        return tuple(payload)


def _read(body: bytes, place: int) -> tuple[bytes | None, int]:
    """Bytes with a length in front, and the place behind them."""
    (length,) = _LENGTH.unpack_from(body, place)
    place += _LENGTH.size
    return (None, place) if length == NO_LENGTH else (body[place : place + length], place + length)


def texts_in(data: bytes) -> list[str]:
    """The texts of header blocks: name, value, name, value.

    Raises:
        ValueError: that is not UTF-8.
    """
    texts = data.decode().split("\0")
    texts.pop()  # behind the last NUL is one more, which is none
    if b"\x01" in data:
        texts = [text.replace(_NUL, "\0").replace(_ESCAPE, "\x01") for text in texts]
    return texts


def _read_headers(data: bytes) -> dict[str, str]:
    each = iter(texts_in(data))
    return dict(zip(each, each, strict=False))


_READERS: Mapping[str, Callable[[bytes], object]] = {
    schema.STRING: bytes.decode,
    schema.MAP: _read_headers,
    schema.BINARY: bytes,
}


# writing


def string(value: str | None) -> bytes:
    """A string; what is no Unicode becomes a question mark."""
    return NULL if value is None else counted(value.encode("utf-8", "replace"))


length_of = _LENGTH.pack
"""What stands in front of so many bytes."""


def counted(value: bytes) -> bytes:
    """Bytes with their length."""
    return _LENGTH.pack(len(value)) + value


def strings(*values: str | None) -> bytes:
    """Some of a row's names."""
    return b"".join([string(value) for value in values])


def headers_of(headers: Mapping[str, str]) -> bytes:
    """A header block with its length; without `passcode`, in whatever case of letters."""
    block = "\0".join(chain.from_iterable(headers.items()))
    if "passcode" in block.lower():
        headers = {name: value for name, value in headers.items() if name.lower() != "passcode"}
        block = "\0".join(chain.from_iterable(headers.items()))
    if not headers:
        return counted(b"")
    if "\x01" in block or block.count("\0") != 2 * len(headers) - 1:
        texts = chain.from_iterable(headers.items())
        block = "\0".join([text.replace("\x01", _ESCAPE).replace("\0", _NUL) for text in texts])
    return counted(b"%b\0" % block.encode("utf-8", "replace"))


def record(facts: RecordFacts, first_seq: int, rows: int, pieces: Sequence[bytes]) -> list[bytes]:
    """A record, in pieces that are to be written one behind the other.

    Args:
        rows: how many there are in the pieces.
    """
    start = _FACTS.pack(schema.VERSION, first_seq, facts.epoch, facts.offset, rows) + strings(facts.gateway, facts.run)
    crc = zlib.crc32(start)
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    length = len(start) + sum([len(piece) for piece in pieces])
    return [_FRAME.pack(length, crc) + start, *pieces]


# reading


def bodies(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The bodies of the records of a file, up to the first that is torn or damaged.

    Args:
        size: bytes of the file that are read, at most; `file` is at its start.
    """
    while size >= _FRAME.size:
        start = file.read(_FRAME.size)
        if len(start) < _FRAME.size:
            return
        length, crc = _FRAME.unpack(start)
        size -= _FRAME.size + length
        # Where the disk lost power there may be zeros: no record is as short as that.
        if size < 0 or length < _FACTS.size:
            return
        body = file.read(length)
        if len(body) < length or zlib.crc32(body) != crc:
            return
        yield body


def size_of(body: bytes) -> int:
    """Bytes of the record that has that body."""
    return _FRAME.size + len(body)


@contextlib.contextmanager
def making_sense(body: bytes) -> Iterator[None]:
    """What goes wrong with the body of a record in here is one error.

    Raises:
        RecordError: it has another version, or is not what this version has.
    """
    if body[0] != schema.VERSION:
        raise RecordError(f"the record has version {body[0]}, and this gateway reads {schema.VERSION} only")
    try:
        yield
    except (ValueError, struct.error) as error:
        raise RecordError(f"the record is whole, but its rows are not as version {body[0]} has them") from error


def start_of(body: bytes) -> tuple[RecordFacts, int, int, int]:
    """What stands in front of the rows: facts, the first seq, how many rows there are, and where they begin.

    Raises:
        ValueError, struct.error: it is not what it should be.
    """
    _, first_seq, epoch, offset, count = _FACTS.unpack_from(body)
    gateway, place = _read(body, _FACTS.size)
    run, place = _read(body, place)
    return RecordFacts((gateway or b"").decode(), (run or b"").decode(), epoch, offset), first_seq, count, place


def names_in(data: bytes) -> Names:
    """The names of a row.

    Raises:
        ValueError, struct.error: they are not what they should be.
    """
    found: list[str | None] = []
    place = 0
    while place < len(data):
        text, place = _read(data, place)
        found.append(None if text is None else text.decode())
    if place > len(data):
        raise ValueError("names")
    return tuple(found)


class RowDecoder:
    """Bodies of records to rows.

    Attributes:
        unknown: rows that were skipped, because a newer gateway wrote them.
    """

    def __init__(self) -> None:
        self.unknown = 0
        self._known: dict[bytes, Names] = {}

    def rows(self, body: bytes) -> list[Row]:
        """The rows of a record.

        Raises:
            RecordError: it has another version, or is not what this version has.
        """
        with making_sense(body):
            return self._rows(body)

    def _rows(self, body: bytes) -> list[Row]:
        facts, first_seq, count, place = start_of(body)
        context = _Context(facts, self._known, self._names)
        rows: list[Row] = []
        for seq in range(first_seq, first_seq + count):
            (length,) = _LENGTH.unpack_from(body, place)
            end = place + _LENGTH.size + length
            if end > len(body) or not length:
                raise ValueError("length")
            layout = BY_CODE.get(body[place + _LENGTH.size])
            if layout is None:
                self.unknown += 1
            else:
                context.seq = seq
                rows.append(layout.unpack(body, place, end, context))
            place = end
        if place != len(body):
            raise ValueError("rows")
        return rows

    def _names(self, data: bytes) -> Names:
        if len(self._known) >= _MOST_NAMES:
            self._known.clear()
        self._known[data] = names = names_in(data)
        return names


class _Context:
    """What a row needs of its record.

    Attributes:
        known: names that were read already, by their bytes.
        names: reads others.
    """

    __slots__ = ("epoch", "gateway", "known", "names", "offset", "run", "seq")

    def __init__(self, facts: RecordFacts, known: dict[bytes, Names], names: _ReadNames) -> None:
        self.gateway, self.run, self.epoch, self.offset = facts
        self.known = known
        self.names = names
        self.seq = 0


LAYOUTS: Mapping[str, Layout] = {event.name: Layout(event) for event in schema.EVENTS}
BY_CODE: Mapping[int, Layout] = {layout.code: layout for layout in LAYOUTS.values()}
