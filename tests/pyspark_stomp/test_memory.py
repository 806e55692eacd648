"""The store of mode ack: rows that are held, handles that change, ACKs that become due."""

from __future__ import annotations

from pyspark_stomp.memory import Memory
from pyspark_stomp.stream import read_pieces
from tests.pyspark_stomp.queries import texts
from tests.pyspark_stomp.test_rows import block


def content(memory: Memory, start: int, end: int) -> list[str]:
    return texts(read_pieces(memory.pieces(start, end), ["body"]))


def handles(numbers: range) -> list[tuple[str, str]]:
    return [("/queue/a", f"h{number}") for number in numbers]


def test_rows_are_numbered_on() -> None:
    memory = Memory(100, 10)
    memory.keep(block(range(5)))
    assert (memory.first, memory.end) == (100, 105)
    assert content(memory, 101, 103) == ["b1", "b2"]
    assert content(memory, 40, 100) == []  # of a process that is gone
    assert (memory.cut(100, 2, 10**6), memory.cut(102, 9, 10**6), memory.cut(105, 9, 10**6)) == (102, 105, 105)


def test_acks_are_due_when_rows_are_released() -> None:
    memory = Memory(0, 10)
    memory.keep(block(range(5)))
    memory.keep(block(range(5, 8)))
    assert not memory.has_due()
    memory.release(3)
    assert memory.has_due()
    assert memory.due() == handles(range(3))
    memory.release(3)
    assert memory.due() == []
    memory.release(6)
    assert memory.due() == handles(range(3, 6))
    assert content(memory, 6, 8) == ["b6", "b7"]


def test_a_redelivered_message_keeps_its_row() -> None:
    memory = Memory(0, 10)
    memory.keep(block(range(3)))
    memory.disconnected()
    memory.exchange("/queue/a\nm1", ("/queue/a", "new"))
    memory.release(3)
    assert memory.due() == [("/queue/a", "new")]
    assert memory.knows("/queue/a\nm0")
    memory.exchange("/queue/a\nm0", ("/queue/a", "late"))
    assert memory.due() == [("/queue/a", "late")]
    memory.keep(block(range(5, 6)))
    memory.exchange("/queue/a\nm5", ("/queue/a", "copy"))  # on the same connection: due at once, and the row's later
    assert memory.due() == [("/queue/a", "copy")]
    memory.release(4)
    assert memory.due() == handles(range(5, 6))


def test_redelivered_messages_of_several_blocks() -> None:
    memory = Memory(7, 10)
    for start in (0, 2, 4):
        memory.keep(block(range(start, start + 2)))
    memory.release(8)
    memory.disconnected()
    for number in (5, 2, 1, 3, 4):
        memory.exchange(f"/queue/a\nm{number}", ("/queue/a", f"new {number}"))
    assert memory.due() == []
    memory.release(13)
    assert memory.due() == [("/queue/a", f"new {number}") for number in range(1, 6)]


def test_no_more_is_remembered_than_asked_for() -> None:
    memory = Memory(0, 2)
    memory.keep(block(range(5)))
    memory.release(5)
    assert [number for number in range(5) if memory.knows(f"/queue/a\nm{number}")] == [3, 4]
