"""Real server processes: each way to start the gateway serves STOMP and HTTP, drains, and refuses as it should."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.app.process import BIN, DEADLINE, HYPERCORN, SERVE, connect, read_to_end, server

ROOT = Path(__file__).parent.parent.parent

WAYS = {
    "hypercorn": HYPERCORN,
    "hypercorn -k trio": [*HYPERCORN, "-k", "trio"],
    "hypercorn -k uvloop": [*HYPERCORN, "-k", "uvloop"],
    "hypercorn -w 0": [*HYPERCORN, "-w", "0"],
    "gateway serve": SERVE,
    "python -m gateway serve": [str(BIN / "python"), "-m", "gateway", "serve"],
}
SPAWNING = ["hypercorn", "hypercorn -k trio", pytest.param("hypercorn -k uvloop", marks=pytest.mark.long)]

every_way = pytest.mark.parametrize("way", WAYS)
every_spawning_way = pytest.mark.parametrize("way", SPAWNING)


def assert_farewell(client: socket.socket) -> None:
    farewell = read_to_end(client)
    assert b"ERROR\n" in farewell
    assert b"retry-after:" in farewell


@every_way
def test_serves_and_drains(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path) as running:
        client = connect(running.tcp_port())
        assert running.get("/healthz") == (200, {"status": "alive"})
        assert running.get("/readyz") == (200, {"status": "ready"})
        status, listed = running.get("/api/v1/sessions")
        assert (status, [row["version"] for row in listed["sessions"]]) == (200, ["1.2"])
        running.process.send_signal(signal.SIGINT if way.startswith("python") else signal.SIGTERM)
        assert_farewell(client)
        assert running.wait() == 0
        assert "Traceback" not in running.log
        hints = [event for event in running.events() if "hypercorn -k trio" in event["event"]]
        assert len(hints) == (way in {"hypercorn", "hypercorn -k uvloop", "hypercorn -w 0"})


def test_make_run_listens_where_the_setting_says(tmp_path: Path) -> None:
    # The last line of the recipe: what comes before only brings what is missing.
    command = ["make", "--dry-run", "--old-file=.venv/runtime", "--no-print-directory", "run", f"BIN={BIN}"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    with server(["sh", "-c", lines[-1]], tmp_path, http=f"127.0.0.2:0,unix:{tmp_path}/a b") as running:
        running.tcp_port()
        running.await_in_log("Running on http://127.0.0.2:")
        running.await_in_log(f"Running on http://unix:{tmp_path}/a b (CTRL + C to quit); the console is at /console/")
        assert "asyncio" not in running.log, "our own command is not to need our own advice"
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0


@every_spawning_way
@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        ([], {"tcp": "foo"}, "tcp (GATEWAY_TCP) is wrong: 'foo' is not an address"),
        (["-w", "2"], {}, "start the server with one worker (hypercorn: -w 1)"),
    ],
)
def test_a_refusal_under_hypercorn(
    tmp_path: Path, way: str, arguments: list[str], settings: dict[str, str], sentence: str
) -> None:
    """One sentence, no traceback.  hypercorn itself ends with 0 after its worker failed."""
    with server([*WAYS[way], *arguments], tmp_path, **settings) as running:
        assert running.wait() == 0
    assert "Traceback" not in running.log
    (line,) = [line for line in running.log.splitlines() if line.startswith("gateway: ")]
    assert sentence in line


@every_spawning_way
def test_a_worker_drains_though_its_group_gets_sigterm(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path) as running:
        client = connect(running.tcp_port())
        running.http_port()
        os.killpg(running.process.pid, signal.SIGTERM)
        assert_farewell(client)
        assert running.wait() == 0
        assert "stopped" in [event["event"] for event in running.events()]


@every_spawning_way
def test_a_worker_whose_parent_was_killed_drains_and_ends(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path) as running:
        client = connect(running.tcp_port())
        running.http_port()
        worker = running.child()
        running.process.kill()
        assert_farewell(client)
        deadline = time.monotonic() + DEADLINE
        while Path(f"/proc/{worker}").exists() and "State:\tZ" not in Path(f"/proc/{worker}/status").read_text():
            assert time.monotonic() < deadline, running.log
            time.sleep(0.02)
        assert "the gateway failed" in [event["event"] for event in running.events()]
