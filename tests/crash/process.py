"""A gateway process for the crash test: what `tests/gateway_process.py` is for the others, and it may die.

It listens on ports that the kernel gives it, for each life other ones: a client that knocks at a port where nobody
listens may connect to itself.  Which ports they are, and what went wrong, is read from its log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

_ROOT = Path(__file__).parents[2]
_START = 30.0
_STOP = 20.0


class Process:
    """One life of a gateway."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self.port = self.http = 0  # of its listeners, once it listens
        self.listening = trio.Event()  # it does, or has ended
        self.log: list[str] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """What it ended with, negative by a signal; None: it runs."""
        return self._process.returncode

    def kill(self) -> None:
        """End it as a crash does, if it still runs."""
        if self.status is None:
            self._process.send_signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.status is None:
            self._process.send_signal(number)

    async def wait(self) -> None:
        await self._process.wait()

    async def stop(self) -> None:
        """End it in order, and in time."""
        self._process.send_signal(signal.SIGTERM)
        with trio.move_on_after(_STOP):
            await self.wait()
        assert self.status == 0, f"ended with {self.status} after SIGTERM:\n{self.text}"

    @property
    def text(self) -> str:
        return "\n".join(self.log)

    def troubles(self) -> list[str]:
        """Lines of the log that should not be there."""
        return [line for line in self.log if "Traceback" in line or '"level": "error"' in line]

    async def read_log(self) -> None:
        assert self._process.stderr is not None
        rest = b""
        async with self._process.stderr as stream:
            async for chunk in stream:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(line.decode(errors="replace"))
        self.listening.set()

    def _take(self, line: str) -> None:
        self.log.append(line)
        if '"event": "listening"' not in line:
            return
        told = json.loads(line)
        if "tcp" in told:
            self.port = int(told["tcp"].rpartition(":")[2])
        if "http" in told:
            self.http = int(told["http"].rpartition(":")[2])
        if self.port and self.http:
            self.listening.set()


@asynccontextmanager
async def gateway(
    folder: Path, *, point: str = "", lie: str = "", log_pages: int = 0, **settings: object
) -> AsyncIterator[Process]:
    """A gateway that begins to live; it is dead when the block ends.

    It kills itself at the point `NAME:COUNT`, and breaks the promise `lie`; its log has so many pages
    before a checkpoint (0: as usual).  A `gateway.toml` in the folder is read.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "CRASH_"))}
    settings = {"tcp": "127.0.0.1:0", "websocket": "", "http": "127.0.0.1:0", "log_format": "json", **settings}
    variables |= {f"GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    variables |= {"CRASH_POINT": point, "CRASH_LIE": lie, "CRASH_LOG_PAGES": str(log_pages or "")}
    variables["PYTHONPATH"] = str(_ROOT)
    opened = await trio.lowlevel.open_process(
        [sys.executable, "-m", "tests.crash.server"],
        cwd=folder,
        env=variables,
        stdin=subprocess.PIPE,  # when that closes, we are dead, and the gateway ends, too
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    process = Process(opened)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.read_log)
        try:
            yield process
        finally:
            process.kill()
            assert opened.stdin is not None
            with trio.CancelScope(shield=True):
                await process.wait()
                await opened.stdin.aclose()


async def wait_until_it_listens(process: Process) -> bool:
    """False: it has ended before."""
    with trio.move_on_after(_START) as waiting:
        await process.listening.wait()
    assert not waiting.cancelled_caught, f"does not listen after {_START} s:\n{process.text}"
    return bool(process.port and process.http)
