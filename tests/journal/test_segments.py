"""The files, and what can be wrong with their disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.journal import JournalError, Sync, found, segments
from gateway.journal.record import LAYOUTS, RecordFacts, strings
from gateway.journal.segments import Mended, Segments, lock, order
from tests.journal.desk import Fault
from tests.journal.reading import Segment

NAMES = strings("tcp", "here", "me", "s")
ROW = LAYOUTS["connected"].pack(LAYOUTS["connected"].rest + len(NAMES), 14, len(NAMES), 1) + NAMES
EPOCH = 1_700_000_000_000_000


def opened(
    folder: Path,
    *,
    sync: Sync = Sync.NONE,
    nbytes: int = 10_000,
    seconds: float = 10.0,
    epoch: int = EPOCH,
    on_mended: Callable[[Mended], None] = lambda _: None,
) -> Segments:
    folder.mkdir(exist_ok=True)
    facts = RecordFacts("g1", "r", epoch, 0)
    return Segments(folder, facts, sync=sync, nbytes=nbytes, seconds=seconds, on_mended=on_mended)


def names(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


def seqs(folder: Path) -> list[object]:
    return [row[2] for path in found(folder) for row in Segment(path)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "g1"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each time that something was written to the disk."""
    calls: list[int] = []
    monkeypatch.setattr(os, "fdatasync", calls.append)
    return calls


