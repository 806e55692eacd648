"""WebSocket framing: cases in every cut, the violations of RFC 6455 and their close codes, and the server's frames."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection as WsprotoConnection
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, TextMessage

from gateway.codec import Binary
from gateway.transports.wire.websocket_framing import (
    CloseCode,
    Deframer,
    Opcode,
    WebSocketError,
    close_frame,
    header,
    pack,
)

from .peers import BINARY, CLOSE, CONTINUATION, MASK, PING, PONG, TEXT, ws

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize


@dataclass
class Outcome:
    """What a deframer made of bytes."""

    payload: bytes = b""
    pongs: list[bytes] = field(default_factory=list)
    close_reply: bytes = b""
    code: CloseCode | None = None

    @property
    def last_pong(self) -> bytes:
        return self.pongs[-1] if self.pongs else b""


def deframe(chunks: list[bytes]) -> Outcome:
    deframer = Deframer()
    outcome = Outcome()
    try:
        for chunk in chunks:
            outcome.payload += deframer.feed(chunk)
            if deframer.pong:
                outcome.pongs.append(deframer.pong)
                deframer.pong = b""
    except WebSocketError as error:
        outcome.code = error.code
    outcome.close_reply = deframer.close_reply
    assert deframer.closed is bool(deframer.close_reply)
    return outcome


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[place : place + 1] for place in range(len(data))]


def pong(payload: bytes) -> bytes:
    return bytes([0x8A, len(payload)]) + payload


LETTER = "é".encode()
GOOD = {
    "text": (ws(TEXT, b"hello"), b"hello"),
    "binary": (ws(BINARY, b"\0\xff\xfe"), b"\0\xff\xfe"),
    "no mask in the mask": (ws(TEXT, b"hello", mask=b"\0\0\0\0"), b"hello"),
    "126 bytes": (ws(TEXT, b"x" * 126), b"x" * 126),
    "65,536 bytes": (ws(BINARY, b"x" * 65_536), b"x" * 65_536),
    "fragments": (
        ws(TEXT, b"a", fin=False) + ws(CONTINUATION, b"b", fin=False) + ws(CONTINUATION, b"c") + ws(TEXT, b"d"),
        b"abcd",
    ),
    "empty fragments": (ws(TEXT, fin=False) + ws(CONTINUATION, fin=False) + ws(CONTINUATION), b""),
    "a Ping between fragments": (ws(BINARY, b"a", fin=False) + ws(PING, b"!") + ws(CONTINUATION, b"b"), b"ab"),
    "UTF-8": (ws(TEXT, "é漢𝄞".encode()), "é漢𝄞".encode()),
    "a character cut by fragments": (ws(TEXT, LETTER[:1], fin=False) + ws(CONTINUATION, LETTER[1:]), LETTER),
    "binary is not looked at": (ws(BINARY, b"\xff", fin=False) + ws(CONTINUATION, b"\xc3"), b"\xff\xc3"),
    "a Pong that nobody asked for": (ws(PONG, b"x") + ws(TEXT, b"a"), b"a"),
}
BAD = {
    "not masked": (ws(TEXT, b"hello", mask=None), CloseCode.PROTOCOL_ERROR),
    **{f"reserved bit {bit}": (ws(TEXT, b"x", rsv=bit), CloseCode.PROTOCOL_ERROR) for bit in (1, 2, 4)},
    **{f"reserved opcode {opcode}": (ws(opcode, b"x"), CloseCode.PROTOCOL_ERROR) for opcode in (3, 7, 11, 15)},
    "a continuation of nothing": (ws(CONTINUATION, b"x"), CloseCode.PROTOCOL_ERROR),
    "a message in a message": (ws(TEXT, b"x", fin=False) + ws(BINARY, b"y"), CloseCode.PROTOCOL_ERROR),
    "a fragmented Ping": (ws(PING, b"x", fin=False), CloseCode.PROTOCOL_ERROR),
    "a Ping of 126 bytes": (ws(PING, b"x" * 126), CloseCode.PROTOCOL_ERROR),
    "a length with its highest bit": (b"\x82\xff" + b"\xff" * 8 + MASK, CloseCode.PROTOCOL_ERROR),
    "text that is no UTF-8": (ws(TEXT, b"\xff"), CloseCode.INVALID_DATA),
    "text that ends in a character": (ws(TEXT, b"a" + LETTER[:1]), CloseCode.INVALID_DATA),
    "text whose last fragment ends in a character": (
        ws(TEXT, LETTER[:1], fin=False) + ws(CONTINUATION, b""),
        CloseCode.INVALID_DATA,
    ),
}
good = parametrize(("data", "payload"), GOOD.values(), ids=GOOD.keys())
bad = parametrize(("data", "code"), BAD.values(), ids=BAD.keys())


class TestGood:
    @requirement("WST-03", "WST-04", "FRM-09")
    @good
    def test_whole_with_more_behind_and_cut_anywhere(self, data: bytes, payload: bytes) -> None:
        assert deframe([data]).payload == payload
        assert deframe([data + ws(TEXT, b"more")]).payload == payload + b"more"
        assert deframe([data + ws(TEXT, b"more")[:3]]).payload == payload
        assert deframe([data, data]).payload == payload * 2
        outcome = deframe(byte_by_byte(data))
        assert (outcome.payload, outcome.code) == (payload, None)
        for place in range(1, min(len(data), 300)):
            assert deframe([data[:place], data[place:]]).payload == payload

    def test_half_a_frame_is_handed_on(self) -> None:
        """No message is put together: one of a gigabyte costs no more than a chunk."""
        deframer = Deframer()
        data = ws(BINARY, b"abcdefgh")
        assert [deframer.feed(chunk) for chunk in (data[:9], data[9:12], data[12:])] == [b"abc", b"def", b"gh"]
        assert deframer.feed(b"\x82\xff" + b"\x7f" + b"\xff" * 7 + b"\0\0\0\0" + b"abc") == b"abc"
        assert deframer.feed(b"def") == b"def"


class TestBad:
    @requirement("WST-09")
    @bad
    def test_whole_and_cut_anywhere(self, data: bytes, code: CloseCode) -> None:
        assert deframe([data]).code == deframe(byte_by_byte(data)).code == code
        for place in range(1, len(data)):
            assert deframe([data[:place], data[place:]]).code == code

    @requirement("WST-06", "WST-09")
    @parametrize(
        ("data", "code"),
        [
            (ws(TEXT, b"\xff" + b"x" * 100)[:20], CloseCode.INVALID_DATA),
            (ws(3, b"x" * 100)[:6], CloseCode.PROTOCOL_ERROR),
            (b"\x81\x00", CloseCode.PROTOCOL_ERROR),
        ],
    )
    def test_before_the_end(self, data: bytes, code: CloseCode) -> None:
        """What the header or the first bytes give away need not be waited for."""
        assert deframe([data]).code == code


class TestControl:
    @requirement("WST-08")
    @parametrize(
        ("payload", "code"),
        [
            (b"", 1000),
            *((number.to_bytes(2, "big"), number) for number in (1000, 1003, 1007, 1014, 3000, 4999)),
            *((number.to_bytes(2, "big"), 1002) for number in (999, 1004, 1006, 1015, 2999, 5000)),
            (b"\x03\xe9going away", 1001),
            (b"\x03", 1002),
            (b"\x03\xe8\xff", 1007),
        ],
    )
    def test_close_is_answered(self, payload: bytes, code: int) -> None:
        """By its own code where that may be sent (7.4); nothing behind it counts."""
        for chunks in ([ws(CLOSE, payload) + ws(TEXT, b"x")], byte_by_byte(ws(CLOSE, payload) + ws(3))):
            outcome = deframe(chunks)
            assert outcome.close_reply == close_frame(code)
            assert (outcome.payload, outcome.code) == (b"", None)


MESSAGES = st.lists(
    st.one_of(
        st.builds(ws, st.sampled_from([TEXT, BINARY]), st.binary(max_size=20), fin=st.booleans()),
        st.builds(ws, st.just(TEXT), st.text(max_size=10).map(str.encode), fin=st.booleans()),
        st.builds(ws, st.just(CONTINUATION), st.binary(max_size=10), fin=st.booleans()),
        st.builds(ws, st.sampled_from([PING, PONG]), st.binary(max_size=10)),
        st.builds(ws, st.integers(0, 15), st.binary(max_size=5), rsv=st.sampled_from([0, 0, 0, 1])),
        st.binary(max_size=6),
        st.builds(ws, st.just(BINARY), st.binary(min_size=120, max_size=200)),
    ),
    max_size=6,
).map(b"".join)


@requirement("WST-04", "WST-09")
@settings(deadline=None, max_examples=1000)
@given(MESSAGES, st.lists(st.integers(1, 200), max_size=6))
@example(b"\x89\x00", [1])
def test_any_split_equals_whole(data: bytes, places: list[int]) -> None:
    """The same end; and where it is no violation, the same payload and the same last Pong."""
    edges = sorted({0, *[place for place in places if place < len(data)], len(data)})
    cut = [data[start:stop] for start, stop in itertools.pairwise(edges)]
    whole = deframe([data])
    for chunks in (cut, byte_by_byte(data)):
        split = deframe(chunks)
        assert split.code == whole.code
        assert split.close_reply == whole.close_reply
        if whole.code is None:
            assert split.payload == whole.payload
            assert split.last_pong == whole.last_pong
        else:
            assert split.payload.startswith(whole.payload)


def as_client(data: bytes) -> list[Event]:
    """What another implementation of RFC 6455 makes of the server's bytes."""
    client = WsprotoConnection(ConnectionType.CLIENT)
    client.receive_data(data)
    return list(client.events())


