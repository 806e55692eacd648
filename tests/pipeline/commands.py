"""What the tests of the commands share: stand-ins for Spark and for what commands hand over to.

A module of tests imports the fixtures that it needs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.pipeline import command
from gateway.pipeline.spark import session
from gateway.pipeline.streaming import runner


class Spark:
    def __init__(self) -> None:
        self.asked: tuple[Any, ...] = ()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    made = Spark()

    def start(*asked: Any) -> Spark:
        made.asked = asked
        return made

    monkeypatch.setattr(session, "session", start)
    return made


class Calls:
    """What a stand-in was called with."""

    def __init__(self, answer: Any = None) -> None:
        self.places: tuple[Any, ...] = ()
        self.names: dict[str, Any] = {}
        self.count = 0
        self.answer = answer

    def __call__(self, *places: Any, **names: Any) -> Any:
        self.places, self.names = places, names
        self.count += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What `runner.run` was called with."""
    calls = Calls()
    monkeypatch.setattr(runner, "run", calls)
    return calls


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an archive, and no settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOURNAL", "ARCHIVE", "TABLES"):
        monkeypatch.delenv(f"GATEWAY_{name}", raising=False)
    (tmp_path / "archive").mkdir()
    return tmp_path


def invoke(*arguments: str, answer: str | None = None) -> Result:
    result = CliRunner().invoke(command.pipeline, arguments, input=answer)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def run(*arguments: str) -> Result:
    return invoke("run", "metrics", "--archive", "archive", "--tables", "tables", *arguments)


def python(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, **options)
