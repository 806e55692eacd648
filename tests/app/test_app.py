"""The application: real gateways on free ports, started and stopped through ASGI, on trio and on asyncio."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import structlog
import trio
from structlog.typing import EventDict

from gateway.app import NO_LIFESPAN, App, calm_collector
from gateway.config.settings import load
from gateway.observe import logs
from gateway.runtime import gateway
from tests.app.asgi import Lifespan, request

FREE = {"tcp": ["127.0.0.1:0"], "websocket": ["127.0.0.1:0"]}


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EventDict]]:
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    with structlog.testing.capture_logs() as lines:
        yield lines


def events(logged: list[EventDict]) -> list[str]:
    return [line["event"] for line in logged]


def test_without_a_lifespan() -> None:
    with pytest.raises(RuntimeError, match=NO_LIFESPAN):
        asyncio.run(request(App(), "/healthz"))


class TestCrashes:
    async def test_while_starting(self, monkeypatch: pytest.MonkeyPatch, logged: list[EventDict]) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(gateway, "open_gateway", fail)
        app = App(load(**FREE))
        lifespan = Lifespan(app, trio.sleep_forever)
        await lifespan.run()
        assert lifespan.types == ["startup.failed"]
        assert (app.crashed, app.refusal) == (True, None)
        assert "the gateway failed" in events(logged)

    async def test_a_server_that_cancels_the_lifespan(self) -> None:
        app = App(load(**FREE))
        lifespan = Lifespan(app, trio.sleep_forever)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lifespan.run)
                await trio.testing.wait_all_tasks_blocked(0.05)
                nursery.cancel_scope.cancel()
        assert (lifespan.types, app.gateway) == (["startup.complete"], None)


def test_collector_is_put_back() -> None:
    before = gc.get_threshold()
    with calm_collector():
        assert gc.get_threshold() != before
        assert gc.isenabled()  # it rests during the start
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


async def test_the_collector_rests_before_anything_else_is_imported() -> None:
    async def receive() -> NoReturn:
        raise EOFError(gc.isenabled())

    with pytest.raises(EOFError, match="False"):
        await App()({"type": "lifespan"}, receive, receive)
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("gateway.app", "pydantic starlette.applications prometheus_client argon2 hypercorn gateway.runtime.gateway"),
        ("gateway.app, gateway.auth, gateway.admin.site, gateway.admin.monitor", "click rich argon2 jwt hypercorn"),
    ],
)
def test_importing_the_application_starts_and_loads_little(tmp_path: Path, modules: str, heavy: str) -> None:
    code = (
        f"import sys, threading, {modules}; assert threading.active_count() == 1;"
        f"print(sorted(set('{heavy}'.split()) & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (output.stdout, output.stderr) == ("[]\n", "")
