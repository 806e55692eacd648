"""`gateway pipeline report` and `run`: what they hand on, and what they ask."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gateway.pipeline.broker_url import BrokerUrl
from gateway.pipeline.replay import run
from gateway.pipeline.replay.plan import ReplayPlan
from gateway.pipeline.replay.record import ReplayPart, ReplayRecord, ReplayRecords
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


FIRST = "If the replay is interrupted, continue with this command; the same again would send all messages again:"
LINE = "replay --archive archive --tables tables --since 2h --destination /queue/a --to /queue/b --broker stomp://h".split()


def plan(rows: int) -> ReplayPlan:
    """A plan of so many messages, with the id `0a1b`."""
    record = ReplayRecord("0a1b", {}, at := "2026-03-01T12:00:00+00:00", at)
    chosen = run.ReplayOptions("2h", "now", "/queue/a", "/queue/b", "stomp://h")
    parts = (ReplayPart("g1", 7, 1, rows, 1000, 2000, rows, 0),) if rows else ()
    return ReplayPlan(chosen, BrokerUrl.of("stomp://h"), "/archive", ReplayRecords(Path()), record, parts)


class TestReplay:
    @pytest.fixture
    def planned(self, monkeypatch: pytest.MonkeyPatch) -> Calls:
        """What `run.plan` was called with."""
        calls = Calls(plan(7))
        monkeypatch.setattr(run, "plan", calls)
        return calls

    @pytest.fixture
    def sent(self, monkeypatch: pytest.MonkeyPatch, planned: Calls) -> Calls:
        """What `run.run` was called with."""
        calls = Calls(7)
        monkeypatch.setattr(run, "run", calls)
        return calls

    def test_options_are_passed_on(self, folders: Path, spark: Spark, sent: Calls, planned: Calls) -> None:
        more = ["--where", "size > 1", *"--rate 10 --limit 20 --id x --partial-bodies skip --yes".split()]
        result = invoke(*LINE, *more)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "messages 7" in result.stdout
        of = {"since": "2h", "until": "now", "destination": "/queue/a", "to": "/queue/b", "broker": "stomp://h"}
        chosen = run.ReplayOptions(**of, where="size > 1", rate=10, limit=20, id="x", partial="skip")
        assert planned.places[:4] == (spark, str(folders / "archive"), folders / "tables", chosen)
        assert sent.places[:1] == (spark,)
        assert spark.stopped

    @pytest.mark.parametrize(
        ("rows", "options", "answer", "count"),
        [(7, "", "y\n", 1), (7, "", "\n", 0), (7, "--dry-run", None, 0), (0, "--yes", None, 0)],
    )
    def test_it_asks(
        self, spark: Spark, sent: Calls, planned: Calls, rows: int, options: str, answer: str | None, count: int
    ) -> None:
        planned.answer = plan(rows)
        result = invoke(*LINE, *options.split(), answer=answer)
        assert (result.exit_code, sent.count) == (0, count)
        assert ("Send them? [y/N]" in result.stderr) == (answer is not None)

    def test_how_to_go_on(self, spark: Spark, sent: Calls) -> None:
        """The same words mean another span later, and that would be another replay: so its id is told before."""
        told = shlex.join(["pipeline", *LINE, "--where", "size > 1", "--id", "0a1b"])
        result = invoke(*LINE, "--where", "size > 1", answer="n\n")
        assert result.stderr.startswith(f"{FIRST}\n{told}\nSend them?")
        for more in (["--id", "0a1b"], ["--dry-run"], ["--since", "2026-03-01", "--until", "2026-03-02"]):
            assert FIRST not in invoke(*LINE, *more, answer="n\n").stderr
        assert FIRST in invoke(*LINE, "--since", "2026-03-01", "--yes").stderr
        assert FIRST in invoke(*LINE, "--until", "today", "--yes").stderr

    @pytest.mark.parametrize("place", ["gateway.pipeline.replay.run.plan", "click.confirm"])
    def test_a_signal_while_it_is_planned_or_asks(
        self, spark: Spark, sent: Calls, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        monkeypatch.setattr(place, lambda *places, **names: os.kill(os.getpid(), signal.SIGTERM))
        result = invoke(*LINE, "--id", "x")
        assert (result.exit_code, sent.count) == (0, 0)
        assert result.stderr == "Ends at once: nothing has begun.\n"
