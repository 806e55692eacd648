"""A store's file: made whole or not at all, had by one process only, and a sentence for whatever is in the way."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.stores import SQLiteStore, StoreDamaged, StoreError, StoreLocked, file, open_store, preflight
from tests.stores.batches import new, opened, rows_of
from tests.stores.test_sqlite_failure import disk_of

NOBODY = 65534


@contextmanager
def without_rights() -> Iterator[None]:
    """Rights bind everybody but root."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that nobody in particular may use, for pytest's own are the user's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


class TestMaking:
    def test_is_for_its_owner_only(self, store: SQLiteStore, path: Path) -> None:
        store.write(new([1]))
        assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}

    def test_that_fails_leaves_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(connection: sqlite3.Connection) -> None:
            raise sqlite3.OperationalError("as in the middle of it")

        monkeypatch.setattr(file, "create", fail)
        with pytest.raises(StoreError, match="as in the middle of it"):
            file.make(path)
        assert not list(path.parent.iterdir())

    def test_replaces_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another gateway may be faster."""
        monkeypatch.setattr(file, "create", lambda connection: path.write_bytes(b"first"))
        with pytest.raises(StoreError, match="File exists"):
            file.make(path)
        assert path.read_bytes() == b"first"

    def test_where_files_have_one_name_only(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "link", refuse)
        opened(path).close(clean=True)
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.parametrize("mode", [0o555, 0])
    def test_without_rights(self, home: Path, mode: int) -> None:
        home.chmod(mode)
        with without_rights(), pytest.raises(StoreError, match=r"a\.db cannot be used: Permission denied$"):
            SQLiteStore.open(home / "a.db")

    @pytest.mark.parametrize("moment", ["file.create", "os.link", "os.fsync", "file.check"])
    def test_is_killed(self, path: Path, moment: str) -> None:
        """A store that was never made whole is none, and is simply made."""
        script = "import os, sys; from pathlib import Path; from gateway.stores import file\n"
        script += f"from tests.stores import batches\n{moment} = lambda *_: os.kill(os.getpid(), 9)\n"
        script += "batches.opened(Path(sys.argv[1]))"
        assert subprocess.run([sys.executable, "-c", script, path], check=False).returncode == -signal.SIGKILL
        assert path.exists() is (moment == "file.check")
        store = opened(path)
        assert rows_of(store) == []
        store.close(clean=False)


class TestOpening:
    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="is a folder: name a file"):
            SQLiteStore.open(tmp_path)

    def test_another_database(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE rows (a)")
        before = path.read_bytes()
        with pytest.raises(StoreError, match="is an SQLite file, but not a store of the gateway: name another file"):
            SQLiteStore.open(path)
        assert path.read_bytes() == before

    def test_what_is_relied_on(self, store: SQLiteStore) -> None:
        """Some of it is another by default, and in some distributions of SQLite."""
        wanted: dict[str, int | str] = {"synchronous": 2, "journal_mode": "wal", "locking_mode": "exclusive"}
        wanted |= {"page_size": file.PAGE, "secure_delete": 0, "recursive_triggers": 0}
        assert {name: store._sql(f"PRAGMA {name}").fetchone()[0] for name in wanted} == wanted


class TestNeverSilentlyEmpty:
    def test_an_empty_file_with_a_log(self, path: Path, left: Path) -> None:
        os.truncate(path, 0)
        with pytest.raises(StoreDamaged, match="it is empty"):
            SQLiteStore.open(path)

    def test_a_log_alone(self, path: Path, left: Path) -> None:
        path.unlink()
        with pytest.raises(StoreDamaged, match=r"it is missing, and only its log .*-wal is there"):
            SQLiteStore.open(path)
        assert left.stat().st_size

    @pytest.fixture
    def left(self, path: Path) -> Path:
        """The log of a store that was left by `kill -9`."""
        script = "import os, sys; from pathlib import Path; from tests.stores.batches import *\n"
        script += "opened(Path(sys.argv[1])).write(new([1])); os._exit(0)"
        subprocess.run([sys.executable, "-c", script, path], check=True)
        log = Path(f"{path}-wal")
        assert log.stat().st_size
        return log


class TestLock:
    def test_keeps_out_another_process(self, store: SQLiteStore, path: Path) -> None:
        script = "import sys; from pathlib import Path; from gateway.stores import *\n"
        script += "try: SQLiteStore.open(Path(sys.argv[1]))\nexcept StoreLocked as error: print(error)"
        told = subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, text=True)
        assert "is in use" in told.stdout

    def test_is_held_from_the_first_moment(self, path: Path) -> None:
        file.make(path)
        with closing(file.connect(path)), pytest.raises(StoreLocked):
            SQLiteStore.open(path)

    def test_outlives_a_failure(self, store: SQLiteStore, path: Path) -> None:
        """Looking for the reason must not give the lock away, as closing the file anywhere else would."""
        limit = "PRAGMA max_page_count"
        store._sql(f"{limit} = {store._sql('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(StoreError):
            store.write(new(range(1, 1000)))
        script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT 1 FROM places')"
        other = subprocess.run([sys.executable, "-c", script, path], check=False, capture_output=True, text=True)
        assert "database is locked" in other.stderr


@pytest.fixture
def old(path: Path) -> Path:
    store = opened(path)
    store.write(new([1, 2, 3]))
    store.close(clean=True)
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        number: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return number


def test_a_newer_one(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(
        StoreError, match=r"store\.db was made by a newer gateway: it has schema 7, and this one reads 1$"
    ):
        SQLiteStore.open(old)
    assert version_of(old) == 7


def test_memory() -> None:
    assert open_store("memory") is None


@pytest.mark.parametrize("absolute", [True, False])
def test_a_file(absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite:{tmp_path / 'a.db' if absolute else 'a.db'}")
    assert isinstance(store, SQLiteStore)
    store.close(clean=True)
    assert (tmp_path / "a.db").stat().st_size


@pytest.mark.parametrize("name", ["a b.db", "a?mode=memory", "a#b", "ä%20.db"])
def test_names_mean_nothing(name: str, tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / name}")
    assert store is not None
    store.close(clean=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("url", ["", "sqlite", "sqlite:", "memory:", "redis:host", "/var/lib/store.db"])
def test_others(url: str) -> None:
    with pytest.raises(StoreError, match=r"^there is no store .*: write memory, or sqlite:PATH"):
        open_store(url)


def look(path: Path) -> None:
    preflight.look(f"sqlite:{path}")


@pytest.fixture
def closed(store: SQLiteStore, path: Path) -> Path:
    store.write(new(range(1, 101), size=1000))
    store.close(clean=True)
    return path


class TestLook:
    def test_of_a_new_one(self, path: Path) -> None:
        look(path)
        assert not path.exists()

    def test_of_a_store(self, closed: Path) -> None:
        before = closed.read_bytes()
        look(closed)
        assert closed.read_bytes() == before
        assert list(closed.parent.iterdir()) == [closed]

    def test_of_one_that_a_gateway_has(self, store: SQLiteStore, path: Path) -> None:
        store.write(new([1]))
        look(path)
        store.write(new([2]))

    @pytest.mark.parametrize(
        ("name", "data", "sentence"),
        [
            ("no/a.db", None, r"a\.db cannot be made: there is no folder .*/no$"),
            ("a.db-wal", b"x", "only its log"),
            ("a.db", b"", "it is empty"),
            ("a.db", b"nonsense" * 100, "it is no file of SQLite"),
        ],
    )
    def test_of_what_is_no_store(self, tmp_path: Path, name: str, data: bytes | None, sentence: str) -> None:
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(StoreError, match=sentence):
            look(path.with_suffix(".db"))

    def test_of_one_that_is_cut_off(self, closed: Path) -> None:
        size = closed.stat().st_size
        os.truncate(closed, size - file.PAGE)
        with pytest.raises(StoreError, match=f"cut off: it has {size - file.PAGE} bytes of {size}"):
            look(closed)
        Path(f"{closed}-wal").write_bytes(b"the rest may be here")
        look(closed)

    def test_of_a_small_disk(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        disk_of(monkeypatch, free=4096, size=6144)
        sentence = "its disk has 24 MiB, and a store needs one of 40 MiB at least"
        with pytest.raises(StoreError, match=sentence):
            look(path)
        with pytest.raises(StoreError, match=sentence):
            SQLiteStore.open(path)


class TestUnkept:
    def test_names_the_patterns(self) -> None:
        kept: list[dict[str, object]] = [{"durable": False}, {"max_messages": 1}, {"log_messages": 0}]
        assert preflight.unkept([("/queue/a", values) for values in kept]) == ""
        for values in ({"durable": True}, {"log_messages": 1}, {"log_bytes": 1}, {"log_age": 0.5}):
            found = preflight.unkept([("/topic/a", values), ("/topic/b", {}), ("/topic/c", values)])
            assert "policies of /topic/a, /topic/c ask for durable" in found
