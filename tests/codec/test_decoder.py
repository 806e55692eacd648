"""Octets to frames: every case of the table, cut in every way, and what the decoder says of itself on the way."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, Decoder, Frame, LimitExceeded, Limits, MalformedFrame

from .cases import CASES, SMALL, Case
from .reading import cut, decoder_for, held, octet_by_octet, read

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize

TRAIL = b"\nSEND\ntrail:1\n\nlast\0"
TRAILED = ("SEND", {"trail": "1"}, b"last")


def named(case: Case) -> object:
    return pytest.param(case, id=str(case), marks=requirement(*case.requirements))


def check(case: Case, chunks: list[bytes], *more: tuple[str, dict[str, str], bytes], times: int = 1) -> None:
    outcome = read(chunks, case.version, case.limits)
    expected = list(case.frames) * times
    assert outcome.plain == (expected if case.error else [*expected, *more])
    assert outcome.kind is case.error
    if outcome.error is not None:
        assert outcome.error.detail


@parametrize("case", [named(case) for case in CASES])
def test_every_case_however_it_arrives(case: Case) -> None:
    """Whole, byte by byte, cut in two at each place, with bytes behind it, and repeated, from the cache."""
    octets, size = case.octets, len(case.octets)
    check(case, [octets])
    assert case.reason in str(read([octets], case.version, case.limits).error or "")
    check(case, octet_by_octet(octets))
    # Of the longest, with a middle that is all the same, only both ends.
    for place in range(1, size) if size < 700 else [*range(1, 50), *range(size - 50, size)]:
        check(case, [octets[:place], octets[place:]])
    for chunks in (
        [octets + TRAIL],
        [octets, TRAIL],
        [octets + TRAIL[:9], TRAIL[9:]],
        [octets + TRAIL + b"SEND\nincom"],
    ):
        check(case, chunks, TRAILED)
    if case.version and not case.error:
        for chunks in ([octets * 3], [octets] * 3, octet_by_octet(octets * 3)):
            check(case, chunks, times=3)


class TestLaziness:
    def test_the_version_begins_between_two_frames(self) -> None:
        """CONNECT and SEND come in one chunk, and CONNECT decides how SEND is read, and within which limits."""
        decoder = Decoder(Limits(headers=1, header_line=32, body=0))
        decoder.feed(b"CONNECT\naccept-version:1.1\n\n\0SEND\nk:a\\cb\r\n\nx\0SEND")
        assert next(decoder.frames()).command == "CONNECT"
        decoder.begin(V11, Limits())
        assert [frame.headers for frame in decoder.frames()] == [{"k": "a:b\r"}]
        decoder.feed(b"\n\n\0")
        assert [frame.headers for frame in decoder.frames()] == [{}]

    def test_a_chunk_before_the_last_is_exhausted(self) -> None:
        """The handshake takes one frame of a chunk, and may be handed the next before it comes back."""
        decoder = decoder_for(V12, Limits())
        decoder.feed(b"SEND\n\n1\0SEND\n\n2\0SE")
        assert next(decoder.frames()).body == b"1"
        decoder.feed(b"ND\n\n3\0")
        assert [frame.body for frame in decoder.frames()] == [b"2", b"3"]


def test_the_first_octets_of_a_peer_that_speaks_something_else() -> None:
    """A log line shows them; of a session, those behind what was understood."""
    for octets in (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n", b"\0" * 40):
        decoder = Decoder(Limits())
        decoder.feed(octets + b"x" * 100)
        with pytest.raises(MalformedFrame):
            list(decoder.frames())
        assert decoder.first_bytes == (octets + b"x" * 100)[:16]
    decoder = decoder_for(V12, Limits())
    decoder.feed(b"SEND\n\nx\0NO\0")
    with pytest.raises(MalformedFrame):
        list(decoder.frames())
    assert decoder.first_bytes == b"NO\0"


class TestCache:
    """Equal blocks of SEND share a head; what that must not change."""

    def test_equal_blocks_share_a_head(self) -> None:
        first, second, third = read([b"SEND\nk:v\n\n1\0SEND\nk:v\n\n2\0SEND\nk:w\n\n3\0"], V12).frames
        assert first.head is second.head
        assert third.head is not first.head
        assert first.head.size == len(b"SEND\nk:v")

    def test_whatever_ends_them(self) -> None:
        frames = read([b"SEND\r\nk:v\n\n1\0SEND\r\nk:v\n\r\n2\0" * 2], V12).frames
        assert [(frame.headers, frame.body) for frame in frames] == [({"k": "v"}, b"1"), ({"k": "v"}, b"2")] * 2

    def test_only_those_of_send_that_are_short(self) -> None:
        """An ACK names another message each time."""
        for frame in (b"ACK\nid:1\n\n\0", b"SEND\nk:" + b"v" * 2000 + b"\n\n\0"):
            first, second = read([frame * 2], V12).frames
            assert first.head is not second.head
            assert first.headers == second.headers


RECEIPTS = [
    (V12, b"SEND\nk:v\nreceipt:%b\n\nx\0", [b"1", b"2", b"a:b", b"", b"~!"]),
    (V12, b"SEND\nreceipt:%b\nk:v\n\nx\0", [b"1", b"2", b"\\c", b" 3", b"4 ", "\u00fc".encode()]),
    (V12, b"SEND\r\nk:v\r\nreceipt:%b\r\n\r\nx\0", [b"1", b"2", b"1"]),
    (V12, b"SEND\nreceipt:%b\nk:v\nreceipt:second\n\nx\0", [b"1", b"2", b"1"]),
    (V12, b"SEND\nk:v\nreceipts:%b\n\nx\0", [b"1", b"2"]),
    (V11, b"SEND\nk:v\nreceipt:%b\n\nx\0", [b"1", b"2", b"3\r", b"\\c"]),
    (V10, b"SEND\nk:v\nreceipt:%b\n\nx\0", [b"1", b"2", b" 3 ", b"\\c"]),
    (V10, b"SEND\nk:v\nReceipt:%b\n\nx\0", [b"1", b"2"]),
]


class TestReceipts:
    """Blocks that differ in their receipt alone share a head; the frames mean what they say all the same."""

    def test_mean_the_same_as_alone(self) -> None:
        for version, octets, values in RECEIPTS:
            alone = [read([b"SEND\nother:1\n\n\0" + octets % value], version).plain[1] for value in values]
            stream = b"".join([octets % value for value in values * 2])
            for chunks in ([stream], octet_by_octet(stream), [stream[:40], stream[40:]]):
                assert read(chunks, version).plain == alone * 2, octets

    def test_what_stands_alone(self) -> None:
        frames = read([b"SEND\nk:v\nreceipt:a:b\n\nx\0SEND\nk:v\nreceipt:2\n\nx\0SEND\nk:v\n\nx\0"], V12).frames
        assert [frame.headers for frame in frames] == [
            {"k": "v", "receipt": "a:b"},
            {"k": "v", "receipt": "2"},
            {"k": "v"},
        ]
        assert [frame.receipt for frame in frames] == ["a:b", "2", None]
        assert len({id(frame.head) for frame in frames}) == 1

    def test_limits_hold(self) -> None:
        limits = Limits(headers=2, header_line=20, body=20)
        octets = b"SEND\nk:v\nreceipt:1\n\nx\0SEND\nk:v\nreceipt:%b\n\nx\0"
        assert read([octets % (b"2" * 12)], V12, limits).kind is None
        assert read([octets % (b"2" * 13)], V12, limits).kind is LimitExceeded

    def test_a_body_that_comes_later(self) -> None:
        octets = b"SEND\nk:v\nreceipt:%d\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0"
        chunks = [part for number in range(3) for part in cut(octets % number, [100])]
        assert [frame.receipt for frame in read(chunks, V12).frames] == ["0", "1", "2"]


class TestMessages:
    """An ERROR names the limit as the settings do, and shows no more of the octets than a line."""

    def test_of_limits(self) -> None:
        for octets, limits, detail in [
            (b"SEND\nk:" + b"v" * 99, Limits(9, 9, 9), "exceed 36 bytes, four times max_header_line"),
            (b"SEND\nk:" + b"v" * 20 + b"\n\n", Limits(9, 9, 9), "exceeds 9 bytes (max_header_line)"),
            (b"SEND\na:1\nb:2\n\n", Limits(1, 9, 9), "more than 1 header lines (max_headers)"),
            (b"SEND\n\n0123456789", Limits(9, 9, 9), "exceeds 9 bytes (max_body)"),
            (b"SEND\ncontent-length:10\n\n", Limits(9, 99, 9), "the limit of 9 bytes (max_body)"),
            (b"SEND\na:1\nb:2\n\n", Limits(1, 9, 9, "max_connect_"), "(max_connect_headers)"),
            (b"SEND\nk:\xff\n\n\0", Limits(), "byte 7 of the frame is not UTF-8"),
        ]:
            error = read([octets], V12, limits).error
            assert detail in (error.detail if error else "")
        error = read([b"x" * 100], None).error
        assert f"{'x' * 40!r} is not a STOMP command" in (error.detail if error else "")


class TestEarly:
    """What can never become a frame is refused before its end, so that nobody waits for it."""

    def test_other_protocols(self) -> None:
        for octets, words in (
            (b"GET / HTTP/1.1\r\n", "'GET / HTTP/1.1' is a request of HTTP"),
            (b"\x16\x03\x01\0", "is the start of TLS, and this port has none"),
            (b"AMQP\0\0\x09\x01", "is the start of AMQP"),
            *((octets, "is not a STOMP command; open the") for octets in (b"HELO\n", b"x", b"\n\nQUIT")),
        ):
            outcome = read([octets], None)
            assert outcome.kind is MalformedFrame
            assert outcome.error is not None
            assert words in outcome.error.detail
        for octets in (b"c", b"CONN", b"Stomp", b"CONNECT  \r\n", b"STOMP\nk:\xff", b"\n\r\n  ", b"SEND\n"):
            outcome = read([octets], None)
            assert (outcome.plain, outcome.error) == ([], None), octets

    def test_endless_headers(self) -> None:
        """Refused with the first octets too many, long before the chunks are over."""
        chunks = iter([b"SEND\n", *[b"k:v\n"] * 1000])
        outcome = read(chunks, V12, SMALL)
        assert outcome.kind is LimitExceeded
        assert len(list(chunks)) > 1000 - SMALL.header_block
        assert read([b"SEND\n\n", *[b"x"] * 100], V12, SMALL).kind is LimitExceeded, "nor endless bodies"


LARGE = b"SEND\ndestination:/queue/a\ncontent-length:300000\n\n" + b"x" * 300_000 + b"\0"
BY_NUL = b"SEND\ndestination:/queue/a\n\n" + b"x" * 300_000 + b"\0"
HELLO = b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0"


class TestIncomplete:
    """What a decoder keeps of a frame that is not complete: how much, and nothing of what came before it."""

    @parametrize(("frame", "step"), [(LARGE, 50_000), (BY_NUL, 1_000)], ids=["by-length", "by-nul"])
    def test_it_grows_until_the_frame_is_complete(self, frame: bytes, step: int) -> None:
        found = decoder_for(V12, Limits())
        head = frame.index(b"\n\n") + 2
        for start in range(0, len(frame) - 1 - step, step):
            assert frames(found, frame[start : start + step]) == []
            assert found.incomplete == start + step - head
        (whole,) = frames(found, frame[start + step :])
        assert whole.body == b"x" * 300_000
        assert found.incomplete == held(found) == 0, "an idle client must not cost its last body"

    @parametrize(("behind", "kept"), [(HELLO, 10), (LARGE, 100)], ids=["headers", "body"])
    def test_a_little_of_the_next_frame_does_not_keep_the_chunk(self, behind: bytes, kept: int) -> None:
        found = decoder_for(V12, Limits())
        assert len(frames(found, HELLO * 1000 + behind[:kept])) == 1000
        assert 0 < found.incomplete <= kept
        assert len(found._buffer) == found.incomplete, "the rest of the chunk is free"
        (whole,) = frames(found, behind[kept:])
        assert len(whole.body) == (5 if behind is HELLO else 300_000)


def frames(decoder: Decoder, octets: bytes) -> list[Frame]:
    decoder.feed(octets)
    return list(decoder.frames())
