"""The examples, run as written, each on a gateway with the settings that its first lines name.

README.md shows the page, and a short worker of its own; both name the default ports.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.driver import ROOT, Driver, node_package
from tests.clients.forwarder import Forwarder
from tests.clients.worker import work
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

EXAMPLES = ROOT / "examples"
PATIENCE = 20.0


def broker_of(gateway: GatewayProcess) -> dict[str, str]:
    """The environment of an example that is to find this gateway."""
    return {**os.environ, "STOMP_HOST": HOST, "STOMP_PORT": str(gateway.tcp_port)}


class Program:
    """A running example, and the lines that it prints; `before` is Python that runs ahead of it."""

    def __init__(self, file: str, gateway: GatewayProcess, *arguments: str, before: str = "", **variables: str) -> None:
        path = str(EXAMPLES / file)
        command = ["-c", f"{before}\nimport runpy\nrunpy.run_path({path!r})"] if before else [path]
        self.process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            env={**broker_of(gateway), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.removesuffix("\n"))

    def line(self) -> str:
        return self._lines.get(timeout=PATIENCE)

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Ctrl-D; it must have nothing more to say, and end well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        assert self._lines.empty(), self._lines.get()

    def said(self, status: int = 1) -> str:
        """What it still says on both streams until it ends, with that status."""
        assert self.process.wait(PATIENCE) == status
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        return "\n".join([*self._lines.queue, self.process.stderr.read()])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def started(
    file: str, gateway: GatewayProcess, *arguments: str, before: str = "", **variables: str
) -> Iterator[Program]:
    program = Program(file, gateway, *arguments, before=before, **variables)
    try:
        yield program
    finally:
        program.close()


def printed(file: str, gateway: GatewayProcess, *arguments: str) -> list[str]:
    """What an example prints that ends well."""
    command = [sys.executable, str(EXAMPLES / file), *arguments]
    program = subprocess.run(
        command, env=broker_of(gateway), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (program.returncode, program.stderr) == (0, "")
    return program.stdout.splitlines()


def test_rpc(gateway: GatewayProcess) -> None:
    with started("rpc.py", gateway, "server") as server:
        assert server.line() == "Answering; press Ctrl-C to stop."
        squares = ["3 squared is 9", "4 squared is 16", "12 squared is 144"]
        answers = printed("rpc.py", gateway, "3", "4", "12")
        assert answers == [f"answer {count}: {square}" for count, square in enumerate(squares, 1)]
        assert [server.line() for _ in squares] == [f"answered: {square}" for square in squares]
        server.process.send_signal(signal.SIGINT)
        server.end()


@pytest.mark.parametrize(
    ("file", "arguments", "last"),
    [("rpc.py", ["server"], "The connection is lost."), ("chat.py", ["ada"], "ERROR: "), ("worker.py", [], "ERROR: ")],
)
def test_a_lost_connection_ends_the_program(file: str, arguments: list[str], last: str) -> None:
    with start_gateway() as gateway, started(file, gateway, *arguments, PASSCODE="engine") as program:
        program.line()
        gateway.stop()
        said = program.said()
    assert said.splitlines()[-1].startswith(last)
    assert "ERROR: " in said, "it says why"


def test_work_queue() -> None:
    with start_gateway(config=EXAMPLES / "work_queue.toml") as gateway:
        for _ in range(2):  # the first run leaves nothing behind
            lines = printed("work_queue.py", gateway)
            said = [re.sub(r" after \d\.\d\d s$", "", line) for line in lines]
            assert said == [
                "delivered to ada@example.org",
                "attempt 1 for nobody@example.org failed",
                "delivered to bob@example.org",
                "attempt 2 for nobody@example.org failed",
                "attempt 3 for nobody@example.org failed",
                "dead letter from /queue/mail: nobody@example.org",
                "  max-attempts after 3 attempts: no such mailbox",
            ]
            first, second, third = (float(line.split()[-2]) for line in lines if line.startswith("attempt"))
            assert second - first >= 0.19  # the printed times are rounded
            assert third - second >= 0.39


def test_live_prices() -> None:
    with start_gateway(config=EXAMPLES / "live_prices.toml") as gateway:
        *prices, last = printed("live_prices.py", gateway)
    found = re.fullmatch(r"read (\d+) of 3000 prices, and the last one of each symbol", last)
    assert found is not None, last
    assert int(found[1]) == len(prices) < 300
    seen: dict[str, list[float]] = {}
    for line in prices:
        symbol, price = line.partition(",")[0].split()
        seen.setdefault(symbol, []).append(float(price))
    assert sorted(seen) == ["ACME", "DUFF", "HOOLI"]
    for each in seen.values():
        assert each == sorted(each)
        assert each[-1] == 10.00
        assert len(each) > 3, "all symbols have their turn while the prices pour in"


def test_chat(tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.txt", {"ada": "ada's passcode", "bob": "bob's passcode"})
    with (
        start_gateway(users_file=users) as gateway,
        started("chat.py", gateway, "ada", PASSCODE="ada's passcode") as ada,
        started("chat.py", gateway, "bob", PASSCODE="bob's passcode") as bob,
        started("chat.py", gateway, "bob", PASSCODE="bob's passcode") as phone,
    ):
        assert ada.line() == "You are in the room, ada."
        for each in (bob, phone):
            assert each.line() == "You are in the room, bob."
        ada.type("hello, all")
        ada.type("@bob tea at five?")
        for each in (bob, phone):
            assert [each.line(), each.line()] == ["ada: hello, all", "ada whispers: tea at five?"]
        bob.type("@ada with pleasure")
        assert ada.line() == "bob whispers: with pleasure"
        bob.type("good bye")
        assert [ada.line(), phone.line()] == ["bob: good bye", "bob: good bye"]
        for each in (ada, bob, phone):
            each.end()


README = (ROOT / "README.md").read_text()


def shown(language: str) -> str:
    """The block of README.md in that language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return str(text)


