"""HTTP of a gateway inside a test, started when a test asks for its address: the imports take longer than all the rest.

The socket listens from then on, so that the address is known at once, and clients wait until the server is there.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from gateway.auth.authenticator import ServerAuthenticator
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway


class LocalHttp:
    """The HTTP server of a gateway; `nursery`: for its tasks."""

    def __init__(
        self, gateway: Gateway, settings: Settings, authenticator: ServerAuthenticator, nursery: trio.Nursery
    ) -> None:
        self._gateway = gateway
        self._settings = settings
        self._authenticator = authenticator
        self._nursery = nursery
        self._address = ""

    def address(self) -> str:
        """host:port; starts the server, if that has not happened."""
        if not self._address:
            listener = socket.create_server(("127.0.0.1", 0), backlog=128)
            self._address = f"127.0.0.1:{listener.getsockname()[1]}"
            self._nursery.start_soon(self._serve, listener)
        return self._address

    async def _serve(self, listener: socket.socket) -> None:
        from hypercorn.config import Config
        from hypercorn.trio import serve

        from gateway.admin import site
        from gateway.admin.monitor import Monitor

        monitor = Monitor(self._gateway, self._settings)
        app = site.build(self._gateway, self._settings, tickets=self._authenticator.tickets, monitor=monitor)
        config = Config()
        config.bind = [f"fd://{listener.detach()}"]
        config.accesslog = config.errorlog = None
        never: Callable[[], Awaitable[None]] = trio.sleep_forever
        self._nursery.start_soon(monitor.run)
        await serve(app, config, shutdown_trigger=partial(never), mode="asgi")  # type: ignore[arg-type]
