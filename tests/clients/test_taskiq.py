"""examples/taskiq_tasks.py, with the worker of taskiq as a process; and what becomes of messages that are no tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.testing import LocalGateway, start_gateway
from tests.clients.driver import ROOT

EXAMPLES = ROOT / "examples"
PATIENCE = 60.0
TASKS, FAILED = "/queue/tasks", "/queue/tasks.failed"


@pytest.fixture
def started() -> Iterator[LocalGateway]:
    with start_gateway(EXAMPLES / "taskiq_tasks.toml") as found:
        yield found


def environment(started: LocalGateway) -> dict[str, str]:
    # The worker finds its tasks as Python does.
    path = os.pathsep.join([str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "STOMP_HOST": started.host, "STOMP_PORT": str(started.port)}


def send_tasks(started: LocalGateway) -> None:
    command = [sys.executable, EXAMPLES / "taskiq_tasks.py"]
    subprocess.run(command, env=environment(started), check=True, timeout=PATIENCE)


class Worker:
    """`taskiq worker`, and what it has shown."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    def letters(self) -> list[str]:
        """The letters that were written, in their order."""
        lines = self._output.read_text().splitlines()
        return [line.removeprefix("a letter to ") for line in lines if line.startswith("a letter to ")]


@contextmanager
def worker(started: LocalGateway, folder: Path, *options: str) -> Iterator[Worker]:
    output = folder / "worker.log"
    command = [sys.executable, "-m", "taskiq", "worker", "taskiq_tasks:broker", "--workers", "1", *options]
    with output.open("ab") as log:
        process = subprocess.Popen(
            command, env=environment(started), cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield Worker(process, output)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    except BaseException:
        print(output.read_text())
        raise
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def test_a_worker(started: LocalGateway, tmp_path: Path) -> None:
    send_tasks(started)
    assert [each.headers["task-name"] for each in started.messages(TASKS)] == ["write"] * 4
    assert [each.delayed for each in started.messages(TASKS)] == [False, False, False, True]
    started.send(TASKS, "{}", {"task-name": "unknown"})
    with worker(started, tmp_path, "--max-async-tasks", "1") as running:
        started.wait_until(lambda: len(running.letters()) == 2, PATIENCE)
        assert running.letters() == ["Alice, urgent", "Bob"]
        stranger, *_ = started.wait_until(lambda: started.messages(FAILED), PATIENCE)
        assert (stranger.text, stranger.headers["reason"]) == ("{}", "no task of this worker: unknown")

        def has_failed() -> bool:
            started.advance(1)  # the back-off, and the delay
            return len(started.messages(FAILED)) == 2

        started.wait_until(has_failed, PATIENCE)
        failed = started.messages(FAILED)[1]
        assert failed.headers["reason"] == "ValueError: there is no such address"
        assert failed.headers["dlq-attempts"] == "3"
        started.advance(2)
        started.wait_until(lambda: running.letters()[2:] == ["Carol, who has time"], PATIENCE)
        started.wait_until(lambda: not started.unacknowledged(TASKS), PATIENCE)
    assert not started.messages(TASKS)


def test_a_lost_connection(started: LocalGateway, tmp_path: Path) -> None:
    with worker(started, tmp_path) as running:
        started.wait_until(lambda: started.subscribers(TASKS), PATIENCE)
        started.disconnect()
        started.wait_until(lambda: not started.subscribers(TASKS), PATIENCE)
        send_tasks(started)
        started.wait_until(lambda: len(running.letters()) == 2, PATIENCE)


def test_no_server(tmp_path: Path) -> None:
    """The program that sends says so."""
    with start_gateway() as ended:
        variables = environment(ended)
    command = [sys.executable, EXAMPLES / "taskiq_tasks.py"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "ConnectionLost: cannot connect to 127.0.0.1" in done.stderr.splitlines()[-1]