def test_the_readme_is_short_with_a_small_picture_and_the_page() -> None:
    assert shown("js") == (EXAMPLES / "browser.js").read_text()
    assert len(README.split()) <= 900
    assert "(docs/console.webp)" in README
    assert (ROOT / "docs" / "console.webp").stat().st_size < 80_000, "`python -m tests.console.picture` makes it"


WORKING = "Working; press Ctrl-C to stop."


def test_the_worker_answers_the_browser(gateway: GatewayProcess, chromium: Driver, tmp_path: Path) -> None:
    page = shown("js").replace("15674", str(gateway.ws_port))
    (tmp_path / "worker.py").write_text(shown("python").replace("61613", str(gateway.tcp_port)))
    with started(str(tmp_path / "worker.py"), gateway) as worker:
        assert worker.line() == "Working; press Enter to stop."
        said = chromium.run("example", origin=f"{gateway.http_url}/", source=page, context={"bypassCSP": True})
        worker.type("")
        assert worker.said(0) == ""
    assert said == "tea for two: done"


def test_react_hooks(gateway: GatewayProcess, ws_relay: Forwarder, node: Driver, name: str) -> None:
    for package in ("react", "react-test-renderer"):
        node_package(package)
    job = {"helper": "../../static/client/index.js", "hooks": "../../examples/react_hook.js", "name": name}
    job |= {"file": "react_hook.mjs", "url": f"ws://{HOST}:{ws_relay.port}/ws"}
    node.run("hooks", {"cut": ws_relay.cut}, **job)


FAILING_ONCE = """
import stomp
send, left = stomp.Connection12.send, ["tea: done"]
def fail(connection, destination, body):
    if body in left:
        left.remove(body)
        raise ValueError("no tea")
    send(connection, destination, body)
stomp.Connection12.send = fail
"""


def test_a_job_that_fails_comes_again_and_does_not_stop_the_worker() -> None:
    """What the worker does with its jobs is to send, so this is what fails here, for one job and once."""
    with start_gateway() as gateway, work("1.2", gateway.tcp_port) as client:
        client.subscribe("/topic/done")
        with started("worker.py", gateway, before=FAILING_ONCE) as worker:
            assert worker.line() == WORKING
            for job in ("tea", "coffee"):
                client.send("/queue/work", job)
            assert sorted(client.bodies(2)) == ["coffee: done", "tea: done"]
            worker.process.terminate()
            errors = worker.said(0)
    assert errors.count("Traceback") == 1
    assert "ERROR:root:'tea' failed" in errors
    assert errors.endswith("ValueError: no tea\n")


def test_a_refused_login_ends_the_worker(tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.txt", {"alice": "tea"})
    with (
        start_gateway(users_file=users) as gateway,
        started("worker.py", gateway, STOMP_LOGIN="alice", STOMP_PASSCODE="no") as worker,
    ):
        (told,) = worker.said().splitlines()
    assert told.startswith("ERROR: login refused: ")
    with started("worker.py", gateway) as worker:
        said = worker.said()
    assert "Connection refused" in said
    assert "Traceback" not in said
