"""`gateway pipeline` from outside: what all commands have in common, the small ones, and the page about them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException

from gateway.archive.archiver import Archiver
from gateway.archive.layout import ArchiveError
from gateway.pipeline import command
from gateway.pipeline.errors import EnvironmentFailure, JobFailure, UsageFailure
from gateway.pipeline.jobs import JOBS, consumers, deadletters
from gateway.pipeline.spark import doctor, session
from gateway.pipeline.spark.doctor import Finding
from gateway.pipeline.streaming import checkpoints, runner
from tests.archive.desk import Writer

from .commands import Calls, Spark, folders, invoke, python, run, spark

__all__ = ["folders", "spark"]

pytestmark = pytest.mark.usefixtures("folders")

RUN = "run metrics --archive archive --tables tables"
TOO_MUCH = "Total size of serialized results of 9 tasks is bigger than spark.driver.maxResultSize (1024.0 MiB)"
SMALLER = (
    "run it with --conf spark.driver.maxResultSize=4g --conf spark.driver.memory=6g; a batch of a job that was begun "
    "needs that in any case, and --files 20 makes the next ones smaller"
)


class TestGroup:
    def test_nothing_heavy_is_imported(self) -> None:
        program = (
            "import sys, gateway.pipeline.command\n"
            "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'py4j', 'grpc', 'trio'}\n"
            "print(heavy & {name.partition('.')[0] for name in sys.modules})\n"
        )
        assert python(program).stdout == "set()\n"

    @pytest.mark.parametrize(
        ("error", "status", "sentence"),
        [
            (UsageFailure("so not"), 2, "so not"),
            (EnvironmentFailure("no Java"), 3, "no Java"),
            (ImportError("x", name="pyarrow.parquet"), 3, f"pyarrow.parquet cannot be imported: {session.NEEDED}"),
            (OSError(28, "No space left on device", "/tables/x"), 1, "/tables/x: No space left on device"),
            (ArchiveError("the manifest makes no sense"), 1, "the manifest makes no sense"),
            (pa.ArrowInvalid("not a Parquet file\nat all"), 1, "not a Parquet file"),
            (PySparkException(f"[X] {TOO_MUCH}"), 1, f"{TOO_MUCH}: {SMALLER}"),
            (JobFailure("x failed: Lost task: TaskResultLost"), 1, f"x failed: Lost task: TaskResultLost: {SMALLER}"),
        ],
    )
    def test_a_failure_is_a_sentence(
        self, monkeypatch: pytest.MonkeyPatch, spark: Spark, error: Exception, status: int, sentence: str
    ) -> None:
        monkeypatch.setattr(runner, "run", Calls(error))
        result = run()
        assert (result.exit_code, result.stdout, result.stderr) == (status, "", f"Error: {sentence}\n")

    @pytest.mark.parametrize("error", [ZeroDivisionError(), ImportError("x", name="gateway.nothing")])
    def test_a_bug_is_not_hidden(self, monkeypatch: pytest.MonkeyPatch, spark: Spark, error: Exception) -> None:
        monkeypatch.setattr(runner, "run", Calls(error))
        with pytest.raises(type(error)):
            CliRunner().invoke(command.pipeline, RUN.split(), catch_exceptions=False)

    @pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
    def test_without_a_package(self, folders: Path, missing: str) -> None:
        """In a process that cannot import it: each command ends with one sentence."""
        lines = [
            ["run", "all", "--archive", "archive", "--tables", "tables"],
            ["report", "--archive", "archive"],
            ["replay", *"--archive archive --tables tables --destination # --to /queue/b --broker stomp://h".split()],
        ]
        if missing == "pyarrow":
            lines += [["compact", "--archive", "archive"], ["status", "--archive", "archive", "--tables", "tables"]]
        if missing == "pyspark":
            lines.append(["submit-command", "all", *"--archive a --tables t --master spark://h:1".split()])
        program = (
            "import json, sys\n"
            f"sys.modules[{missing!r}] = None\n"
            "from click.testing import CliRunner\n"
            "from gateway.pipeline.command import pipeline\n"
            "for line in json.loads(sys.argv[1]):\n"
            "    result = CliRunner().invoke(pipeline, line)\n"
            "    print(json.dumps([result.exit_code, result.output]))\n"
        )
        told = python(program, json.dumps(lines), check=True)
        expected = f"Error: {missing} is not installed: pip install 'stomp-gateway[pipeline,java]'\n"
        assert [json.loads(line) for line in told.stdout.splitlines()] == [[3, expected]] * len(lines)

    def test_logs_of_libraries_stay_off_the_terminal(self, folders: Path) -> None:
        """In a process where Spark says what it does at a Ctrl-C, and of an expression that it cannot read."""
        program = (
            "import logging, sys\n"
            "from pyspark.logger import PySparkLogger\n"
            "from gateway.pipeline.spark import session\n"
            "from gateway.pipeline.command import pipeline\n"
            "def start(*asked):\n"
            "    for name in ('SQLQueryContextLogger', 'DataFrameQueryContextLogger'):\n"
            "        PySparkLogger.getLogger(name).exception('a stack trace', error='x')\n"
            "    logging.getLogger('py4j.clientserver').exception('another')\n"
            "    logging.exception('KeyboardInterrupt while sending command.')\n"
            "    raise KeyboardInterrupt\n"
            "session.session = start\n"
            "pipeline(sys.argv[1:])\n"
        )
        told = python(program, "report", "--archive", "archive", "--since", "1h")
        assert (told.returncode, told.stdout, told.stderr.strip()) == (130, "", "Aborted: report.html is not written.")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{RUN} --interval 0.05", "must be 100 ms or longer"),
        (f"{RUN} --stuck-after 1y", "'1y' is no duration; write one like 60s, 5m or 2h"),
        (f"{RUN} --conf spark.x", "is no setting of Spark; write spark.name=value"),
        (f"{RUN} --remote sc://h", "run cannot use --remote"),
        ("run all --tables t", "--archive is missing: give it, or set archive in gateway.toml or GATEWAY_ARCHIVE"),
        ("report --archive archive --master local --remote sc://h", "--master and --remote exclude each other"),
        ("report --archive archive --since now --until yesterday", "is empty: --until must be later"),
        ("compact --archive s3a://bucket/a", "is not on this machine"),
    ],
)
def test_usage_errors(spark: Spark, line: str, sentence: str) -> None:
    result = invoke(*line.split())
    assert (result.exit_code, spark.asked) == (2, ())
    assert sentence in result.stderr


class TestOthers:
    @pytest.mark.parametrize(("remedy", "status"), [("", 0), ("Mend it", 3)])
    def test_doctor(self, monkeypatch: pytest.MonkeyPatch, remedy: str, status: int) -> None:
        monkeypatch.setattr(doctor, "examine", lambda: iter([Finding("a", "b", remedy), Finding("c", "d")]))
        text, told = invoke("doctor"), invoke("doctor", "--json")
        assert (text.exit_code, told.exit_code, text.stdout.splitlines()[1]) == (status, status, "ok   c: d")
        assert [json.loads(line)["remedy"] for line in told.stdout.splitlines()] == [remedy, ""]

    def test_compact(self, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        writer = Writer(folders / "journal")
        writer.segments(10, 10)
        writer.close()
        with Archiver(folders / "journal", folders / "archive") as archiver:
            archiver.step(everything=True)
        assert invoke("compact", "--archive", "archive", "--before", "2023-11-14").stderr == ""
        result = invoke("compact", "--archive", "archive")
        assert result.exit_code == 0
        assert "raw files into 1, 20 rows" in result.stderr
        monkeypatch.setattr("gateway.archive.compact.compact", Calls(False))
        result = invoke("compact", "--archive", "archive")
        assert result.exit_code == 1
        assert "not all of the archive" in result.stderr

    def test_status(self, folders: Path) -> None:
        assert invoke("status", "--archive", "archive").stdout.splitlines()[0] == "journal      not known here"
        (folders / "tables" / "_checkpoints").mkdir(parents=True)
        checkpoints.note_failure(folders / "tables", "metrics", "it broke")
        result = invoke("status", "--archive", "archive", "--tables", "tables")
        assert (result.exit_code, result.stderr) == (1, "")
        assert ": it broke\n" in result.stdout
        shown = invoke("status", "--archive", "archive", "--tables", "tables", "--journal", "j", "--json").stdout
        assert (json.loads(shown)["journal"], len(json.loads(shown)["jobs"])) == ([], 4)

    def test_submit_command(self, folders: Path) -> None:
        more = "--once --publish stomp://h/topic/a --interval 5s --stuck-after 2m --reset-checkpoint --json".split()
        line = ["submit-command", "all", "--master", "spark://h:7077", "--archive", "archive", "--tables", "tables"]
        result = invoke(*line, *more, "--conf", "spark.a=b")
        assert result.exit_code == 0
        [told] = result.stdout.splitlines()
        places = f"--archive {folders}/archive --tables {folders}/tables"
        expected = f"driver.py run all {places} --interval 5 --stuck-after 120 --files 200"
        assert told.endswith(f"{expected} --publish stomp://h/topic/a --once --reset-checkpoint --json")
        assert "--conf spark.a=b " in told
        assert "GATEWAY_PIPELINE_PASSCODE" in result.stderr
        # What it prints is what `run` takes.
        words = told.partition("driver.py run ")[2].split()
        context = command.run.make_context("run", words)
        assert context.params["stuck_after"] == 120


class TestPage:
    PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")

    def test_it_has_all_commands(self) -> None:
        for name in command.pipeline.commands:
            assert f"`{name}" in self.PAGE or f"pipeline {name}" in self.PAGE

    @pytest.mark.parametrize("name", JOBS)
    def test_its_columns_are_those_of_the_jobs(self, name: str) -> None:
        lists = {"deadletters": deadletters.COLUMNS, "consumers": consumers._table([]).column_names}
        columns = {*JOBS[name].keys, *JOBS[name].merges, *lists.get(name, ())}
        section = re.split(r"^(?:\*\*|## )", self.PAGE.partition(f"\n**{name}**")[2], maxsplit=1, flags=re.MULTILINE)[0]
        named = re.findall(r"^\* ([^:(]*)", section, re.MULTILINE)
        assert {column for names in named for column in re.findall(r"`(\w+)`", names)} == columns
