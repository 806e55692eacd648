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
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from .edges import EdgeProcess

_ROOT = Path(__file__).parents[2]
# Seconds.  One is usual; but rounds run beside each other, and beside what else the machine has to do.
_START = 120.0
_STOP = 60.0
_EDGES_END = 90.0
_AGAIN = 0.05
_LONGEST_TRACEBACK = 60  # lines
_EDGE_STARTED, _EDGE_ENDED, _EDGE_SILENT = (
    f'"event": "{event}"'
    for event in ("an edge was started", "an edge has ended and is started again", "an edge is silent")
)
# How many there are is counted.
_OF_LOST_EDGES = _EDGE_ENDED, _EDGE_SILENT


class Process:
    """One life of a gateway."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self.port = self.http = 0  # of its listeners, once it listens
        self.listening = trio.Event()  # it does, or has ended
        self.log: list[str] = []
        self.edges: dict[str, EdgeProcess] = {}  # those that run, as far as it has said
        self.edges_lost = 0  # how often it has said that one has ended
        self._all_edges: list[EdgeProcess] = []

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
        """Lines of the log that should not be there; of a traceback also what follows."""
        found = []
        for at, line in enumerate(self.log):
            if "Traceback" in line:
                found.append("\n".join(self.log[at : at + _LONGEST_TRACEBACK]))
            elif '"level": "error"' in line and not any(each in line for each in _OF_LOST_EDGES):
                found.append(line)
        return found

    async def orphans(self) -> list[str]:
        """The names of edges that still run a while after its end."""
        with trio.move_on_after(_EDGES_END):
            while not all(each.has_ended for each in self._all_edges):  # noqa: ASYNC110 - other processes do it
                await trio.sleep(_AGAIN)
        return [each.name for each in self._all_edges if not each.has_ended]

    def close(self) -> None:
        """Kill all edges that are left."""
        for each in self._all_edges:
            each.close()

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
        if _EDGE_STARTED in line:
            told = json.loads(line)
            with suppress(ProcessLookupError):  # it has ended, and will be said to have
                edge = self.edges[told["edge"]] = EdgeProcess(told["edge"], told["pid"])
                self._all_edges.append(edge)
        elif _EDGE_ENDED in line:
            self.edges.pop(json.loads(line)["edge"], None)
            self.edges_lost += 1
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
    folder: Path,
    *,
    point: str = "",
    lie: str = "",
    log_pages: int = 0,
    silence: float = 0.0,
    where: Sequence[str] = (),
    **settings: object,
) -> AsyncIterator[Process]:
    """A gateway that begins to live; it is dead when the block ends.

    It kills itself at the point `NAME:COUNT`, and breaks the promise `lie`; its log has so many pages before a
    checkpoint, and an edge counts as hung after so many seconds of silence (0: as usual).  A `gateway.toml` in the
    folder is read.  `where`: a command that runs another one, in the same process.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "CRASH_"))}
    settings = {"tcp": "127.0.0.1:0", "websocket": "", "http": "127.0.0.1:0", "log_format": "json", **settings}
    variables |= {f"GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    variables |= {"CRASH_POINT": point, "CRASH_LIE": lie, "CRASH_LOG_PAGES": str(log_pages or "")}
    variables["CRASH_SILENCE"] = str(silence or "")
    variables["PYTHONPATH"] = str(_ROOT)
    opened = await trio.lowlevel.open_process(
        [*where, sys.executable, "-m", "tests.crash.server"],
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
            process.close()


async def wait_until_it_listens(process: Process) -> bool:
    """False: it has ended before."""
    with trio.move_on_after(_START) as waiting:
        await process.listening.wait()
    assert not waiting.cancelled_caught, f"does not listen after {_START} s:\n{process.text}"
    return bool(process.port and process.http)
