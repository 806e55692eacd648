"""`gateway archive`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.archive import command, layout
from gateway.archive.compact import Expiry, compact
from gateway.archive.layout import ArchiveError
from gateway.cli.main import main
from gateway.journal import found
from tests.archive.desk import HOUR, Writer, archive_rows, by_seq, journal_rows, raw_files

ROOT = Path(__file__).parents[2]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    Writer(tmp_path / "journal", apart=1800).segments(4, 4)
    return tmp_path / "journal"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def once(journal: Path, archive: Path, *options: str) -> Result:
    arguments = ["archive", "--journal", str(journal), "--archive", str(archive), "--once", *options]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_json(journal: Path, archive: Path) -> None:
    result = once(journal, archive, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["rows"] for each in told] == [2, 2, 2, 2]
    assert sorted(told[0]) == ["file", "gateway", "lag", "octets", "rows", "rows_per_second", "segments"]
    assert [each["file"] for each in told] == [str(archive / "raw" / name) for name in raw_files(archive)]


def test_something_fails(journal: Path, archive: Path) -> None:
    path = found(journal / "g1")[0]
    path.unlink()
    path.mkdir()
    result = once(journal, archive)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path} cannot be read: Is a directory; it is tried again\n")
    assert len(raw_files(archive)) > 0


def test_retention(journal: Path, archive: Path) -> None:
    once(journal, archive)
    assert compact(archive, layout.start_of(HOUR + 3))
    assert once(journal, archive).exit_code == 0
    assert len(raw_files(archive)) == 4
    assert once(journal, archive, "--raw-retention", "0s").exit_code == 0
    assert len(raw_files(archive)) == 1
    assert len(archive_rows(archive)) == 8
    assert once(journal, archive, "--history-retention", "90d").exit_code == 0
    assert len(archive_rows(archive)) == 2


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--roll", "soon", "'soon' is no duration; write one like 60s, 5m, 48h or 90d"),
        ("--interval", "0", "'0' is too short; it must be 100 ms or longer"),
        ("--max-bytes", "much", "'much' is no number of "),
        ("--journal", "nowhere", "--journal nowhere is no folder; a gateway with the setting `journal` makes it"),
        ("--archive", __file__, "test_command.py is no folder"),
    ],
)
def test_wrong(journal: Path, archive: Path, option: str, value: str, reason: str) -> None:
    result = once(journal, archive, option, value)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_settings(journal: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["archive", "--once"])
    assert result.exit_code == 2
    assert "--journal is missing: give it, or set journal in gateway.toml or GATEWAY_JOURNAL" in result.stderr
    (tmp_path / "gateway.toml").write_text(f'journal = "{journal}"\narchive = "{archive}"\n')
    assert CliRunner().invoke(main, ["archive", "--once"]).exit_code == 0
    assert len(archive_rows(archive)) == 8
    (tmp_path / "gateway.toml").write_text("journal = 3\n")
    assert "gateway.toml line 1" in CliRunner().invoke(main, ["archive", "--once"]).stderr


def test_no_pyarrow(journal: Path, archive: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from gateway.cli.main import main; main()"
    arguments = ["archive", "--journal", str(journal), "--archive", str(archive), "--once"]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 3
    assert result.stderr == "Error: pyarrow cannot be imported: pip install 'stomp-gateway[pipeline]'\n"


class TestService:
    @pytest.fixture
    def process(self, journal: Path, archive: Path) -> Iterator[subprocess.Popen[str]]:
        options = ["--roll", "0s", "--interval", "0.1s", "--json"]
        places = ["--journal", str(journal), "--archive", str(archive)]
        arguments = [sys.executable, "-m", "gateway", "archive", *places, *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(arguments, cwd=ROOT, text=True, **pipes) as process:  # type: ignore[call-overload]
            yield process
            process.kill()

    @pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
    def test_it_ends_after_the_current_file(
        self, journal: Path, archive: Path, process: subprocess.Popen[str], number: int
    ) -> None:
        rows = journal_rows(journal)
        assert process.stdout is not None
        for _ in range(4):
            assert json.loads(process.stdout.readline())["rows"] == 2
        result = once(journal, archive)  # a second archiver
        assert result.exit_code == 1
        assert f"(process {process.pid})" in result.stderr
        Writer(journal, "g2").segments(3)
        rows += journal_rows(journal)[-3:]
        assert json.loads(process.stdout.readline())["gateway"] == "g2"
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")
        assert by_seq(archive_rows(archive)) == by_seq(rows)


def test_expiry_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    calls: list[float] = []

    def fail(archive: Path, seconds: float, at: float) -> int:
        calls.append(at)
        raise ArchiveError("why")

    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.setattr("gateway.archive.compact.expire_raw", fail)
    said: list[str] = []
    expire = Expiry(tmp_path, 10, None, said.append)
    assert not expire()
    assert expire()
    now[0] += 60
    assert not expire()
    assert calls == [1000.0, 1060.0]
    assert said == ["old files cannot be deleted: why"]


def test_the_second_signal_ends_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with command._stopping() as event:
        os.kill(os.getpid(), signal.SIGTERM)
        assert event.is_set()
        assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGTERM) is before
