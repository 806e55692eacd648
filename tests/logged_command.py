"""A command of the gateway as a process of its own, and its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

PATIENCE = 60.0


def eventually(holds: Callable[[], bool], told: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s\n{told()}"
        time.sleep(0.02)


class LoggedCommand:
    """`gateway NAME WORDS`, in the impatient form that `tests.NAME.impatient` is."""

    name: str

    def __init__(self, folder: Path, *words: str, **variables: str) -> None:
        self.path = folder / f"{self.name}.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "STOMP_"))}
        command = [sys.executable, "-m", f"tests.{self.name}.impatient", self.name, *words]
        with self.path.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=kept | variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        return self.path.read_text()

    def events(self, event: str) -> list[dict[str, Any]]:
        """Its lines of one event."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines of an event, as soon as there are so many."""
        eventually(lambda: len(self.events(event)) >= count or self.process.poll() is not None, lambda: self.log)
        found = self.events(event)
        assert len(found) >= count, self.log
        return found

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()


_Command = TypeVar("_Command", bound=LoggedCommand)


@contextmanager
def surviving(command: _Command) -> Iterator[_Command]:
    """A command for the block, which it must survive; then it ends by SIGTERM, with status 0."""
    try:
        yield command
    except BaseException:
        command.process.kill()
        command.process.wait()
        raise
    assert command.stop() == 0, command.log
    assert "Traceback" not in command.log
