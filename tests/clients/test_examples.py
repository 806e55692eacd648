"""The examples, run as written, each on a gateway with the settings that its first lines name.

The default port in them is replaced by that of the test's gateway; nothing else is.  examples/worker.py and
examples/browser.js are in test_readme.py.
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

from tests.clients.driver import ROOT
from tests.clients.test_readme import as_run
from tests.gateway_process import GatewayProcess, start_gateway

EXAMPLES = ROOT / "examples"
PATIENCE = 20.0


class Program:
    """A running example, and the lines that it prints."""

    def __init__(self, file: str, gateway: GatewayProcess, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", as_run(file, gateway), *arguments],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.removesuffix("\n"))

    def line(self) -> str:
        """The next line."""
        return self._lines.get(timeout=PATIENCE)

    def type(self, line: str) -> None:
        """What its user types."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Ctrl-D; it must have nothing more to say, and end well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        assert self._lines.empty(), self._lines.get()

    def close(self) -> None:
        """It ends at the latest now."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def started(file: str, gateway: GatewayProcess, *arguments: str, **variables: str) -> Iterator[Program]:
    """An example for the time of the block."""
    program = Program(file, gateway, *arguments, **variables)
    try:
        yield program
    finally:
        program.close()


def printed(file: str, gateway: GatewayProcess, *arguments: str) -> list[str]:
    """What an example prints until it ends by itself."""
    command = [sys.executable, "-c", as_run(file, gateway), *arguments]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.parametrize("file", ["rpc.py", "chat.py"])
def test_who_does_not_know_how_is_told(file: str, gateway: GatewayProcess) -> None:
    command = [sys.executable, "-c", as_run(file, gateway)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    assert f"python {file}" in ended.stderr


def test_rpc(gateway: GatewayProcess) -> None:
    with started("rpc.py", gateway, "server") as server:
        assert server.line() == "Answering; press Ctrl-C to stop."
        squares = ["3 squared is 9", "4 squared is 16", "12 squared is 144"]
        answers = printed("rpc.py", gateway, "3", "4", "12")
        assert answers == [f"answer {count}: {square}" for count, square in enumerate(squares, 1)]
        assert [server.line() for _ in squares] == [f"answered: {square}" for square in squares]
        server.process.send_signal(signal.SIGINT)
        server.end()


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
    users = tmp_path / "users.txt"
    for login in ("ada", "bob"):
        command = [sys.executable, "-m", "gateway", "passwd", str(users), login]
        subprocess.run(command, input=f"{login}'s passcode\n".encode(), check=True, capture_output=True, timeout=30)
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


def test_a_wrong_passcode_in_the_chat(users: Path) -> None:
    with (
        start_gateway(users_file=users) as gateway,
        started("chat.py", gateway, "ada", PASSCODE="wrong") as ada,
    ):
        assert ada.line().startswith("ERROR: login refused: ")
        assert ada.process.wait(PATIENCE) == 1
        assert ada.process.stderr is not None
        assert ada.process.stderr.read() == ""
