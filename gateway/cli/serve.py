"""`gateway serve`: the application under hypercorn's trio server, in this process, with a meaningful exit status.

hypercorn's own command exits with 0 after its worker failed, and begins to drain STOMP sessions after its HTTP
connections.  Here the drain begins with the signal, and HTTP is served meanwhile: `/readyz` answers 503 at once.

    0   stopped by SIGTERM or SIGINT, and drained
    1   did not start: settings, or a port in use (one sentence)
    70  failed while running (the log has the reason)
"""

import logging
import math
import signal
import socket
from collections.abc import AsyncIterator, Iterable
from functools import partial

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_http

from gateway.app import App
from gateway.config.errors import StartError
from gateway.config.settings import Settings
from gateway.observe import logs
from gateway.observe.slim import structlog
from gateway.process import systemd
from gateway.process.asyncio_bridge import CRASHED
from gateway.runtime.listeners import open_all
from gateway.transports import unlinking

SHUTDOWN_MARGIN = 5.0  # seconds on top of `drain_timeout` after which hypercorn gives up waiting for the application

LONGEST_STUCK = 20_000
"""Milliseconds after which the system closes an HTTP connection whose client reads nothing.  hypercorn's writes cannot
be cancelled, so a stuck one would keep the process from ending."""

log = structlog.get_logger("gateway")


def run(settings: Settings) -> int:
    """Serve until a signal; returns the exit status, 0 or 70.  Raises StartError: it did not start."""
    logs.configure(settings.log_format, settings.log_level)
    app = App(settings)
    try:
        trio.run(_serve, app, settings)
    except StartError:
        raise
    except BaseException:
        # The application has logged the failure; hypercorn's exceptions only wrap it.
        if app.refusal is None and not app.crashed:
            log.exception("the HTTP server failed")
            return CRASHED
    if app.refusal is not None:
        raise StartError(app.refusal)
    return CRASHED if app.crashed else 0


async def _serve(app: App, settings: Settings) -> None:
    listening = await open_all("http", settings.http)
    with unlinking(listening.addresses), trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        # hypercorn closes its descriptors: it gets duplicates.
        for listener in listening.listeners:
            if listener.socket.family in (socket.AF_INET, socket.AF_INET6):  # accepted sockets inherit it
                listener.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LONGEST_STUCK)
        descriptors = [each.socket.dup().detach() for each in listening.listeners]
        for listener in listening.listeners:
            await listener.aclose()
        log.info("listening", http=" ".join(listening.addresses))
        asked = trio.Event()
        trigger = partial(_drained, app, asked)
        config = _config(settings, descriptors)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen_to, signals, app, asked, nursery.cancel_scope)
            await serve_http(app, config, shutdown_trigger=trigger, mode="asgi")  # type: ignore[arg-type]
            nursery.cancel_scope.cancel()


def _config(settings: Settings, descriptors: Iterable[int]) -> Config:
    config = Config()
    config.bind = [f"fd://{descriptor}" for descriptor in descriptors]
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("gateway.http")  # in our format, see gateway/observe/logs.py
    config.startup_timeout = math.inf  # many messages take their time, and so may the servers of a cluster
    config.shutdown_timeout = settings.drain_timeout + SHUTDOWN_MARGIN
    return config


async def _listen_to(signals: AsyncIterator[int], app: App, asked: trio.Event, starting: trio.CancelScope) -> None:
    """Begin the end at a signal; a start ends at once, whatever it waits for."""
    number = await anext(signals)
    log.info("draining", signal=signal.Signals(number).name)
    systemd.stopping()
    asked.set()
    if not app.started:
        starting.cancel()


async def _drained(app: App, asked: trio.Event) -> None:
    await asked.wait()
    if app.gateway is not None:
        await app.gateway.drain()
