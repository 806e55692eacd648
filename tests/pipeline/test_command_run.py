"""`gateway pipeline run`: what it hands on, the archiver beside it, and how it ends.

Spark is a stand-in here, but for one run in a process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.journal import found
from gateway.pipeline import tables
from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.streaming import checkpoints, runner
from tests.archive.desk import Writer, archive_rows
from tests.pipeline.rows import accepted, write

from .commands import Calls, Spark, folders, ran, run, spark

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
