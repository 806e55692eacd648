"""Edges of a harness: both ends of each link in one process."""

from __future__ import annotations

import dataclasses

import trio

from gateway.broker import Session
from gateway.edges.edge import EdgeServer
from gateway.edges.link import EdgeLink
from gateway.edges.pipe import MessagePipe
from gateway.edges.primary import PrimaryLink
from gateway.transports.flow.connected import Connected, Login
from gateway.transports.flow.rate_limits import LIMITS
from tests.transports.harness import Harness

from .pipes import LinkPipe, pipe_pair


class PatientServer(EdgeServer):
    """The server of an edge, which lets its first clients wait for the first link: a process listens behind it."""

    has_begun = False

    async def log_in(self, connection: Connected, login: Login) -> tuple[Session, Connected | None]:
        while not (self.has_begun or self.link.is_up):
            await trio.lowlevel.checkpoint()
        self.has_begun = True
        return await super().log_in(connection, login)


class LinkedEdge:
    """One edge, and its link.

    Attributes:
        pipe, primary_pipe: the ends of the link.
        primary: the end of the link at the primary.
        links_ended: how many links the primary has seen to their end.
    """

    pipe: LinkPipe
    primary_pipe: LinkPipe
    primary: PrimaryLink

    def __init__(self, harness: Harness, name: str) -> None:
        self._harness, self._name = harness, name
        self.links_ended = 0
        self._is_wanted = trio.Event()
        self._is_wanted.set()
        # As `runtime.edges.settings_of_edge` does: what the primary decides is left out.
        capacity = dataclasses.replace(harness.options.capacity, max_connections_per_user=0)
        unlimited = dict.fromkeys(LIMITS, 0)
        options = dataclasses.replace(harness.options, capacity=capacity, **unlimited)  # type: ignore[arg-type]
        self.link = EdgeLink()
        self.server = PatientServer(self.link, self._connect, harness.authenticator, harness.quotas, options)
        self.server.broker.scheduler.epoch = lambda: harness.broker.scheduler.epoch()
        harness.nursery.start_soon(self.server.run)

    async def _connect(self) -> MessagePipe:
        await self._is_wanted.wait()
        self._is_wanted = trio.Event()
        self.pipe, self.primary_pipe = pipe_pair()
        self.primary = PrimaryLink(self._harness.server, MessagePipe(self.primary_pipe), self._name)
        self._harness.nursery.start_soon(self._serve)
        return MessagePipe(self.pipe)

    async def _serve(self) -> None:
        await self.primary.run()
        self.links_ended += 1

    def connect_again(self) -> None:
        """Let it have a next link, once this one has ended."""
        self._is_wanted.set()

    def cut(self) -> None:
        """Break the link."""
        self.pipe.cut()
