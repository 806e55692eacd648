"""The JVM goes with us: processes of our own with a `java` that never answers, and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.pipeline.spark import java
from tests.pipeline.spark.fake_java import environment

PROGRAM = "import sys; from gateway.pipeline.command import pipeline; pipeline(sys.argv[1:])"
REPORT = "report --archive archive --since 1h"
RUN = "run metrics --archive archive --tables tables"
REPLAY = "replay --archive archive --tables tables --destination /queue/a --to /queue/b --broker stomp://h --yes"
NEVER = "exec 9>{alive}\nsleep 1000\n"
# Spark's launcher is a `java`, too: it says the command of the second one, which never answers here.
SECOND = """case "$*" in *launcher.Main*) printf '\\0\\n%s\\0last\\0' "$0"; exit 0;; esac\n""" + NEVER


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
    (temporary := tmp_path / "tmp").mkdir()
    os.mkfifo(alive := tmp_path / "alive")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *line.split()],
        env=environment(
            tmp_path, {"launcher": NEVER, "spark": SECOND}[which].format(alive=alive), TMPDIR=str(temporary)
        ),
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
    assert list(temporary.iterdir()) == []


def test_a_signal_waits_until_the_child_is_known() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with java.deferred():
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
            java.end(process, 0.1)
            assert process.returncode == -signal.SIGKILL
            assert process.stdout.read() == b""
            java.end(process)  # it has ended already
            process.stdout.close()
            assert other.poll() is None
        finally:
            other.kill()
