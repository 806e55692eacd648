"""`gateway pipeline run`: what it hands on, the archiver beside it, and how it ends.

Spark is a stand-in here, but for one run in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.archive.archiver import Archiver
from gateway.archive.layout import ArchiveError
from gateway.journal import found
from gateway.pipeline import tables
from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.report import build, page
from gateway.pipeline.spark import session
from gateway.pipeline.streaming import checkpoints, runner
from gateway.pipeline.streaming.progress import BatchReport
from tests.archive.desk import Writer, archive_rows
from tests.pipeline.rows import accepted, write

from .commands import Calls, Spark, folders, invoke, ran, run, spark

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


def test_all(spark: Spark, ran: Calls) -> None:
    assert invoke("run", "all", "--archive", "s3a://b/a", "--tables", "t").exit_code == 0
    assert spark.asked[:2] == (None, None)
    assert ran.places[1:3] == (list(JOBS.values()), "s3a://b/a")
    assert ran.names["files"] == runner.FILES


def test_reset(folders: Path, spark: Spark, ran: Calls) -> None:
    kept, gone = folders / "tables" / "sessions" / "x.parquet", folders / "tables" / "metrics" / "x.parquet"
    for path in (kept, gone):
        path.parent.mkdir(parents=True)
        path.touch()
    assert run("--reset-checkpoint").exit_code == 0
    assert kept.exists()
    assert not gone.exists()


def test_a_signal_while_spark_starts(monkeypatch: pytest.MonkeyPatch, spark: Spark, ran: Calls) -> None:
    def start(*asked: Any) -> Spark:
        os.kill(os.getpid(), signal.SIGTERM)
        return spark

    monkeypatch.setattr(session, "session", start)
    result = run()
    assert (result.exit_code, ran.count) == (0, 0)
    assert result.stderr == "Ends at once: nothing has begun.\n"


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


def test_standard_output_is_json_alone(monkeypatch: pytest.MonkeyPatch, spark: Spark) -> None:
    def work(*places: Any, progress: Any, **names: Any) -> None:
        progress.batch(BatchReport("metrics", 3, 10, 0.5, None, 0))
        progress.say("a sentence")

    monkeypatch.setattr(runner, "run", work)
    result = run("--json")
    assert json.loads(result.stdout)["batch"] == 3
    assert result.stderr == "a sentence\n"


class TestJournal:
    @pytest.fixture
    def journal(self, folders: Path) -> Iterator[Writer]:
        """One with a segment of ten rows."""
        writer = Writer(folders / "journal")
        writer.segments(10)
        yield writer
        writer.close()

    @staticmethod
    def raw(folders: Path) -> int:
        return len(list((folders / "archive").glob("raw/*/*/[!_]*.parquet")))

    def test_once(self, folders: Path, journal: Writer, spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int] = []
        monkeypatch.setattr(runner, "run", lambda *places, **names: seen.append(self.raw(folders)))
        assert run("--once", "--journal", "journal").exit_code == 0
        assert seen == [1]

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

    def test_a_failure_is_reported_once(
        self, folders: Path, journal: Writer, spark: Spark, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried = threading.Semaphore(0)

        def fail(*places: Any) -> int:
            tried.release()
            raise ArchiveError("a manifest makes no sense")

        def work(*places: Any, **names: Any) -> None:
            assert tried.acquire(timeout=20)

        monkeypatch.setattr("gateway.archive.compact.expire_raw", fail)
        monkeypatch.setattr(runner, "run", work)
        result = run("--journal", "journal", "--interval", "0.1")
        assert (result.exit_code, result.stderr) == (0, "old files cannot be deleted: a manifest makes no sense\n")

    def test_before_a_report(
        self, folders: Path, journal: Writer, spark: Spark, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(build, "report", Calls("figures"))
        monkeypatch.setattr(page, "page_of", Calls("page"))
        assert invoke("report", "--archive", "archive", "--journal", "journal").exit_code == 0
        assert self.raw(folders) == 1

    def test_another_archiver(self, journal: Writer, spark: Spark, ran: Calls) -> None:
        with Archiver(Path("journal"), Path("archive")):
            result = run("--journal", "journal")
        assert (result.exit_code, ran.count) == (1, 0)
        assert len(result.stderr.splitlines()) == 1

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
