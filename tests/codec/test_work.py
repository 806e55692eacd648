"""The work that a stream costs, counted in octets and never in seconds.

A decoder is easily made quadratic: by looking at an incomplete body again with each chunk, by searching to the end of
the chunk for the kind of empty line that this client does not use, by joining all that came so far.  These tests count
the octets that were searched, sliced and joined, and ask for a small multiple of those that came; for memory they ask
tracemalloc.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import SupportsIndex, overload

import pytest

from gateway.codec import V10, V11, V12, VERSIONS, Decoder, Limits, Version

from .reading import decoder_for, octet_by_octet

MIB = 1024 * 1024


class Tally:
    """Octets of work."""

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


every_version = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)


class TestManyFramesInOneChunk:
    @every_version
    def test_of_lf(self, version: Version) -> None:
        chunk = b"".join([b"SEND\nreceipt:%d\n\nhello\0" % number for number in range(3000)])
        assert work(version, [chunk]).octets < 5 * len(chunk)

    @pytest.mark.requirement("FRM-02")
    @pytest.mark.parametrize("version", [V10, V12], ids=["1.0", "1.2"])
    def test_of_cr_lf(self, version: Version) -> None:
        """The other kind of empty line never comes, and is not looked for to the end of the chunk each time."""
        chunk = b"".join([b"SEND\r\nreceipt:%d\r\n\r\nhello\0" % number for number in range(3000)])
        assert work(version, [chunk]).octets < 8 * len(chunk)

    def test_of_both_kinds_by_turns(self) -> None:
        pair = b"SEND\r\nreceipt:%d\r\n\r\nhello\0SEND\nreceipt:%d\n\nhello\0"
        chunk = b"".join([pair % (number, number) for number in range(1500)])
        assert work(V12, [chunk]).octets < 8 * len(chunk)

    @pytest.mark.requirement("LEN-01")
    def test_of_empty_lines_with_spaces(self) -> None:
        """1.0 takes a line of spaces for empty; neither of the two usual kinds ever comes, and looking for one may cost
        as much as a block of the cache is long, but not a whole chunk."""
        chunk = b"".join([b"SEND\nreceipt:%d\n \nhello\0" % number for number in range(3000)])
        assert work(V10, [chunk]).octets < 8 * len(chunk) + 3000 * 1100

    @every_version
    def test_of_heart_beats_between(self, version: Version) -> None:
        chunk = b"".join([b"\n\n\nSEND\nreceipt:%d\n\nhello\0" % number for number in range(3000)])
        assert work(version, [chunk]).octets < 6 * len(chunk)

    def test_of_other_commands(self) -> None:
        chunk = b"".join([b"ACK\nid:1-%d\n\n\0" % number for number in range(3000)])
        assert work(V12, [chunk]).octets < 5 * len(chunk)

    @every_version
    def test_only_heart_beats_or_nuls(self, version: Version) -> None:
        for chunks in ([b"\n" * 100_000, b"\r\n" * 50_000], [b"\0" * 100_000, b"\0\n" * 50_000]):
            assert work(version, chunks).octets < 2 * 100_000

    def test_only_spaces(self) -> None:
        """In 1.0 they may still become an empty line."""
        assert work(V10, [b"\n " * 50_000]).octets < 2 * 100_000


class TestBodiesInManyChunks:
    @pytest.mark.parametrize("size", [1000, 65_536])
    @pytest.mark.parametrize("header", [b"content-length:%d\n" % (4 * MIB), b""], ids=["sized", "unsized"])
    def test_joined_once(self, size: int, header: bytes) -> None:
        octets = b"SEND\n" + header + b"\n" + b"x" * 4 * MIB + b"\0"
        assert work(V12, pieces(octets, size)).octets < 5 * len(octets)

    @pytest.mark.parametrize("header", [b"content-length:20000\n", b""], ids=["sized", "unsized"])
    def test_octet_by_octet(self, header: bytes) -> None:
        octets = b"SEND\n" + header + b"\n" + b"x" * 20_000 + b"\0"
        assert work(V12, octet_by_octet(octets)).octets < 5 * len(octets)

    def test_many_bodies_each_cut(self) -> None:
        octets = b"".join([b"SEND\nreceipt:%d\n\n" % number + b"x" * 3000 + b"\0" for number in range(500)])
        assert work(V12, pieces(octets, 4096)).octets < 5 * len(octets)


class TestHeadersInManyChunks:
    def test_each_chunk_looks_at_one_block_at_most(self) -> None:
        """The known bound: an incomplete block is looked at again with each chunk, so it must be small."""
        limits = Limits(headers=10_000, header_line=256)
        octets = b"SEND\n" + b"name:value\n" * 80
        chunks = pieces(octets, 10)
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

    @pytest.mark.requirement("LIM-03")
    @pytest.mark.parametrize("size", [2, 100, 4096])
    @pytest.mark.parametrize("header", [b"content-length:200000\n", b""], ids=["sized", "unsized"])
    def test_an_incomplete_body_costs_about_its_octets(self, size: int, header: bytes) -> None:
        """Also when it comes in crumbs: an object per crumb would cost many times the limit."""
        octets = b"SEND\n" + header + b"\n" + b"x" * 199_999
        decoder = decoder_for(V12, Limits(body=200_000))
        with traced() as figures:
            feed(decoder, octets, size)
        assert figures[0] < 1.5 * len(octets)

    @pytest.mark.requirement("LIM-03")
    def test_a_complete_body_costs_three_times_its_octets_at_most(self) -> None:
        """Its chunks, their join, and the body cut out of it."""
        octets = b"SEND\ncontent-length:4000000\n\n" + b"x" * 4_000_000 + b"\0"
        decoder = decoder_for(V11, Limits())
        with traced() as figures:
            feed(decoder, octets, 65_536)
        assert figures[1] < 3.2 * len(octets)

    @pytest.mark.requirement("LIM-01", "LIM-02")
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
