"""Talks with a node program that drives @stomp/stompjs: one JSON object a line, jobs in, results out.

    test -> program   {"scenario": "binary", ...}          a job
    program -> test   {"ask": "cut"}                       the scenario wants something done that only the test can do
    test -> program   {}                                   it is done
    program -> test   {"passed": ...} or {"failed": "..."} the job's end

The programs (`node.mjs`, `chromium.mjs`) stay up over many jobs, because Chromium is slow to start.  Every wait is
bounded; a program that says nothing shows what it wrote to its standard error.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
JOB_TIMEOUT = 60.0


def tool(name: str) -> str:
    """The path of a program that `make test` installs."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    assert found, f"{name} is missing, and this test needs it: `make test` installs it, or `tests/install-tools tests`"
    return found


def node_package(name: str) -> None:
    assert (ROOT / "node_modules" / name).is_dir(), f"node's package {name} is missing: run `tests/install-tools tests`"


class Driver:
    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def run(self, scenario: str, answers: Mapping[str, Callable[[], None]] | None = None, **job: Any) -> Any:
        """Run one job; what the scenario asks for is done by `answers`; returns what it reports."""
        self._say({"scenario": scenario, **job})
        while True:
            heard = self._hear(scenario)
            if "ask" in heard:
                (answers or {})[heard["ask"]]()
                self._say({})
                continue
            assert "failed" not in heard, f"{scenario}: {heard['failed']}"
            return heard["passed"]

    def _say(self, value: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def _hear(self, scenario: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=JOB_TIMEOUT)
        except queue.Empty:
            line = ""
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"{scenario}: no word from the program; its errors:\n{self._errors.read()}")
        heard: dict[str, Any] = json.loads(line)
        return heard


@contextmanager
def start_driver(program: str, *arguments: str) -> Iterator[Driver]:
    """A node program of this folder for the time of the block; the end of its input ends it."""
    for name in ("@stomp/stompjs", "@stomp/rx-stomp", "ws", "playwright-core"):
        node_package(name)
    with tempfile.TemporaryFile("w+") as errors:
        command = [tool("node"), str(HERE / program), *arguments]
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Driver(process, errors)
            process.stdin.close()
            process.wait(timeout=20)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
