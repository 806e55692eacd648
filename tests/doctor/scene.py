"""What the doctor is shown: the project's own nginx.conf with something spoiled in it, and relays that misbehave.

Everything is real but for the fault.  Relays run in the test's own loop, beside the doctor.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import trio

from gateway.config.settings import Settings
from gateway.doctor.examine import examine
from gateway.doctor.finding import Finding, Level
from gateway.doctor.orders import Credentials, Orders
from gateway.doctor.places import HTTP, TCP, WEBSOCKET, Place
from tests.clients import nginx
from tests.gateway_process import HOST, GatewayProcess

ADA = Credentials("ada", "engine")
PATIENCE = 5.0


def users(folder: Path) -> Path:
    """A users file that knows ada, whose passcode is `engine`, written by the command that users use."""
    file = folder / "users.txt"
    command = [sys.executable, "-m", "gateway", "passwd", str(file), "ada"]
    subprocess.run(command, input=b"engine\n", check=True, capture_output=True, timeout=30)
    return file


@contextmanager
def spoiled(gateway: GatewayProcess, words: Mapping[str, str] | None = None) -> Iterator[int]:
    """nginx for the time of the block, with other words in its configuration; gives its port."""
    sound = nginx.configuration

    def configuration(folder: Path, port: int, ws_port: int, http_port: int) -> str:
        text = sound(folder, port, ws_port, http_port)
        for word, replacement in (words or {}).items():
            assert word in text, f"deploy/nginx.conf no longer has {word!r}"
            text = text.replace(word, replacement)
        return text

    started = nginx.start_nginx(gateway.ws_port, gateway.http_port)
    with patch.object(nginx, "configuration", configuration), started as port:
        yield port


def settings_of(gateway: GatewayProcess, **others: object) -> Settings:
    """The settings that a gateway was started with."""
    return Settings(**{**gateway._settings, **others})  # type: ignore[arg-type]


def http(port: int, host: str = HOST, **others: object) -> Place:
    return Place(HTTP, host, port, **others)  # type: ignore[arg-type]


def websocket(port: int, path: str = "/ws", host: str = HOST, **others: object) -> Place:
    return Place(WEBSOCKET, host, port, path=path, **others)  # type: ignore[arg-type]


def tcp(port: int, host: str = HOST, **others: object) -> Place:
    return Place(TCP, host, port, **others)  # type: ignore[arg-type]


async def look(**orders: object) -> list[Finding]:
    """What the doctor finds; nobody's silence is waited for, unless the test says so."""
    found: list[Finding] = []
    await examine(Orders(**{"idle": 0.0, "patience": PATIENCE, **orders}), found.append)  # type: ignore[arg-type]
    return found


def faults(found: list[Finding]) -> list[str]:
    """What is a FAIL, as lines."""
    return [str(each) for each in found if each.level is Level.FAIL]


def only(found: list[Finding], what: str, level: Level = Level.FAIL) -> Finding:
    """The one finding on something; it has that level, and a remedy if it is bad."""
    (match,) = [each for each in found if each.what.endswith(what)]
    assert match.level is level, f"{match}"
    assert bool(match.remedy) == (level is not Level.OK)
    return match


async def relay(
    target: int,
    *,
    preface: bytes = b"",
    idle: float = math.inf,
    hold: int = 0,
    sooner: int = 0,
    most: float = math.inf,
    task_status: trio.TaskStatus[int],
) -> None:
    """Pass octets on, badly; starts with its port.

    Args:
        preface: octets in front of what a client sends.
        idle: seconds without an octet after which it cuts.
        hold: octets for the client that it keeps until more have come.
        sooner: pieces for the client that pass before that begins.
        most: octets of a client after which it cuts.
    """

    async def serve(client: trio.SocketStream) -> None:
        gateway = await trio.open_tcp_stream(HOST, target)
        if preface:
            await gateway.send_all(preface)
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + idle
            async with client, gateway, trio.open_nursery() as nursery:
                nursery.start_soon(partial(_pump, client, gateway, scope, idle, most=most))
                nursery.start_soon(partial(_pump, gateway, client, scope, idle, hold=hold, sooner=sooner))

    await trio.serve_tcp(serve, 0, host=HOST, task_status=_of_port(task_status))


async def _pump(
    source: trio.SocketStream,
    target: trio.SocketStream,
    scope: trio.CancelScope,
    idle: float,
    *,
    hold: int = 0,
    sooner: int = 0,
    most: float = math.inf,
) -> None:
    held, total = b"", 0
    try:
        async for chunk in source:
            scope.deadline = trio.current_time() + idle
            held += chunk
            total += len(chunk)
            if total > most:
                break
            if sooner > 0 or len(held) > hold:
                sooner -= 1
                await target.send_all(held)
                held = b""
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


class _of_port(trio.TaskStatus[list[trio.SocketListener]]):
    """Of what `serve_tcp` says when it has started, the port."""

    def __init__(self, status: trio.TaskStatus[int]) -> None:
        self._status = status

    def started(self, value: list[trio.SocketListener] | None = None) -> None:
        assert value
        self._status.started(int(value[0].socket.getsockname()[1]))


def environment(gateway: GatewayProcess) -> dict[str, str]:
    """The variables with which a command knows that gateway's settings."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return found | {f"GATEWAY_{name.upper()}": str(value) for name, value in gateway._settings.items()}
