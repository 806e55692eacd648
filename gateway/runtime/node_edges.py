"""Edges of a node of a cluster: processes that have its sockets, and are linked to the primary, on whatever node it is.

They last as long as the node does, while gateways come and go in it, as standby and as primary.  So a client may
connect to any node, and a session that only listens to topics does not notice that the primary is another one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
import trio

from gateway.broker.errors import SessionEnded
from gateway.cluster.node import Node
from gateway.codec import ProtocolError
from gateway.config.settings import Settings
from gateway.edges.forms import EdgeLoad, ToEdge, fields_of_error
from gateway.edges.pipe import MessagePipe
from gateway.edges.primary import LONGEST_SILENCE, LONGEST_START
from gateway.runtime.edges import Edges
from gateway.runtime.listeners import KINDS, addresses_of, open_all
from gateway.transports import close

log = structlog.get_logger("gateway")

# Seconds on top of `drain_timeout` for the end of the processes.
_MARGIN = 2.0


class Leash:
    """Ties an edge to its node, to which it says something now and then.

    `is_up`: by its last word, it has a link to the primary.  `is_silent`: it says nothing any more, so it hangs.
    """

    sessions = 0  # they go over the link to the primary

    def __init__(self, pipe: MessagePipe, name: str, *, on_ready: Callable[[], None], **_: object) -> None:
        self.name = name
        self.is_up = self.is_silent = False
        self.load = EdgeLoad()
        self._on_ready = on_ready
        self._pipe = pipe

    @property
    def nbytes(self) -> tuple[int, int]:
        return self._pipe.bytes_in, self._pipe.bytes_out

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, nursery.cancel_scope)
                async for batch in self._pipe.batches():
                    for (is_up,) in batch:
                        self.is_up = is_up
                        self._on_ready()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._pipe.aclose()

    async def _watch(self, listening: trio.CancelScope) -> None:
        await self._pipe.wait_silent(LONGEST_START, LONGEST_SILENCE)
        self.is_silent = True
        listening.cancel()

    def drain(self, error: ProtocolError, *, is_final: bool) -> None:
        self._pipe.put(int(ToEdge.DRAIN), fields_of_error(error), is_final)
        self._pipe.send()

    def reload(self, changed: Mapping[str, Any]) -> None:
        self._pipe.put(int(ToEdge.RELOAD), dict(changed))
        self._pipe.send()


class NodeEdges(Edges):
    """The edges of one node."""

    @property
    def are_up(self) -> bool:
        """True if an edge has a link to the primary."""
        return any(isinstance(each.link, Leash) and each.link.is_up for each in self.all)

    async def drain(self, settings: Settings) -> None:
        """End all sessions, and then the edges, in bounded time."""
        retry = settings.drain_retry
        error = SessionEnded("server is shutting down", f"connect again in {retry} ms", retry_after=retry)
        self.close(is_final=True)
        for edge in self.all:
            if edge.link is not None and edge.is_ready:
                edge.link.drain(error, is_final=True)
            elif edge.process is not None:  # it starts, and has no sessions
                edge.process.kill()
        with trio.move_on_after(settings.drain_timeout + _MARGIN):
            for edge in self.all:
                if edge.process is not None:
                    await edge.process.wait()
        for edge in self.all:
            if edge.process is not None:
                edge.process.kill()


def settings_of_node(settings: Settings) -> Settings:
    """The settings of the gateways in a node that has edges: they have no clients' sockets of their own."""
    return settings.model_copy(update={kind: [] for kind in KINDS} | {"edges": 0})


@asynccontextmanager
async def open_edges(settings: Settings, node: Node) -> AsyncIterator[None]:
    """The edges of a node, for the block.  Raises StartError: an address cannot be opened."""
    opened = {kind: await open_all(kind, texts) for kind, texts in addresses_of(settings)}
    try:
        async with trio.open_nursery() as nursery:
            edges = NodeEdges(settings, opened, Leash, follows=True)
            await nursery.start(edges.run)
            node.have_edges(edges)
            log.info("listening", **{kind: " ".join(of.addresses) for kind, of in opened.items()})
            try:
                yield
            finally:
                with trio.CancelScope(shield=True):
                    await edges.drain(settings)
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            for listening in opened.values():
                await close(listening)
