"""What a decoder keeps of a frame that is not complete: how much, and nothing of what came before it."""

from __future__ import annotations

import pytest

from gateway.codec import V12, Decoder, Frame, Limits

LARGE = b"SEND\ndestination:/queue/a\ncontent-length:300000\n\n" + b"x" * 300_000 + b"\0"
BY_NUL = b"SEND\ndestination:/queue/a\n\n" + b"x" * 300_000 + b"\0"
SMALL = b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0"


def decoder() -> Decoder:
    found = Decoder(Limits())
    found.begin(V12, Limits())
    return found


def frames(found: Decoder, octets: bytes) -> list[Frame]:
    found.feed(octets)
    return list(found.frames())


def test_nothing() -> None:
    found = decoder()
    assert found.incomplete == 0
    assert len(frames(found, SMALL * 3)) == 3
    assert found.incomplete == 0


@pytest.mark.parametrize("frame", [LARGE, BY_NUL], ids=["by-length", "by-nul"])
@pytest.mark.parametrize("step", [1_000, 50_000])
def test_it_grows_until_the_frame_is_complete(frame: bytes, step: int) -> None:
    found = decoder()
    head = frame.index(b"\n\n") + 2
    for start in range(0, len(frame) - 1 - step, step):
        assert frames(found, frame[start : start + step]) == []
        assert found.incomplete == start + step - head
    (whole,) = frames(found, frame[start + step :])
    assert whole.body == b"x" * 300_000
    assert found.incomplete == 0


def test_headers_count_too() -> None:
    found = decoder()
    assert frames(found, b"SEND\ndestination:/queue/a\nx:" + b"y" * 10_000) == []
    assert found.incomplete == len(b"SEND\ndestination:/queue/a\nx:") + 10_000


def test_a_little_of_the_next_frame_does_not_keep_the_chunk() -> None:
    found = decoder()
    chunk = SMALL * 1000 + SMALL[:10]
    assert len(frames(found, chunk)) == 1000
    assert found.incomplete == 10
    assert found._buffer == SMALL[:10], "the rest of the chunk is free"
    assert [frame.body for frame in frames(found, SMALL[10:])] == [b"hello"]


def test_nor_a_part_of_its_body() -> None:
    found = decoder()
    assert len(frames(found, SMALL * 1000 + LARGE[:100])) == 1000
    assert len(found._buffer) < 100
    (whole,) = frames(found, LARGE[100:])
    assert whole.body == b"x" * 300_000
