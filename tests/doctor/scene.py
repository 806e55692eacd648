"""What the doctor examines in its tests: real gateways, nginx with a fault in its configuration, and faulty relays."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

import trio

from gateway.config.settings import Settings
from gateway.doctor.examine import examine
from gateway.doctor.model import HTTP, TCP, WEBSOCKET, CheckOptions, CheckReport, CheckResult, Level, Target
from tests.clients import nginx
from tests.gateway_process import HOST, GatewayProcess

ADA = {"login": "ada", "passcode": "engine"}
PATIENCE = 5.0


def users(folder: Path) -> Path:
    """A users file with ada, whose passcode is `engine`."""
    file = folder / "users.txt"
    command = [sys.executable, "-m", "gateway", "passwd", str(file), "ada"]
    subprocess.run(command, input=b"engine\n", check=True, capture_output=True, timeout=30)
    return file


@contextmanager
def spoiled(gateway: GatewayProcess, words: Mapping[str, str] | None = None) -> Iterator[int]:
    """nginx for the time of the block, with other words in deploy/nginx.conf; gives its port."""
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
    """The settings with which a gateway started."""
    return Settings(**{**gateway._settings, **others})  # type: ignore[arg-type]


def environment(gateway: GatewayProcess) -> dict[str, str]:
    """The same as variables, for a command."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return found | {f"GATEWAY_{name.upper()}": str(value) for name, value in gateway._settings.items()}


def http(port: int, host: str = HOST, **others: object) -> Target:
    return Target(HTTP, host, port, **others)  # type: ignore[arg-type]


def websocket(port: int, path: str = "/ws", host: str = HOST, **others: object) -> Target:
    return Target(WEBSOCKET, host, port, path=path, **others)  # type: ignore[arg-type]


def tcp(port: int, host: str = HOST, **others: object) -> Target:
    return Target(TCP, host, port, **others)  # type: ignore[arg-type]


async def look(**options: object) -> list[CheckResult]:
    """All results; without checks of silence, unless the test asks for them."""
    found: list[CheckResult] = []
    options = {"idle": 0.0, "patience": PATIENCE, **options}
    await examine(CheckOptions(**options), CheckReport(found.append))  # type: ignore[arg-type]
    return found


def faults(found: list[CheckResult]) -> list[str]:
    """The results with FAIL, as lines."""
    return [str(each) for each in found if each.level is Level.FAIL]


def only(found: list[CheckResult], what: str, level: Level = Level.FAIL) -> CheckResult:
    """The one result with that ending of `what`; it has that level, and a remedy unless all is well."""
    (match,) = [each for each in found if each.what.endswith(what)]
    assert match.level is level, f"{match}"
    assert bool(match.remedy) == (level is not Level.OK)
    return match


async def served(nursery: trio.Nursery, serve: Callable[[trio.SocketStream], Awaitable[None]]) -> int:
    """A server for the time of the test; gives its port."""
    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host=HOST))
    return int(listener.socket.getsockname()[1])


def saying(answer: bytes, *, stays: bool = False) -> Callable[[trio.SocketStream], Awaitable[None]]:
    """A server that reads a request, gives this answer, and closes unless it stays."""

    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while b"\n\n" not in request and b"\r\n\r\n" not in request:
            chunk = await stream.receive_some()
            if not chunk:
                return
            request += chunk
        await stream.send_all(answer)
        if stays:
            await trio.sleep_forever()

    return serve


async def relay(
    nursery: trio.Nursery,
    target: int,
    *,
    preface: bytes = b"",
    idle: float = math.inf,
    hold: int = 0,
    sooner: int = 0,
    most: float = math.inf,
) -> int:
    """A relay in front of a port, with a fault; gives its own port.

    Args:
        preface: bytes before those of a client.
        idle: seconds without a byte after which it cuts.
        hold: bytes for the client that it keeps until more have come.
        sooner: pieces for the client that pass before it keeps any.
        most: bytes of a client after which it cuts.
    """

    async def pump(
        source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope, *, is_answer: bool
    ) -> None:
        held, pieces, total = b"", 0, 0
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in source:
                scope.deadline = trio.current_time() + idle
                held += chunk
                pieces += 1
                total += len(chunk)
                if not is_answer and total > most:
                    break
                if not is_answer or pieces <= sooner or len(held) > hold:
                    await sink.send_all(held)
                    held = b""
        scope.cancel()

    async def serve(client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream(HOST, target)
        if preface:
            await server.send_all(preface)
        with trio.CancelScope(deadline=trio.current_time() + idle) as scope:
            async with client, server, trio.open_nursery() as both:
                both.start_soon(partial(pump, client, server, scope, is_answer=False))
                both.start_soon(partial(pump, server, client, scope, is_answer=True))

    return await served(nursery, serve)
