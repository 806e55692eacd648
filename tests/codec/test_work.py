"""The work that a stream costs, counted in octets and never in seconds.

These tests count the octets that were searched, sliced and joined, and ask for a small multiple of those that came.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import SupportsIndex, overload

import pytest

from gateway.codec import V10, V11, V12, VERSIONS, Decoder, Limits, Version

from .reading import decoder_for

MIB = 1024 * 1024


class Tally:
    def __init__(self) -> None:
        self.searched = self.sliced = self.joined = 0

    @property
    def octets(self) -> int:
        return self.searched + self.sliced + self.joined


class Counted(bytes):
    """Octets that tell when they are searched and sliced."""

    tally: Tally

    def find(self, sub: bytes | SupportsIndex, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        found = super().find(sub, start, len(self) if end is None else end)
        self.tally.searched += (found if found >= 0 else min(len(self), len(self) if end is None else end)) - start
        return found

    @overload
    def __getitem__(self, place: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> bytes: ...
    def __getitem__(self, place: SupportsIndex | slice) -> int | bytes:
        found = super().__getitem__(place)
        if isinstance(found, bytes):
            self.tally.sliced += len(found)
        return found


def counted(octets: bytes, tally: Tally) -> Counted:
    wrapped = Counted(octets)
    wrapped.tally = tally
    return wrapped


def work(version: Version, chunks: Iterable[bytes], limits: Limits | None = None) -> Tally:
    """Decode; each buffer that the decoder makes is a join, and is counted on."""
    limits = limits or Limits()
    tally = Tally()
    decoder = decoder_for(version, limits)
    for chunk in chunks:
        decoder.feed(counted(chunk, tally))
        for _ in decoder.frames():
            pass
        if type(decoder._buffer) is bytes and decoder._buffer:
            tally.joined += len(decoder._buffer)
            decoder._buffer = counted(decoder._buffer, tally)
    return tally


def pieces(octets: bytes, size: int) -> list[bytes]:
    return [octets[start : start + size] for start in range(0, len(octets), size)]


def thousands(*frames: bytes) -> bytes:
    return b"".join([frame % number for number in range(3000) for frame in frames])


MANY = {
    "LF": (VERSIONS, thousands(b"SEND\nreceipt:%d\n\nhello\0"), 5),
    # The other kind of empty line never comes, and is not looked for to the end of the chunk each time.
    "CR LF": ((V10, V12), thousands(b"SEND\r\nreceipt:%d\r\n\r\nhello\0"), 8),
    "both by turns": ((V12,), thousands(b"SEND\r\nreceipt:%d\r\n\r\nhello\0", b"SEND\nreceipt:%d\n\nhello\0"), 8),
    # To look for either of the two usual kinds may cost as much as a block of the cache is long, but no whole chunk.
    "empty lines with spaces": ((V10,), thousands(b"SEND\nreceipt:%d\n \nhello\0"), 150),
    "heart-beats between": (VERSIONS, thousands(b"\n\n\nSEND\nreceipt:%d\n\nhello\0"), 6),
    "other commands": ((V12,), thousands(b"ACK\nid:1-%d\n\n\0"), 5),
    "only heart-beats": (VERSIONS, b"\r\n" * 50_000, 2),
    "only NULs": (VERSIONS, b"\0\n" * 50_000, 2),
    "only spaces": ((V10,), b"\n " * 50_000, 2),
}


@pytest.mark.parametrize("kind", MANY)
def test_many_frames_in_one_chunk(kind: str) -> None:
    versions, chunk, most = MANY[kind]
    for version in versions:
        assert work(version, [chunk]).octets < most * len(chunk)


SIZED = ["content-length:%d\n", ""]


@pytest.mark.parametrize("header", SIZED, ids=["sized", "unsized"])
@pytest.mark.parametrize(("length", "size"), [(4 * MIB, 1000), (4 * MIB, 65_536), (20_000, 1)])
def test_a_body_in_many_chunks_is_joined_once(length: int, size: int, header: str) -> None:
    octets = b"SEND\n" + (header.replace("%d", str(length))).encode() + b"\n" + b"x" * length + b"\0"
    assert work(V12, pieces(octets, size)).octets < 5 * len(octets)


def test_each_chunk_of_an_incomplete_block_looks_at_that_block_at_most() -> None:
    """It is looked at again with each chunk, so it must be small."""
    limits = Limits(headers=10_000, header_line=256)
    chunks = pieces(b"SEND\n" + b"name:value\n" * 80, 10)
    # Joined, and searched for: both kinds of empty line, NUL, the end of the command.
    assert work(V12, chunks, limits).octets < 6 * limits.header_block * len(chunks)


@contextmanager
def traced() -> Iterator[list[int]]:
    """Octets of memory in use at the end of the block, and the most in between."""
    figures: list[int] = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield figures
        now, peak = tracemalloc.get_traced_memory()
        figures += [now - before, peak - before]
    finally:
        tracemalloc.stop()


def feed(decoder: Decoder, octets: bytes, size: int) -> None:
    for start in range(0, len(octets), size):
        decoder.feed(octets[start : start + size])
        for _ in decoder.frames():
            pass


class TestMemory:
    """Octets, with all that Python needs to keep them."""

    @pytest.mark.parametrize("size", [2, 4096])
    @pytest.mark.parametrize("header", SIZED, ids=["sized", "unsized"])
    def test_an_incomplete_body_costs_about_its_octets(self, size: int, header: str) -> None:
        """Also when it comes in crumbs: an object per crumb would cost many times the limit."""
        octets = b"SEND\n" + header.replace("%d", "200000").encode() + b"\n" + b"x" * 199_999
        decoder = decoder_for(V12, Limits(body=200_000))
        with traced() as figures:
            feed(decoder, octets, size)
        assert figures[0] < 1.5 * len(octets)

    def test_a_complete_body_costs_three_times_its_octets_at_most(self) -> None:
        """Its chunks, their join, and the body cut out of it."""
        octets = b"SEND\ncontent-length:4000000\n\n" + b"x" * 4_000_000 + b"\0"
        decoder = decoder_for(V11, Limits())
        with traced() as figures:
            feed(decoder, octets, 65_536)
        assert figures[1] < 3.2 * len(octets)

    def test_an_endless_header_block_costs_a_few_times_its_limit(self) -> None:
        decoder = decoder_for(V12, Limits())
        octets = b"SEND\n" + b"k:v\n" * 60_000
        with traced() as figures:
            feed(decoder, octets, 4096)
        assert figures[0] < 1.2 * len(octets)
        assert figures[1] < 3.5 * len(octets)

    def test_the_cache_of_one_client_is_small(self) -> None:
        """64 blocks at their longest, each of as many headers as fit."""
        decoder = decoder_for(V12, Limits())
        with traced() as figures:
            for number in range(200):
                block = b"".join([b"%x:\n" % (number * 1000 + line) for line in range(140)])
                decoder.feed(b"SEND\n" + block[:1000].rpartition(b"\n")[0] + b"\n\n\0")
                for _ in decoder.frames():
                    pass
        assert figures[0] < MIB
