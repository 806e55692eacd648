"""The gateway in the lifespan of a FastAPI application, on asyncio and on trio."""

from __future__ import annotations

import anyio
import httpx
import pytest
from fastapi import FastAPI, HTTPException

from gateway.config.settings import Settings
from gateway.embedded import Embedded, NotPublished, NotStarted
from tests.gateway_process import free_ports


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
