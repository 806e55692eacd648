"""The gateway in the lifespan of a FastAPI application, on asyncio and on trio."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI, HTTPException

from gateway.client import Client, StompServer
from gateway.config.settings import Settings
from gateway.embedded import Embedded, NotPublished, NotStarted
from gateway.observe import logs
from tests.docs.page import blocks
from tests.gateway_process import HOST, free_ports
from tests.logged_command import PATIENCE, eventually


@pytest.fixture(autouse=True)
def _own_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging is the whole process's."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)


def settings(store: str = "memory") -> Settings:
    (port,) = free_ports(1)
    return Settings.model_validate({"tcp": [f"127.0.0.1:{port}"], "websocket": [], "store": store})


def shop() -> FastAPI:
    stomp = Embedded(settings())
    app = FastAPI(lifespan=stomp.lifespan)
    app.mount("/stomp", stomp)

    @app.post("/orders", status_code=202)
    async def order(destination: str) -> None:
        try:
            await stomp.publish(destination, "two cups")
        except NotPublished as error:
            raise HTTPException(503, str(error)) from error

    return app


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_an_application_publishes_and_shows_the_mounted_gateway(loop: str) -> None:
    async def main() -> None:
        app = shop()
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://h") as web:
            accepted = await web.post("/orders", params={"destination": "/queue/orders"})
            assert accepted.status_code == 202, accepted.text
            refused = await web.post("/orders", params={"destination": "/queue/*"})
            assert refused.status_code == 503
            assert "/queue/" in refused.text
            assert (await web.get("/stomp/healthz")).status_code == 200

    anyio.run(main, backend=loop)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_gateway_that_cannot_start_says_why(loop: str) -> None:
    async def main() -> None:
        with pytest.raises(NotStarted, match="/nowhere/at/all"):
            async with Embedded(settings(store="sqlite:/nowhere/at/all/store.db")).lifespan():
                raise AssertionError

    anyio.run(main, backend=loop)


def test_the_page_under_a_real_server(tmp_path: Path) -> None:
    (program,) = blocks("docs/web-frameworks.md")
    http, tcp = free_ports(2)
    (tmp_path / "shop.py").write_text(program.text)
    (tmp_path / "gateway.toml").write_text(f'tcp = ["{HOST}:{tcp}"]\nwebsocket = []\nstore = "memory"\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "hypercorn", "--bind", f"{HOST}:{http}", "shop:app"],
            cwd=tmp_path,
            env=kept | {"PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        site = f"http://{HOST}:{http}"

        def is_there() -> bool:
            assert server.poll() is None, log.read_text()
            try:
                return httpx.get(f"{site}/stomp/readyz").status_code == 200
            except httpx.TransportError:
                return False

        eventually(is_there, log.read_text)
        assert httpx.post(f"{site}/orders", params={"text": "tea"}).status_code == 202
        client = Client(StompServer(HOST, tcp))
        client.request("SUBSCRIBE", {"id": "0", "destination": "/queue/orders"})
        bodies: list[bytes] = []

        def has_come() -> bool:
            bodies.extend(frame.body for frame in client.receive(0.2) if frame.command == "MESSAGE")
            return bool(bodies)

        eventually(has_come, log.read_text)
        assert bodies == [b"tea"]
        client.disconnect()
    finally:
        server.terminate()
        server.wait(PATIENCE)
    assert "Traceback" not in log.read_text()
