"""The stores of received rows: a spool keeps them over any death, once; the memory of mode ack holds them for ACKs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspark_stomp import spool as module
from pyspark_stomp.errors import DataLost, OptionError
from pyspark_stomp.memory import Memory
from pyspark_stomp.spool import Spool, cut
from pyspark_stomp.stream import read_pieces
from tests.pyspark_stomp.queries import texts
from tests.pyspark_stomp.test_rows import block


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path, 10)
    yield made
    made.close()


def content(spool: Spool | Memory, start: int, end: int) -> list[str]:
    return texts(read_pieces(spool.pieces(start, end), ["body"]))


def named(numbers: range) -> list[str]:
    return [f"b{number}" for number in numbers]


def test_kept_and_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "new" / "spool", 10)
    spool.keep(block(range(5)))
    spool.keep(block(range(5, 8)))
    assert (spool.first, spool.end) == (0, 8)
    assert content(spool, 0, 8) == named(range(8))
    assert content(spool, 3, 6) == named(range(3, 6))
    assert content(spool, 4, 4) == []
    assert (spool.cut(0, 3, 10**6), spool.cut(3, 3, 10**6), spool.cut(8, 3, 10**6)) == (3, 6, 8)
    spool.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=r"spoolDir names .* cannot be used"):
        Spool(tmp_path / "file", 10)


def test_paths_for_nodes_that_share_the_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 10, shared=True)
    spool.keep(block(range(5)))
    pieces = spool.pieces(1, 3)
    assert isinstance(pieces[0].source, str)
    assert content(spool, 1, 3) == named(range(1, 3))
    Path(pieces[0].source).unlink()
    with pytest.raises(DataLost, match="sharedSpool must be false"):
        list(read_pieces(pieces, ["body"]))
    spool.close()


def test_reopened(tmp_path: Path) -> None:
    first = Spool(tmp_path, 10)
    first.keep(block(range(5)))
    first.close()
    (tmp_path / "_half.arrow").write_bytes(b"half")
    second = Spool(tmp_path, 10)
    assert (second.name, second.first, second.end) == (first.name, 0, 5)
    assert content(second, 0, 5) == named(range(5))
    assert second.knows("/queue/a\nm4")
    assert not second.knows("/queue/a\nm5")
    assert not (tmp_path / "_half.arrow").exists()
    second.close()


def test_released_rows_are_gone_and_the_last_are_remembered(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 3)
    spool.keep(block(range(5)))
    spool.keep(block(range(5, 8)))
    spool.confirmed(8)
    spool.release(4)
    assert spool.first == 0  # a segment goes as a whole
    spool.release(6)
    assert (spool.first, len(list(tmp_path.glob("0*.arrow")))) == (5, 1)
    for reopened in range(2):
        if reopened:
            spool.close()
            spool = Spool(tmp_path, 3)
        assert [number for number in range(9) if spool.knows(f"/queue/a\nm{number}")] == [2, 3, 4, 5, 6, 7]
        assert content(spool, 6, 8) == named(range(6, 8))
        with pytest.raises(DataLost, match="has the rows 5 to 7, and the checkpoint asks for 4 to 7"):
            spool.pieces(4, 8)
    spool.close()


def test_unconfirmed_rows_are_remembered(tmp_path: Path) -> None:
    """Their disk is free: the receipt may stand behind what a full spool does not let in."""
    spool = Spool(tmp_path, 0, most=1)
    spool.keep(block(range(5)))
    assert spool.full()
    spool.release(5)
    assert not spool.full()
    assert list(tmp_path.glob("0*.arrow")) == []
    assert spool.knows("/queue/a\nm0")
    spool.close()
    spool = Spool(tmp_path, 0)
    assert spool.knows("/queue/a\nm0")
    spool.keep(block(range(5, 6)))
    spool.release(6)
    assert [number for number in range(6) if spool.knows(f"/queue/a\nm{number}")] == [5]
    spool.confirmed(6)
    spool.release(6)
    assert not spool.knows("/queue/a\nm5")
    spool.close()


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        spool = Spool(tmp_path / "spool", 10)
        spool.keep(block(range(5)))
        spool.close()
    finally:
        os.umask(before)
    files = list((tmp_path / "spool").iterdir())
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert len(files) == 3


def test_killed_between_state_and_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, 10)
    spool.keep(block(range(5)))
    spool.confirmed(5)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda path: os.stat("/nonexistent"))
        spool.release(5)
    spool.close()
    assert len(list(tmp_path.glob("0*.arrow"))) == 1
    spool = Spool(tmp_path, 10)
    assert (spool.first, spool.end, len(list(tmp_path.glob("0*.arrow")))) == (5, 5, 0)
    spool.close()


def test_a_full_disk_keeps_nothing(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda number: os.stat("/nonexistent"))
        with pytest.raises(OSError):
            spool.keep(block(range(5)))
    assert (spool.end, spool.knows("/queue/a\nm0")) == (0, False)
    spool.keep(block(range(2)))
    assert content(spool, 0, 2) == named(range(2))


def test_one_query_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.1)
    spool = Spool(tmp_path, 10)
    with pytest.raises(OptionError, match=rf"another query uses \(process {os.getpid()}\)"):
        Spool(tmp_path, 10)
    spool.close()
    Spool(tmp_path, 10).close()


def broken(tmp_path: Path) -> list[Path]:
    spool = Spool(tmp_path, 10)
    for first in (0, 5, 10):
        spool.keep(block(range(first, first + 5)))
    spool.close()
    return sorted(tmp_path.glob("0*.arrow"))


def test_a_broken_segment_is_named(tmp_path: Path) -> None:
    path = broken(tmp_path)[1]
    data = path.read_bytes()
    for cut_at in (0, 1, 100, 1000):
        path.write_bytes(data[:cut_at])
        with pytest.raises(DataLost, match=path.name):
            Spool(tmp_path, 10)


def other_format(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | {"format": 2}))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: sorted(folder.glob("0*"))[1].write_bytes(block(range(3)).data), "has 3 rows instead of 5"),
        (lambda folder: sorted(folder.glob("0*"))[0].unlink(), "lacks the rows 0 to 4"),
        (lambda folder: sorted(folder.glob("0*"))[1].unlink(), "lacks the rows 5 to 9"),
        (lambda folder: (folder / "state.json").unlink(), r"no state\.json"),
        (other_format, "format 2 is unknown"),
    ],
)
def test_a_spool_that_is_spoiled_is_refused(tmp_path: Path, spoil: Callable[[Path], object], sentence: str) -> None:
    broken(tmp_path)
    spoil(tmp_path)
    with pytest.raises((DataLost, OptionError), match=sentence):
        Spool(tmp_path, 10)


@pytest.mark.parametrize(
    ("start", "rows", "size", "end"),
    [(0, 100, 100, 30), (0, 15, 100, 15), (0, 10, 100, 10), (5, 10, 100, 15), (0, 100, 1, 10), (0, 100, 9, 20)],
)
def test_where_a_batch_ends(start: int, rows: int, size: int, end: int) -> None:
    assert cut([(10, 4), (20, 5), (30, 6)], start, rows, size) == end


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


def test_what_was_due_is_void_with_the_connection() -> None:
    memory = Memory(0, 10)
    memory.keep(block(range(2)))
    memory.release(2)
    memory.disconnected()
    assert memory.due() == []
    assert memory.knows("/queue/a\nm1")