class TestRolling:
    def test_by_time(self, folder: Path) -> None:
        writer = opened(folder)
        writer.write(1, [ROW], 100.0)
        writer.tend(109.9)
        assert names(folder) == [f"{EPOCH}-000001.open"]
        assert writer.due == 110.0
        writer.tend(110.0)
        assert names(folder) == [f"{EPOCH}-000001.seg"]
        assert writer.due is None
        writer.tend(200.0)
        writer.write(1, [ROW], 300.0)
        writer.complete()
        assert names(folder) == [f"{EPOCH}-00000{number}.seg" for number in (1, 2)]
        assert seqs(folder) == [1, 2]

    def test_by_octets(self, folder: Path) -> None:
        writer = opened(folder, nbytes=1000)
        size = 0
        while size < 1000:
            assert not found(folder)
            size += writer.write(2, [ROW, ROW], 1.0)
            writer.tend(1.0)
        assert [path.stat().st_size for path in found(folder)] == [size]

    def test_files_are_the_owners_own(self, folder: Path) -> None:
        writer = opened(folder)
        writer.write(1, [ROW], 0)
        assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]
        writer.complete()

    def test_many_pieces(self, folder: Path) -> None:
        writer = opened(folder)
        writer.write(3000, [ROW] * 3000, 0)
        writer.complete()
        assert seqs(folder) == list(range(1, 3001))

    def test_the_system_takes_less(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def some(file: int, pieces: list[bytes]) -> int:
            return os.write(file, b"".join(pieces)[:7])

        monkeypatch.setattr(os, "writev", some)
        writer = opened(folder)
        writer.write(4, [ROW, b"", ROW + ROW, ROW], 0)
        writer.complete()
        assert seqs(folder) == [1, 2, 3, 4]

    def test_order(self, folder: Path) -> None:
        folder.mkdir()
        for name in ("10-000001.seg", "9-1000000.seg", "9-000002.seg", "x-1.seg", "9-1.open", "lock"):
            folder.joinpath(name).touch()
        assert [path.name for path in found(folder)] == ["9-000002.seg", "9-1000000.seg", "10-000001.seg"]
        with pytest.raises(ValueError, match="is not the name of a segment"):
            order(Path("x-1.seg"))


class TestSync:
    def test_interval(self, folder: Path, synced: list[int]) -> None:
        writer = opened(folder, sync=Sync.INTERVAL)
        writer.write(1, [ROW], 0.0)
        writer.write(1, [ROW], 0.5)
        writer.tend(0.9)
        assert (writer.due, len(synced)) == (1.0, 0)
        writer.tend(1.0)
        writer.tend(2.0)
        assert (writer.due, len(synced)) == (10.0, 1)
        writer.write(1, [ROW], 3.0)
        assert writer.due == 4.0
        writer.complete()
        assert len(synced) == 2

    @pytest.mark.parametrize(("sync", "count"), [(Sync.NONE, 0), (Sync.FLUSH, 1)])
    def test_the_name_too(self, sync: Sync, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is on the disk in a file that has no name there is lost."""
        names: list[Path] = []
        monkeypatch.setattr(segments, "synchronize_folder", names.append)
        writer = opened(folder, sync=sync)
        for number in (1, 2):
            writer.write(1, [ROW], number)
            writer.tend(number)
            assert names == [folder] * count
        writer.complete()
        assert names == [folder] * 2 * count

    def test_fails(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was written is not written again: then it would be there twice."""
        writer = opened(folder, sync=Sync.FLUSH)
        fault = Fault(monkeypatch, "fdatasync", errno.EIO)
        writer.write(1, [ROW], 0)
        with pytest.raises(OSError):
            writer.tend(0)
        writer.tend(0.5)
        writer.write(1, [ROW], 1)
        with pytest.raises(OSError):
            writer.complete()
        fault.broken = False
        assert names(folder) == [f"{EPOCH}-000001.open"]
        assert writer.mend()
        assert seqs(folder) == [1, 2]


class TestFullDisk:
    def test_goes_on_in_the_same_file(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = opened(folder)
        size = writer.write(1, [ROW], 0)
        fault = Fault(monkeypatch, "writev", errno.ENOSPC)
        with pytest.raises(OSError, match="No space left"):
            writer.write(1, [ROW], 1)
        assert [path.stat().st_size for path in folder.iterdir()] == [size]
        fault.broken = False
        writer.write(1, [ROW], 2)
        writer.complete()
        assert seqs(folder) == [1, 2]

    def test_from_the_start(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file without rows is none."""
        writer = opened(folder)
        Fault(monkeypatch, "writev", errno.ENOSPC)
        with pytest.raises(OSError):
            writer.write(1, [ROW], 1)
        writer.complete()
        assert names(folder) == []

    def test_that_cannot_even_cut(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file is set aside, and completed later; what is torn in it has been written to another."""
        writer = opened(folder)
        writer.write(1, [ROW], 0)
        write, truncate = Fault(monkeypatch, "writev", errno.EROFS), Fault(monkeypatch, "ftruncate", errno.EROFS)
        with pytest.raises(OSError):
            writer.write(1, [ROW], 1)
        write.broken = False
        writer.write(1, [ROW], 2)  # it still cannot be cut
        assert names(folder) == [f"{EPOCH}-00000{number}.open" for number in (1, 2)]
        assert not writer.mend()
        truncate.broken = False
        assert writer.mend()
        writer.complete()
        assert names(folder) == [f"{EPOCH}-00000{number}.seg" for number in (1, 2)]
        assert seqs(folder) == [1, 2]


class TestRemoved:
    """Somebody removes what is being written."""

    def test_a_file(self, folder: Path) -> None:
        writer = opened(folder)
        writer.write(1, [ROW], 0)
        writer.write(2, [ROW, ROW], 1)
        next(folder.iterdir()).unlink()
        with pytest.raises(FileNotFoundError):
            writer.complete()
        assert writer.lost == 3
        writer.write(1, [ROW], 2)
        writer.complete()
        assert seqs(folder) == [4]

    def test_the_folder(self, folder: Path) -> None:
        writer = opened(folder)
        folder.rmdir()
        writer.write(1, [ROW], 0)
        writer.complete()
        assert seqs(folder) == [1]


class TestLeft:
    """Files of a process that is dead."""

    def left(self, folder: Path, nbytes: int | None = None, more: bytes = b"") -> None:
        writer = opened(folder, epoch=EPOCH - 1)
        for _ in range(3):
            writer.write(1, [ROW], 0)
        (path,) = folder.iterdir()
        path.write_bytes(path.read_bytes()[:nbytes] + more)

    @pytest.mark.parametrize(("nbytes", "more", "left"), [(None, b"", 3), (-1, b"", 2), (None, b"xyz", 3)])
    def test_is_completed(self, folder: Path, nbytes: int | None, more: bytes, left: int) -> None:
        self.left(folder, nbytes, more)
        opened(folder)
        assert names(folder) == [f"{EPOCH - 1}-000001.seg"]
        assert seqs(folder) == list(range(1, left + 1))
        (segment,) = [Segment(path) for path in found(folder)]
        assert len(list(segment)) == left
        assert segment.torn == 0

    def test_without_a_whole_record(self, folder: Path) -> None:
        self.left(folder, 5)
        opened(folder)
        assert names(folder) == []

    def test_that_cannot_be_completed_yet(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody has to wait for it."""
        self.left(folder, -1)
        fault = Fault(monkeypatch, "ftruncate", errno.EACCES)
        writer = opened(folder)
        writer.write(1, [ROW], 0)
        writer.complete()
        assert names(folder) == [f"{EPOCH - 1}-000001.open", f"{EPOCH}-000001.seg"]
        fault.broken = False
        writer.write(1, [ROW], 1)
        writer.complete()
        assert len(seqs(folder)) == 4

    def test_damage_takes_one_record(self, folder: Path) -> None:
        """Nothing is cut but a torn end: what is damaged stays, for whoever reads knows how to leave it out."""
        self.left(folder, None, b"12345")
        (path,) = folder.iterdir()
        data = bytearray(path.read_bytes())
        each = (len(data) - 5) // 3
        data[each + each // 2] ^= 1
        path.write_bytes(data)
        told: list[Mended] = []
        opened(folder, on_mended=told.append)
        assert seqs(folder) == [1, 3]
        (path,) = found(folder)
        assert path.read_bytes() == data[:-5]
        assert told == [Mended(path, torn=5, damaged=each)]


class TestLock:
    def test_one_at_a_time(self, folder: Path) -> None:
        descriptor, _ = lock(folder, EPOCH)
        with pytest.raises(JournalError, match=r"another gateway writes .*g1: give each one a journal_id of"):
            lock(folder, EPOCH)
        os.close(descriptor)
        os.close(lock(folder, EPOCH)[0])

    def test_epochs_grow(self, folder: Path) -> None:
        epochs = []
        for now in (EPOCH, EPOCH + 5, EPOCH + 5, EPOCH - 100):
            descriptor, epoch = lock(folder, now)
            epochs.append(epoch - EPOCH)
            os.close(descriptor)
        assert epochs == [0, 5, 6, 7]

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            *[(name, "cannot name a folder") for name in (".hidden", "a b", "-x", "ü", "x" * 65)],
            ("file/g1", r"the journal cannot be in .*: Not a directory"),
        ],
    )
    def test_a_folder_that_cannot_be_used(self, tmp_path: Path, name: str, sentence: str) -> None:
        tmp_path.joinpath("file").touch()
        with pytest.raises(JournalError, match=sentence):
            lock(tmp_path / name, EPOCH)

    def test_a_full_disk(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Fault(monkeypatch, "pwrite", errno.ENOSPC)
        descriptor, epoch = lock(folder, EPOCH)
        os.close(descriptor)
        assert epoch == EPOCH
