"""`gateway store`: what it prints, and its statuses; what it finds is for tests/stores/test_tools.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.broker.model.changes import Batch, Container, Payload, StoredRow
from gateway.cli import main
from gateway.stores import SQLiteStore

FILE = "store.db"


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store() -> Iterator[SQLiteStore]:
    store = SQLiteStore.open(Path(FILE), reserve=0)
    batch = Batch(1, places={1: Container(1, "queue", "/queue/a")})
    for number in (1, 2):
        batch.rows[number] = StoredRow(number, 1, number, 5, 400)
        batch.contents[number] = Payload({"destination": "/queue/a"}, b"tea for two")
    store.write(batch)
    yield store
    store.close(clean=False)  # Python 3.13 complains of what stays open


@pytest.fixture
def closed(store: SQLiteStore) -> None:
    store.close(clean=True)


@pytest.fixture
def damaged(store: SQLiteStore) -> None:
    store._sql("DELETE FROM contents WHERE content = 1")
    store.close(clean=True)


def run(*arguments: str, stdin: str | bytes | None = None, **variables: str) -> Result:
    environment = {f"GATEWAY_{name.upper()}": value for name, value in variables.items()}
    return CliRunner().invoke(main.main, ["store", *arguments], input=stdin, env=environment)


def refused(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def process(arguments: Sequence[str], **how: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", "store", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, **how)  # type: ignore[call-overload, no-any-return]


class TestAll:
    @pytest.mark.usefixtures("store")
    @pytest.mark.parametrize("command", ["check", "export"])
    def test_while_a_gateway_has_it(self, command: str) -> None:
        assert refused(run(command, FILE)) == f"{FILE} is in use: another gateway, or another program, has it open"

    @pytest.mark.usefixtures("closed")
    def test_the_file_of_the_setting(self, tmp_path: Path) -> None:
        config = tmp_path / "conf" / "gateway.toml"
        config.parent.mkdir()
        config.write_text(f'store = "sqlite:../{FILE}"\n')
        found = run("check", config=str(config))
        assert (found.exit_code, found.stdout) == (0, f"{config.parent / '..' / FILE} is whole\n")
        made = run("import", stdin=run("export", FILE).stdout, store="sqlite:new.db")
        assert (made.exit_code, made.stdout) == (0, "made new.db\n")


class TestCheck:
    @pytest.mark.usefixtures("damaged")
    def test_a_sentence_for_each_finding(self) -> None:
        result = run("check", FILE)
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "1 messages have no content\n")


class TestExport:
    @pytest.mark.usefixtures("closed")
    def test_lines_on_standard_output_and_nothing_else(self) -> None:
        result = run("export", FILE)
        assert (result.exit_code, result.stderr) == (0, "")
        kinds = [next(iter(json.loads(line))) for line in result.stdout.splitlines()]
        assert kinds == ["store", "place", "row", "row", "content", "content"]

    @pytest.mark.usefixtures("closed")
    def test_nowhere_to_write(self) -> None:
        with Path("/dev/full").open("w") as full:
            done = process(["export", FILE], stdout=full.fileno())
        assert (done.returncode, done.stderr) == (1, "Error: the export cannot be written: No space left on device\n")


class TestImport:
    @pytest.mark.usefixtures("closed")
    def test_makes_the_same_store_and_replaces_none(self) -> None:
        before = Path(FILE).read_bytes()
        lines = run("export", FILE).stdout
        made = run("import", "new.db", stdin=lines)
        assert (made.exit_code, made.stdout, made.stderr) == (0, "made new.db\n", "")
        assert run("export", "new.db").stdout == lines
        assert refused(run("import", FILE, stdin="")) == f"{FILE} is there already: an import makes a new store"
        assert Path(FILE).read_bytes() == before

    @pytest.mark.parametrize(
        ("stdin", "sentence"),
        [("tea for two\n", "line 1 is not a line of an export"), (b"\xff\n", "standard input is not an export")],
    )
    def test_of_something_else(self, stdin: str | bytes, sentence: str, tmp_path: Path) -> None:
        assert refused(run("import", FILE, stdin=stdin)).startswith(sentence)
        assert list(tmp_path.iterdir()) == []
