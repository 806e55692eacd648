"""The two examples of the README, which shows them word for word, run as written but for the page's default port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.driver import ROOT, Driver
from tests.clients.worker import work
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

EXAMPLES = {"python": "worker.py", "js": "browser.js"}


WORKING = "Working; press Ctrl-C to stop.\n"


def broker_of(gateway: GatewayProcess) -> dict[str, str]:
    """The environment of an example in Python that is to find this gateway."""
    return {**os.environ, "STOMP_HOST": HOST, "STOMP_PORT": str(gateway.tcp_port)}


@contextmanager
def started_worker(gateway: GatewayProcess, *before: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """examples/worker.py at work; `before` are lines of Python that run ahead of it."""
    file = str(ROOT / "examples" / "worker.py")
    command = ["-c", "\n".join([*before, "import runpy", f"runpy.run_path({file!r})"])] if before else [file]
    worker = subprocess.Popen(
        [sys.executable, *command],
        env={**broker_of(gateway), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == WORKING
        yield worker
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.parametrize(("language", "file"), EXAMPLES.items())
def test_the_readme_shows_the_example(language: str, file: str) -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert (ROOT / "examples" / file).read_text() in blocks, f"README.md does not show examples/{file} as it is"


def test_the_worker_answers_the_browser(gateway: GatewayProcess, chromium: Driver) -> None:
    page = (ROOT / "examples" / "browser.js").read_text()
    with started_worker(gateway) as worker:
        said = chromium.run(
            "example",
            origin=f"{gateway.http_url}/",
            source=page.replace("15674", str(gateway.ws_port)),
            context={"bypassCSP": True},
        )
        worker.send_signal(signal.SIGINT)
        output, errors = worker.communicate(timeout=20)
    assert said == "tea for two: done"
    assert (worker.returncode, output, errors) == (0, "", "")


def test_a_job_that_fails_does_not_stop_the_worker() -> None:
    """It comes again.

    What the worker does with its jobs is to send, so this is what fails here, for one job and once.
    """
    once = """
import stomp
send, left = stomp.Connection12.send, ["tea: done"]
def fail(connection, destination, body):
    if body in left:
        left.remove(body)
        raise ValueError("no tea")
    send(connection, destination, body)
stomp.Connection12.send = fail
"""
    with start_gateway() as gateway, work("1.2", gateway.tcp_port) as client:
        client.subscribe("/topic/done")
        with started_worker(gateway, once) as worker:
            for job in ("tea", "coffee"):
                client.send("/queue/work", job)
            assert sorted(client.bodies(2)) == ["coffee: done", "tea: done"]
            worker.send_signal(signal.SIGTERM)
            _, errors = worker.communicate(timeout=20)
    assert worker.returncode == 0
    assert errors.count("Traceback") == 1
    assert "ERROR:root:'tea' failed" in errors
    assert errors.endswith("ValueError: no tea\n")


def test_a_refused_login_ends_the_worker(tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.txt", {"alice": "tea"})
    with start_gateway(users_file=users) as gateway:
        refused = run_worker({**broker_of(gateway), "STOMP_LOGIN": "alice", "STOMP_PASSCODE": "no"})
    nobody = run_worker(broker_of(gateway))
    assert (refused.returncode, refused.stdout) == (1, "")
    (told,) = refused.stderr.splitlines()
    assert told.startswith("ERROR: login refused: ")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "Connection refused" in nobody.stderr
    assert "Traceback" not in nobody.stderr


def run_worker(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    file = str(ROOT / "examples" / "worker.py")
    return subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def test_a_lost_connection_ends_the_worker() -> None:
    with start_gateway() as gateway, started_worker(gateway) as worker:
        gateway.stop()
        _, errors = worker.communicate(timeout=20)
    assert worker.returncode == 1
    (told,) = errors.splitlines()
    assert told.startswith("ERROR: ")
