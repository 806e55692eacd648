"""Process of an edge: `python -m gateway.edge_process NAME`, started by `gateway/runtime/edges.py`.

It has no HTTP and no store.  Its standard input says what it is to do.  It ends with its link.  NAME is for lists of
processes.

    0   the link has ended
    1   it did not start; the log says why
    70  it failed while running; the log says why
"""

from __future__ import annotations

import gc
import pickle
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import trio

from gateway.observe.slim import structlog  # before those that import the whole of it

# isort: split
from gateway import auth
from gateway.config.errors import StartError
from gateway.config.settings import Settings, SettingsError
from gateway.edges.forms import Message, ToEdge
from gateway.edges.link import EdgeLink
from gateway.edges.pipe import MessagePipe
from gateway.observe import logs
from gateway.runtime.edges import EdgePart, EdgeStart
from gateway.runtime.gateway import Gateway, open_gateway
from gateway.runtime.remote_edges import part_of_edge
from gateway.transports import Listening
from gateway.transports.wire.link import SocketPipe

log = structlog.get_logger("gateway.edge")

# Seconds between words to the node.
_LOOK = 0.2


class PrimaryGone(Exception):
    """The link has ended."""


class _OnlyPipe(MessagePipe):
    """The pipe to the gateway that has started this process, which ends with it: clients lose their connections."""

    async def batches(self) -> AsyncGenerator[Iterator[Message], None]:
        async for batch in super().batches():
            yield batch
        raise PrimaryGone


def main() -> None:
    """Run an edge until its link ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        start: EdgeStart = pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):  # the gateway has ended meanwhile
        return
    _configure_logs(start.name, start.settings)
    gc.freeze()
    gc.set_threshold(500, 1, 2_000)
    try:
        trio.run(_run, start)
    except (SettingsError, StartError) as error:
        log.error("an edge cannot start", reason=str(error))
        sys.exit(1)
    except Exception:
        log.exception("an edge failed")
        sys.exit(70)


def _configure_logs(name: str, settings: Settings) -> None:
    logs.configure(settings.log_format, settings.log_level, edge=name)


async def _run(start: EdgeStart) -> None:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=start.link)))
    tie = (MessagePipe if start.follows else _OnlyPipe)(SocketPipe(stream))
    pipes = [tie]

    async def connect() -> MessagePipe:
        return pipes.pop()

    part = part_of_edge(start.settings) if start.follows else EdgePart(EdgeLink(), connect)
    link = part.link
    opened = {kind: _listening(numbers, start.inherited) for kind, numbers in start.listeners.items()}
    try:
        async with (
            open_gateway(
                start.settings,
                authenticator=auth.for_settings(start.settings),
                edge=replace(part, listening=opened),
            ) as gateway,
            trio.open_nursery() as nursery,
        ):
            if start.follows:
                nursery.start_soon(_show_link, tie, link)
                await _obey(tie, gateway, start.name)
                raise PrimaryGone
            link.on_reload = partial(_reload, gateway, start.name)
            link.on_drain = partial(_drain, gateway, nursery)
            await trio.sleep_forever()
    except* PrimaryGone:
        log.info("the edge ends")


async def _obey(tie: MessagePipe, gateway: Gateway, name: str) -> None:
    """Do what the node says, until it says that this process ends, or ends itself."""
    async for batch in tie.batches():
        for kind, *fields in batch:
            if kind == ToEdge.DRAIN:
                await gateway.drain()
                return
            _reload(gateway, name, fields[0])


async def _show_link(tie: MessagePipe, link: EdgeLink) -> None:
    """Tell the node whether there is a link to the primary, and that this process serves clients and does not hang."""
    while True:
        tie.put(link.is_up)
        await tie.drain()
        await trio.sleep(_LOOK)


def _drain(gateway: Gateway, nursery: trio.Nursery, is_final: bool) -> None:
    if is_final:
        nursery.start_soon(gateway.drain)
    else:
        gateway.begin_drain()


def _reload(gateway: Gateway, name: str, changed: Mapping[str, Any]) -> None:
    settings = gateway.in_force.now.model_copy(update=dict(changed))
    logs.configure(settings.log_format, "critical")  # of the files, which it reads too, the primary tells
    try:
        gateway.reload()
        gateway.in_force.take(settings)
    finally:
        _configure_logs(name, settings)


def _listening(numbers: list[int], inherited: list[int]) -> Listening:
    listening = Listening([], [])
    for number in numbers:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(socket.socket(fileno=number)))
        listening.listeners.append(listener)
        if number in inherited:
            listening.inherited.append(listener)
    return listening


if __name__ == "__main__":
    main()
