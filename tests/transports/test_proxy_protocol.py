"""PROXY headers: every form of both versions, whole and in pieces, and what is none."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from gateway.transports.wire.forwarded import Header, ProxyError, Resumed, parse, read_header

from .pipes import StreamPipe

parametrize = pytest.mark.parametrize

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def binary(rest: bytes = b"", command: int = 0x21, family: int = 0x11) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(rest)) + rest


def addresses(source: str = "203.0.113.7", target: str = "198.51.100.1", port: int = 40_312) -> bytes:
    return ip_address(source).packed + ip_address(target).packed + struct.pack("!HH", port, 61_613)


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!BH", kind, len(value)) + value


# The client bits, and that its certificate was verified; then sub-TLVs, which nobody here reads.
SSL = tlv(0x20, b"\x01" + b"\0\0\0\0" + tlv(0x21, b"TLSv1.3"))

KNOWN = [
    (b"PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613\r\n", "203.0.113.7", 40_312, False),
    (b"PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n", "2001:db8::7", 1, False),
    (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "", 0, False),
    (binary(addresses()), "203.0.113.7", 40_312, False),
    (binary(addresses("2001:db8::7", "2001:db8::1"), family=0x21), "2001:db8::7", 40_312, False),
    (binary(addresses("::ffff:203.0.113.7", "2001:db8::1"), family=0x21), "203.0.113.7", 40_312, False),
    (binary(addresses() + SSL), "203.0.113.7", 40_312, True),
    (binary(addresses() + tlv(0x04, b"pad") + SSL), "203.0.113.7", 40_312, True),
    (binary(addresses() + tlv(0x20, b"\0" * 5)), "203.0.113.7", 40_312, False),
    (binary(command=0x20, family=0), "", 0, False),
    (binary(b"x" * 216 + SSL, family=0x31), "", 0, True),
    (binary(addresses(), family=0x12), "", 0, False),
]


@parametrize(
    ("data", "words"),
    [
        (b"CONNECT\n", "does not begin with"),
        (b"PROXY " + b"x" * 101, "no end within 107 bytes"),
        (b"PROXY \r\n", "nor UNKNOWN"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "nor UNKNOWN"),
        (b"PROXY TCP4 ::1 1.2.3.4 1 2\r\n", "is none"),
        (b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "is none"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", "is none"),
        (binary(addresses(), command=0x11), "version and command 0x11"),
        (SIGNATURE + struct.pack("!BBH", 0x21, 0x11, 4097), "4097 bytes long, more than 4096"),
        (binary(addresses()[:11]), "take 12 bytes, and it has 11"),
        (binary(addresses() + b"\x20\0"), "is cut off"),
        (binary(addresses() + tlv(0x04, b"abc")[:-1]), "longer than the header"),
    ],
)
def test_none(data: bytes, words: str) -> None:
    with pytest.raises(ProxyError, match=words):
        parse(data)


@given(
    st.sampled_from([b"", SIGNATURE, b"PROXY TCP4 ", b"PROXY ", SIGNATURE + b"\x21\x11\0\x14"]), st.binary(max_size=300)
)
@example(b"PROXY", b" ")
def test_anything_is_a_header_or_none(start: bytes, rest: bytes) -> None:
    data = start + rest
    try:
        header = parse(data)
    except ProxyError:
        return
    assert header is None or header.size <= len(data)


class TestRead:
    async def test_in_pieces_and_what_is_behind(self) -> None:
        theirs, ours = memory_stream_pair()
        pipe = StreamPipe(ours)
        data = KNOWN[0][0]
        await theirs.send_all(data[:20])
        await theirs.send_all(data[20:] + b"CONNECT")
        header, behind = await read_header(pipe)
        assert (header.address, behind) == ("203.0.113.7", b"CONNECT")
        resumed = Resumed(pipe, behind)
        assert await resumed.receive(3) == b"CON"
        assert await resumed.receive(100) == b"NECT"
        await theirs.send_all(b"\n")
        assert await resumed.receive(100) == b"\n"
        assert await resumed.send_some([b"out"]) == 3
        assert await theirs.receive_some() == b"out"

    @parametrize(("data", "words"), [(b"", "^$"), (b"PROXY ", "ended in the PROXY header")])
    async def test_it_ends(self, data: bytes, words: str) -> None:
        theirs, ours = memory_stream_pair()
        if data:
            await theirs.send_all(data)
        await theirs.aclose()
        with pytest.raises(ProxyError, match=words):
            await read_header(StreamPipe(ours))


@parametrize(("data", "address", "port", "secure"), KNOWN)
def test_whole_with_bytes_behind_and_cut_anywhere(data: bytes, address: str, port: int, secure: bool) -> None:
    assert parse(data) == parse(data + b"CONNECT\n\n\0") == Header(len(data), address, port, secure)
    assert [parse(data[:size]) for size in range(len(data))] == [None] * len(data)
