"""The JVM goes with us: processes of our own with a `java` that never answers, and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.pipeline.spark import jvm
from tests.pipeline.commands import python

PROGRAM = "import sys; from gateway.pipeline.command import pipeline; pipeline(sys.argv[1:])"
REPORT = "report --archive archive --since 1h"
RUN = "run metrics --archive archive --tables tables"
REPLAY = "replay --archive archive --tables tables --destination /queue/a --to /queue/b --broker stomp://h --yes"
NEVER = "exec 9>{alive}\nsleep 1000\n"
# Spark's launcher is a `java`, too: it says the command of the second one, which never answers here.
SECOND = """case "$*" in *launcher.Main*) printf '\\0\\n%s\\0last\\0' "$0"; exit 0;; esac\n""" + NEVER


def java(folder: Path, body: str) -> dict[str, str]:
    """A `java` that says its version, and otherwise does that; the environment that names it."""
    script = folder / "home" / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"""#!/bin/sh\n[ "$1" = -version ] && exec echo 'openjdk version "17"'\n{body}\n""")
    script.chmod(0o755)
    (folder / "tmp").mkdir()
    own = {"JAVA_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | own


@pytest.mark.parametrize(
    ("which", "line", "number", "status", "said"),
    [
        ("spark", RUN, signal.SIGINT, 0, "Ends at once: nothing has begun."),
        *[
            pytest.param(which, *more, marks=pytest.mark.long)
            for which in ("launcher", "spark")
            for more in (
                (REPORT, signal.SIGINT, 130, "Aborted: report.html is not written."),
                (REPORT, signal.SIGTERM, -signal.SIGTERM, ""),
                (RUN, signal.SIGTERM, 0, "Ends at once: nothing has begun."),
                (REPLAY, signal.SIGINT, 0, "Ends at once: nothing has begun."),
            )
        ],
    ],
)
def test_a_signal_while_it_starts(
    tmp_path: Path, which: str, line: str, number: signal.Signals, status: int, said: str
) -> None:
    (tmp_path / "archive").mkdir()
    os.mkfifo(alive := tmp_path / "alive")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *line.split()],
        env=java(tmp_path, {"launcher": NEVER, "spark": SECOND}[which].format(alive=alive)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process, alive.open("rb") as lives:  # which it is as soon as the child has begun
        try:
            process.send_signal(number)
            out, err = process.communicate(timeout=50)
            assert lives.read() == b""  # the end: no process holds it
        finally:
            process.kill()
    assert (process.returncode, out, err.strip()) == (status, "", said)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_child_that_ends_without_an_answer(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    environment = java(tmp_path, SECOND.replace(NEVER, "echo Error: so it is >&2; exit 3"))
    told = python(PROGRAM, *REPORT.split(), env=environment, cwd=tmp_path)
    log = tmp_path / "cache" / "stomp-gateway" / "spark-gateway-pipeline-report.log"
    assert (told.returncode, told.stderr) == (3, f"Error: Spark did not start: Error: so it is; its log is {log}\n")


def test_a_signal_waits_until_the_child_is_known() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with jvm.deferred():
            signal.raise_signal(signal.SIGINT)
            assert not came
        assert came == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_child_that_does_not_end() -> None:
    """Nor do its own children; it is killed with them, and processes of other groups live."""
    command = ["sh", "-c", "trap '' TERM; sleep 1000 & echo; wait; sleep 1000"]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
            assert process.stdout.readline() == b"\n"
            jvm.end(process, 0.1)
            assert process.returncode == -signal.SIGKILL
            assert process.stdout.read() == b""
            jvm.end(process)  # it has ended already
            process.stdout.close()
            assert other.poll() is None
        finally:
            other.kill()
