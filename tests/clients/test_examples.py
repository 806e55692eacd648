"""The examples, run as written, each on a gateway with the settings that its first lines name."""

from __future__ import annotations

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
from tests.clients.test_readme import broker_of
from tests.gateway_process import GatewayProcess, start_gateway
from tests.shared import write_users

EXAMPLES = ROOT / "examples"
PATIENCE = 20.0


class Program:
    """A running example, and the lines that it prints."""

    def __init__(self, file: str, gateway: GatewayProcess, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / file), *arguments],
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

    def failed(self) -> str:
        """What it still says on both streams until it ends by itself."""
        assert self.process.wait(PATIENCE) == 1
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
def started(file: str, gateway: GatewayProcess, *arguments: str, **variables: str) -> Iterator[Program]:
    program = Program(file, gateway, *arguments, **variables)
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
    ("file", "arguments", "last"), [("rpc.py", ["server"], "The connection is lost."), ("chat.py", ["ada"], "ERROR: ")]
)
def test_a_lost_connection_ends_the_program(file: str, arguments: list[str], last: str) -> None:
    with start_gateway() as gateway, started(file, gateway, *arguments, PASSCODE="engine") as program:
        program.line()
        gateway.stop()
        said = program.failed()
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
