"""`gateway pipeline run`, `report` and `replay`: what they hand on and ask, and how they end.

Spark is a stand-in here, but for one run in a process of its own.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gateway.journal import found
from gateway.pipeline import tables
from gateway.pipeline.exits import StopOnSignal
from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.options import BrokerUrl
from gateway.pipeline.replay import run as replay
from gateway.pipeline.replay.plan import ReplayPart, ReplayPlan, ReplayRecord, ReplayRecords
from gateway.pipeline.report import build, csv_files, page
from gateway.pipeline.streaming import checkpoints, runner
from tests.archive.desk import Writer, archive_rows
from tests.pipeline.rows import accepted, write

from .commands import Calls, Spark, folders, invoke, python, ran, run, spark

__all__ = ["folders", "ran", "spark"]

pytestmark = pytest.mark.usefixtures("folders")


def test_options_are_passed_on(folders: Path, spark: Spark, ran: Calls) -> None:
    more = "--once --interval 5s --files 7 --stuck-after 2m --publish stomp://h/topic/a --master local[1]"
    more += " --conf spark.a=b=c"
    result = run(*more.split())
    assert (result.exit_code, result.output) == (0, "")
    assert spark.asked == ("local[1]", None, "gateway pipeline run metrics", {"spark.a": "b=c"})
    assert ran.places == (spark, [JOBS["metrics"]], str(folders / "archive"), folders / "tables")
    names = ran.names
    assert (names["once"], names["interval"], names["publish"]) == (True, 5.0, "stomp://h/topic/a")
    assert (names["files"], names["limits"]) == (7, AlarmLimits(stuck_after=120))
    assert isinstance(names["stopping"], threading.Event)
    assert spark.stopped


def test_a_signal_while_it_archives(folders: Path, monkeypatch: pytest.MonkeyPatch, spark: Spark, ran: Calls) -> None:
    """What is not begun stays in the journal, and Spark is not started for it."""
    (folders / "journal").mkdir()

    def step(archiver: Any, everything: bool) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return bool(archiver._options.stopping())

    monkeypatch.setattr("gateway.archive.archiver.Archiver.step", step)
    result = run("--once", "--journal", "journal")
    assert (result.exit_code, ran.count, spark.asked) == (0, 0, ())
    told = "Ends when the segments in work are in the archive; another Ctrl-C or SIGTERM ends it at once.\n"
    assert result.stderr == told


class TestJournal:
    @pytest.fixture
    def journal(self, folders: Path) -> Iterator[Writer]:
        """One with a segment of ten rows."""
        writer = Writer(folders / "journal")
        writer.segments(10)
        yield writer
        writer.close()

    def test_beside(self, folders: Path, journal: Writer, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
        """What comes while the job runs is archived; the job ends when it sees that."""

        def work(*places: Any, stopping: threading.Event, **names: Any) -> None:
            journal.segments(10)
            for _ in range(1000):
                if not found(journal.folder) or stopping.wait(0.02):
                    break

        monkeypatch.setattr(runner, "run", work)
        assert run("--journal", "journal", "--interval", "0.1").exit_code == 0
        assert not found(journal.folder)
        assert len(archive_rows(folders / "archive")) == 20
        assert "archiver" not in {thread.name for thread in threading.enumerate()}

    def test_archiving_fails(self, journal: Writer, spark: Spark, ran: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.archive.archiver.Archiver.step", lambda archiver, everything: False)
        result = run("--once", "--journal", "journal")
        assert (result.exit_code, ran.count) == (1, 0)
        assert "could be archived" in result.stderr


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(300)
def test_ctrl_c(folders: Path) -> None:
    """Spark for real: a Ctrl-C reaches all processes of the terminal, and the batch is finished all the same."""
    write(folders / "archive", [accepted(0.1 * number) for number in range(50)])
    line = (
        "run metrics --archive archive --tables tables --interval 0.5 --master local[1] --conf spark.driver.memory=512m"
    )
    program = "import sys; from gateway.pipeline.command import pipeline; pipeline(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *line.split()],
        env=os.environ | {"XDG_CACHE_HOME": str(folders / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline().decode()
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert first.startswith("metrics     batch 0: 50 rows in ")
    assert (process.returncode, out) == (0, b"")
    assert err.decode().splitlines() == ["Ends when this batch is done; another Ctrl-C or SIGTERM ends it at once."]
    counts = tables.of(folders / "tables", JOBS["metrics"]).read().to_pydict()
    assert sum(counts["count"]) == 50
    assert checkpoints.committed(folders / "tables", "metrics") == 0


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
    chosen = replay.ReplayOptions("2h", "now", "/queue/a", "/queue/b", "stomp://h")
    parts = (ReplayPart("g1", 7, 1, rows, 1000, 2000, rows, 0),) if rows else ()
    return ReplayPlan(chosen, BrokerUrl.of("stomp://h"), "/archive", ReplayRecords(Path()), record, parts)


class TestReplay:
    @pytest.fixture
    def planned(self, monkeypatch: pytest.MonkeyPatch) -> Calls:
        """What `run.plan` was called with."""
        calls = Calls(plan(7))
        monkeypatch.setattr(replay, "plan", calls)
        return calls

    @pytest.fixture
    def sent(self, monkeypatch: pytest.MonkeyPatch, planned: Calls) -> Calls:
        """What `run.run` was called with."""
        calls = Calls(7)
        monkeypatch.setattr(replay, "run", calls)
        return calls

    def test_options_are_passed_on(self, folders: Path, spark: Spark, sent: Calls, planned: Calls) -> None:
        more = ["--where", "size > 1", *"--rate 10 --limit 20 --id x --partial-bodies skip --yes".split()]
        result = invoke(*LINE, *more)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "messages 7" in result.stdout
        of = {"since": "2h", "until": "now", "destination": "/queue/a", "to": "/queue/b", "broker": "stomp://h"}
        chosen = replay.ReplayOptions(**of, where="size > 1", rate=10, limit=20, id="x", partial="skip")
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


SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize(("first", "second"), [SIGNALS, SIGNALS[::-1]])
def test_the_second_one_ends_the_process(first: signal.Signals, second: signal.Signals) -> None:
    """Whatever is behind: no handler of errors has a word, and no thread is waited for."""
    program = (
        "import signal, sys, threading\n"
        "from gateway.pipeline.exits import StopOnSignal\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "with StopOnSignal(lambda text: print(text, flush=True), 'all is over'):\n"
        "    try:\n"
        f"        for number in ({first:d}, {second:d}):\n"
        "            signal.raise_signal(number)\n"
        "    finally:\n"
        "        threading.Event().wait()\n"
    )
    told = python(program)
    assert (told.returncode, told.stderr) == (128 + second, "")
    assert told.stdout == "Ends when all is over; another Ctrl-C or SIGTERM ends it at once.\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_block_that_may_be_left(number: signal.Signals) -> None:
    said: list[str] = []
    reached: list[str] = []
    before = [signal.getsignal(each) for each in SIGNALS]
    with StopOnSignal(said.append, "nothing") as stopping:
        try:
            with stopping.at_once():
                try:
                    os.kill(os.getpid(), number)
                except Exception:  # as libraries do
                    reached.append("a handler of errors")
                reached.append("what comes next")
        finally:
            reached.append("what is cleaned up")
        reached.append("what comes behind")
    assert reached == ["what is cleaned up"]
    assert stopping.event.is_set()
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert said == ["Ends at once: nothing has begun."]
