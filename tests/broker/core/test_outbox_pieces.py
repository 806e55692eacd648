"""An outbox that a writer takes piece by piece, while more comes; for the rest see `test_outbox`."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.codec import Version

from ..client import Scene
from .test_outbox import fill


class Counting(list[bytes]):
    """A list that notes how many items each slice of it copies, and so do the copies."""

    def __init__(self, items: list[bytes], moved: list[int]) -> None:
        super().__init__(items)
        self._moved = moved

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if not isinstance(place, slice):
            return found
        self._moved.append(len(found))
        return Counting(found, self._moved)


@pytest.mark.parametrize("pieces", [[2], [2, 2], [2, 2, 2], [4, 2], [6], [8], [2, 100]])
def test_pieces_then_all_with_more_coming_all_the_time(scene: Scene, pieces: list[int]) -> None:
    """What was appended later comes later, whatever was taken before."""
    outbox = scene.connect().session.outbox
    numbers = iter(range(100))

    def append(count: int) -> None:
        for _ in range(count):
            data = b"%02d" % next(numbers)
            outbox.append(data, data)

    append(3)
    found = []
    for most in pieces:
        part = outbox.take(most)
        assert len(part) <= most
        found += part
        append(1)
        assert outbox.taken == 2 * len(found)
    found += outbox.take()
    assert outbox.taken == 2 * len(found) == outbox.size
    append(1)
    found += outbox.take(2)
    assert found == [b"%02d" % number for number in range(next(numbers)) for _ in range(2)]
    assert outbox.take(2) == outbox.take() == []


def test_all_is_handed_over_to_be_let_go_of(scene: Scene) -> None:
    """Nothing is copied, so some that was taken is in it, too."""
    outbox = scene.connect().session.outbox
    for data in (b"a", b"b"):
        outbox.append(data)
    outbox.take(2)
    outbox.append(b"c")
    assert outbox.hand_over() == [[b"a", b"", b"b", b""], [b"c", b""]]
    assert outbox.hand_over() == [[], []]
    outbox.close()
    assert outbox.take() == []


def test_however_many_pieces_each_part_is_moved_once(scene: Scene) -> None:
    """An outbox of megabytes would else cost more with each piece that leaves it."""
    outbox = scene.connect().session.outbox
    moved: list[int] = []
    outbox.append(b"x" * 20_000)
    outbox.parts = Counting([b"x"] * 20_000, moved)
    for _ in range(200):
        assert outbox.take(100) == [b"x"] * 100
        outbox.append(b"y")
    assert sum(moved) == 20_000
    assert outbox.take() == [b"y", b""] * 200


def test_what_is_left_of_pieces_is_thrown_away_at_the_end(scene: Scene) -> None:
    outbox = scene.connect().session.outbox
    for _ in range(3):
        outbox.append(b"x")
    outbox.take(2)
    outbox.append(b"y")
    outbox.close()
    assert outbox.take(2) == outbox.take() == []
    assert outbox.size == 0


def test_which_messages_were_on_their_way_is_known_by_the_piece(scene: Scene, version: Version) -> None:
    client, producer = scene.connect(version), scene.connect(version)
    outbox = client.session.outbox
    client.subscribe("/queue/a")
    client.stalled = True
    fill(producer, 3)
    outbox.take(2)
    producer._decoder.feed(b"SEND\ndestination:/queue/a\n\n4\0" + b"SEND\ndestination:/queue/a\n\n5\0")
    for frame in producer._decoder.frames():
        producer.session.handle(frame)
    outbox.take(2)
    client.drop()
    producer.subscribe("/queue/a")
    messages = producer.messages()
    assert [each.body for each in messages] == [b"1", b"2", b"3", b"4", b"5"]
    assert [each.redelivered for each in messages] == [True, True, False, False, False]
