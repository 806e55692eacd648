"""`gateway pipeline report` and `run`: what they hand on, and what they ask."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gateway.pipeline.replay import run
from gateway.pipeline.replay.record import ReplayRecord
from gateway.pipeline.report import build, csv_files, page

from .commands import Calls, Spark, folders, invoke, spark

__all__ = ["folders", "spark"]

pytestmark = pytest.mark.usefixtures("folders")


def report(*arguments: str) -> Result:
    return invoke("report", "--archive", "archive", *arguments)


def test_ctrl_c_leaves_no_report(folders: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*places: Any, **names: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "report", Calls())
    monkeypatch.setattr(page, "page_of", lambda figures: "")
    monkeypatch.setattr(csv_files, "write", interrupted)
    result = report("--out", "r.html", "--csv", "c")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "Aborted: r.html is written, the files in c are not, or not all.\n"
    monkeypatch.setattr(build, "report", interrupted)
    result = report("--out", "s.html", "--csv", "c")
    assert (result.exit_code, result.stderr) == (130, "Aborted: s.html is not written.\n")
    assert not (folders / "s.html").exists()


@pytest.mark.parametrize("option", ["--out", "--csv"])
def test_nowhere_to_write(folders: Path, spark: Spark, option: str) -> None:
    """That is told before the journal is archived and Spark starts."""
    (folders / "journal").mkdir()
    (folders / "file").touch()
    result = report("--journal", "journal", option, "file/x")
    assert (result.exit_code, spark.asked) == (3, ())
    assert result.stderr == f"Error: {option}: nothing can be written in {folders}/file: Not a directory\n"


class Plan:
    """In place of a replay's."""

    def __init__(self, rows: int, name: str = "x") -> None:
        self.rows = rows
        self.record = ReplayRecord(name, {}, "", "")

    def check(self) -> None:
        pass

    def text(self) -> str:
        return f"{self.rows} messages"


class TestReplay:
    FIRST = "If the replay is interrupted, continue with this command; the same again would send all messages again:"
    LINE = (
        "replay --archive archive --tables tables --since 2h --destination /queue/a --to /queue/b --broker stomp://h"
    ).split()

    @pytest.fixture
    def sent(self, monkeypatch: pytest.MonkeyPatch) -> Calls:
        """What `run.run` was called with."""
        calls = Calls(7)
        monkeypatch.setattr(run, "run", calls)
        return calls

    def plan(self, monkeypatch: pytest.MonkeyPatch, plan: Plan) -> Calls:
        calls = Calls(plan)
        monkeypatch.setattr(run, "plan", calls)
        return calls

    def test_options_are_passed_on(
        self, folders: Path, spark: Spark, sent: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned = self.plan(monkeypatch, plan := Plan(7))
        more = ["--where", "size > 1", *"--rate 10 --limit 20 --id x --partial-bodies skip --yes".split()]
        result = invoke(*self.LINE, *more)
        assert (result.exit_code, result.stdout) == (0, "7 messages\n")
        of = {"since": "2h", "until": "now", "destination": "/queue/a", "to": "/queue/b", "broker": "stomp://h"}
        chosen = run.ReplayOptions(**of, where="size > 1", rate=10, limit=20, id="x", partial="skip")
        assert planned.places[:4] == (spark, str(folders / "archive"), folders / "tables", chosen)
        assert planned.names == {"dry_run": False}
        assert sent.places[:2] == (spark, plan)
        assert spark.stopped

    @pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("\n", 0)])
    def test_it_asks(self, spark: Spark, sent: Calls, monkeypatch: pytest.MonkeyPatch, answer: str, count: int) -> None:
        self.plan(monkeypatch, Plan(7))
        result = invoke(*self.LINE, answer=answer)
        assert (result.exit_code, sent.count) == (0, count)
        assert "Send them? [y/N]" in result.stderr

    def test_how_to_go_on(self, spark: Spark, sent: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same words mean another span later, and that would be another replay: so its id is told before."""
        self.plan(monkeypatch, Plan(7, name="0a1b"))
        told = shlex.join(["pipeline", *self.LINE, "--where", "size > 1", "--id", "0a1b"])
        result = invoke(*self.LINE, "--where", "size > 1", answer="n\n")
        assert result.stderr.startswith(f"{self.FIRST}\n{told}\nSend them?")
        for more in (["--id", "0a1b"], ["--dry-run"], ["--since", "2026-03-01", "--until", "2026-03-02"]):
            assert self.FIRST not in invoke(*self.LINE, *more, answer="n\n").stderr
        assert self.FIRST in invoke(*self.LINE, "--since", "2026-03-01", "--yes").stderr
        assert self.FIRST in invoke(*self.LINE, "--until", "today", "--yes").stderr

    @pytest.mark.parametrize(("rows", "option"), [(0, "--yes"), (7, "--dry-run"), (0, "--dry-run")])
    def test_nothing_is_sent(
        self, spark: Spark, sent: Calls, monkeypatch: pytest.MonkeyPatch, rows: int, option: str
    ) -> None:
        self.plan(monkeypatch, Plan(rows))
        assert (invoke(*self.LINE, option).exit_code, sent.count) == (0, 0)

    def test_a_signal_while_it_is_planned_or_asks(
        self, spark: Spark, sent: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def planned(*places: Any, **names: Any) -> Plan:
            os.kill(os.getpid(), signal.SIGTERM)
            return Plan(7)

        def asked(*places: Any, **names: Any) -> bool:
            os.kill(os.getpid(), signal.SIGINT)
            return True

        self.plan(monkeypatch, Plan(7, name="x"))
        monkeypatch.setattr("click.confirm", asked)
        result = invoke(*self.LINE, "--id", "x")
        assert (result.exit_code, sent.count, result.stdout) == (0, 0, "7 messages\n")
        assert result.stderr == "Ends at once: nothing has begun.\n"
        monkeypatch.setattr(run, "plan", planned)
        result = invoke(*self.LINE, "--yes")
        assert (result.exit_code, sent.count, result.stdout) == (0, 0, "")
        assert result.stderr == "Ends at once: nothing has begun.\n"
