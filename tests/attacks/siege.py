"""A gateway under attack, with a small mark for its memory, and its neighbour; looked at as an operator can."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.transports.peers import Peer, dial

MIB = 1024 * 1024
MARK = 256
"""MiB: the `memory_mark` of a gateway under attack; an idle one has some 60."""


class Neighbour:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def measured(self) -> dict[str, Any]:
        """What it measured since this was asked last; fails if it lost its connection, or a message."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            _, said = self._process.communicate(timeout=10)
            raise AssertionError(f"the neighbour gave up: {said}")
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass
class Siege:
    gateway: GatewayProcess
    neighbour: Neighbour
    kind: str  # `tcp` or `websocket`: the way that the attack comes

    @property
    def address(self) -> str:
        return f"{HOST}:{self.gateway.tcp_port if self.kind == 'tcp' else self.gateway.ws_port}"

    @property
    def peak(self) -> float:
        for line in Path(f"/proc/{self.gateway.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the system does not say")

    async def dial(self) -> Peer:
        """A hostile client, not yet logged in."""
        return await dial(self.kind, self.address)

    async def log_in(self, **headers: object) -> Peer:
        """A hostile client that somebody let in."""
        peer = await self.dial()
        await peer.connect(**headers)
        return peer

    async def told(self, peer: Peer) -> str:
        """Read to the end of a connection: the ERROR in full, and the reason of a Close."""
        said = []
        with trio.fail_after(20):
            while (frame := await peer.receive()) is not None:
                if frame.command == "ERROR":
                    said.append(f"{frame['message']}: {frame.body.decode()}")
        closed = getattr(peer.wire, "closed", None)
        await peer.aclose()
        return "; ".join([*said, *([f"{closed[0]} {closed[1]}"] if closed else [])])


@contextmanager
def besieged(kind: str, settings: dict[str, object], *, login: str = "", passcode: str = "") -> Iterator[Siege]:
    """A gateway with these settings and its neighbour, for one attack; it must end well afterwards."""
    settings = {"memory_mark": f"{MARK}MiB", "handlers": "tests.attacks.probe:handlers", **settings}
    with start_gateway(**settings) as gateway:
        command = [sys.executable, "-m", "tests.attacks.neighbour", str(gateway.tcp_port), login, passcode]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield Siege(gateway, Neighbour(process), kind)
        finally:
            process.stdin and process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                stream and stream.close()
