"""`app`, the ASGI application that `hypercorn gateway.app:app` and `gateway serve` run.

    server on trio              app ------------------------> lifespan, HTTP
    server on asyncio, uvloop   app -> Bridge -> Trio thread -> lifespan, HTTP

It opens the gateway (`gateway/runtime/gateway.py`) for the server's lifespan, and answers HTTP (`gateway/admin`).  The
gateway has its own STOMP listeners.  Little is imported at import: a server imports the application in processes that
never run it.  The lifespan is written here, because Starlette answers a failed start with a traceback.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import trio

from gateway.observe.slim import structlog
from gateway.process import hypercorn_worker, systemd
from gateway.process.asyncio_bridge import Bridge

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.auth.authenticator import ServerAuthenticator
    from gateway.auth.tickets import Tickets
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway

NO_LIFESPAN = "the gateway is opened by the ASGI lifespan, so the server must support it and have it switched on"

HINT = "the server runs asyncio, so the gateway runs in a Trio thread beside it; `hypercorn -k trio` saves that thread"

CRASHED = "the gateway failed; its log says why"

SERVING = "serving"

log = structlog.get_logger("gateway")


class App:
    """The ASGI application; settings are read when the lifespan starts, unless they are given."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._bridge: Bridge | None = None
        self._site: ASGIApp | None = None
        self._hangups = hypercorn_worker.HangupSignals()
        self.gateway: Gateway | None = None  # between start and stop
        self.tickets: Tickets | None = None  # of the gateway's logins; None: no login is needed
        self.refusal: str | None = None  # why the gateway did not start, as one sentence
        self.crashed = False  # while starting or running
        self.started = False  # it serves, or has served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call, on the server's loop: trio or asyncio."""
        if scope["type"] == "lifespan":
            hypercorn_worker.ignore_sigterm()
            with self._hangups.caught():
                await self._live(scope, receive, send)
        elif trio.lowlevel.in_trio_run():
            await self._on_trio(scope, receive, send)
        elif self._bridge is None:
            raise RuntimeError(NO_LIFESPAN)
        else:
            await self._bridge.call(scope, receive, send)

    async def run(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Await `function(*args)` on the gateway's loop, from the server's; see `gateway/embedded.py`."""
        if trio.lowlevel.in_trio_run():
            return await function(*args)
        if self._bridge is None or self._site is None:
            raise RuntimeError(NO_LIFESPAN)
        return await self._bridge.run(function, *args)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        if trio.lowlevel.in_trio_run():
            await self._on_trio(scope, receive, send)
        else:
            self._bridge = Bridge(self._on_trio)
            await self._bridge.lifespan(scope, receive, send)

    async def _on_trio(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # Until `calm_collector`: nothing that the start makes is garbage, and scans are an eighth of it.
            gc.disable()
            try:
                await self._lifespan(receive, send)
            finally:
                gc.enable()
        elif self._site is None:
            raise RuntimeError(NO_LIFESPAN)
        else:
            await self._site(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        from gateway.config.errors import StartError
        from gateway.config.settings import SettingsError

        await receive()  # lifespan.startup
        try:
            async with self._open():
                self.started = True
                await send({"type": "lifespan.startup.complete"})
                systemd.ready(SERVING)
                await receive()  # lifespan.shutdown
                systemd.stopping()
        except (SettingsError, StartError, hypercorn_worker.SecondWorker) as reason:
            self.refusal = str(reason)
            if hypercorn_worker.is_spawned():
                hypercorn_worker.refuse(self.refusal)
            await send({"type": "lifespan.startup.failed", "message": self.refusal})
        except Exception:
            self.crashed = True
            log.exception("the gateway failed")
            stage = "shutdown" if self.started else "startup"
            await send({"type": f"lifespan.{stage}.failed", "message": CRASHED})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        from gateway import auth
        from gateway.config import settings

        chosen = self._settings or settings.load()
        _configure_logs(chosen)
        if self._bridge is not None:
            log.info(HINT)
        with hypercorn_worker.only_one():
            opening = self._taking_turns if chosen.cluster else self._at_edge if chosen.is_edge else self._serving
            async with opening(chosen, auth.for_settings(chosen)):
                yield

    @asynccontextmanager
    async def _taking_turns(self, chosen: Settings, authenticator: ServerAuthenticator) -> AsyncIterator[None]:
        """Be a node of a cluster for the block: a gateway after the other, as standby or primary."""
        from gateway.config.errors import start_errors
        from gateway.runtime.cluster import open_node, turns

        in_force = chosen
        edges: Callable[[Settings, Any], AbstractAsyncContextManager[None]] = _no_edges
        if chosen.edge_of:
            from gateway.runtime.node_edges import open_edges, settings_of_node

            in_force, edges = settings_of_node(chosen), open_edges

        def keep(settings: Settings) -> None:
            """What a reload changed is in force in the next part of the node, too."""
            nonlocal in_force
            in_force = settings

        @asynccontextmanager
        async def serving(**part: Any) -> AsyncIterator[Gateway]:
            async with self._serving(in_force, authenticator, **part) as gateway:
                gateway.in_force.on_change.append(keep)
                yield gateway

        stopping = trio.Event()
        try:
            with start_errors():
                async with open_node(chosen) as node, edges(chosen, node), trio.open_nursery() as nursery:
                    await nursery.start(turns, node, serving, stopping)
                    yield
                    stopping.set()  # a cancellation would keep the gateway from its drain
        finally:
            self._site = None

    @asynccontextmanager
    async def _at_edge(self, chosen: Settings, authenticator: ServerAuthenticator) -> AsyncIterator[None]:
        """Be an edge of another gateway for the block."""
        from gateway.config import settings
        from gateway.runtime.edges import settings_of_edge
        from gateway.runtime.remote_edges import part_of_edge

        def read() -> Settings:
            return settings_of_edge(settings.load())

        async with self._serving(settings_of_edge(chosen), authenticator, edge=part_of_edge(chosen), read=read):
            yield

    @asynccontextmanager
    async def _serving(
        self, chosen: Settings, authenticator: ServerAuthenticator, **part: Any
    ) -> AsyncIterator[Gateway]:
        """Open a gateway and its site for the block.  `part`: in a cluster, see `open_gateway`."""
        from gateway.admin import site
        from gateway.admin.monitor import Monitor
        from gateway.config import settings
        from gateway.runtime.gateway import open_gateway

        part.setdefault("read", settings.load)
        async with open_gateway(chosen, authenticator=authenticator, **part) as gateway:
            gateway.in_force.on_change.append(_configure_logs)
            monitor = Monitor(gateway, chosen)
            self._site = site.build(gateway, chosen, tickets=authenticator.tickets, monitor=monitor)
            self.gateway, self.tickets = gateway, authenticator.tickets
            try:
                with calm_collector():
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(hypercorn_worker.watch_parent)
                        nursery.start_soon(_report_alive)
                        nursery.start_soon(monitor.run)
                        nursery.start_soon(self._reload, gateway)
                        yield gateway
                        nursery.cancel_scope.cancel()
            finally:
                self.gateway = None
                # Of a node, the site of its last part answers until that of its next part is there.
                if not chosen.cluster:
                    self._site = None

    async def _reload(self, gateway: Gateway) -> None:
        while True:
            await self._hangups.wait()
            systemd.reloading()
            gateway.reload()
            systemd.ready(SERVING)


@asynccontextmanager
async def _no_edges(chosen: Settings, node: Any) -> AsyncIterator[None]:
    yield


def _configure_logs(settings: Settings) -> None:
    from gateway.config.settings import MEMORY_ONLY, keep_messages
    from gateway.observe import logs

    note = "the console is at /console/"
    if settings.store == "memory" and not settings.is_edge:
        note += f"; {MEMORY_ONLY}: {keep_messages()}"
    logs.configure(settings.log_format, settings.log_level, note)


async def _report_alive() -> None:
    """Tell the service manager that the loop runs, if it asks."""
    while seconds := systemd.watchdog():
        systemd.alive()
        await trio.sleep(seconds)


@contextmanager
def calm_collector() -> Iterator[None]:
    """Tune the garbage collector for a process that keeps a million messages.

    All objects of the start are frozen and never scanned; the little garbage among them is not worth a collection.  A
    full collection over a million objects stops the loop for 200 ms, so cycles (mostly of closed connections) are found
    after some 2 million new objects.  A scan of new objects stops the loop 0.15 ms for 1,000 of them, so few are
    scanned at a time, and survivors are soon left alone.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(500, 1, 2_000)
    gc.enable()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


app = App()