class TestServerFrames:
    @parametrize("size", [0, 1, 125, 126, 4095, 4096, 65_535, 65_536, 100_000])
    def test_header(self, size: int) -> None:
        (event,) = as_client(header(Opcode.BINARY, size) + b"x" * size)
        assert isinstance(event, BytesMessage)
        assert len(event.data) == size

    @requirement("WST-06", "WST-12", "BOD-11")
    def test_pack(self) -> None:
        """A message per frame; text, unless the shared part is not UTF-8."""
        parts = [b"RECEIPT\n\n\0", b"", b"MESSAGE\n", "é\0".encode(), b"MESSAGE\n", Binary(b"\xff\0"), b"\n", b""]
        events = as_client(b"".join(pack(parts)))
        assert [(type(event), event.data) for event in events] == [
            (TextMessage, "RECEIPT\n\n\0"),
            (TextMessage, "MESSAGE\né\0"),
            (BytesMessage, b"MESSAGE\n\xff\0"),
            (TextMessage, "\n"),
        ]

    def test_pack_shares_the_large_part(self) -> None:
        """It goes to many receivers and is copied for none."""
        shared = b"x" * 100_000
        assert any(part is shared for part in pack([b"MESSAGE\n", shared]))
        assert pack([b"a" * 10, shared])[0] == header(Opcode.TEXT, 100_010)

    @requirement("WST-08")
    @parametrize(
        ("reason", "shown"),
        [("", ""), ("why", "why"), ("x" * 200, "x" * 123), ("é" * 62, "é" * 61), ("漢" * 41, "漢" * 41)],
    )
    def test_close_frame(self, reason: str, shown: str) -> None:
        """The reason is cut to what fits, and never in a character."""
        (event,) = as_client(close_frame(CloseCode.PROTOCOL_ERROR, reason))
        assert isinstance(event, CloseConnection)
        assert (event.code, event.reason or "") == (1002, shown)
