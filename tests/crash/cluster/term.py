"""Clients under one primary: they connect to it or, where nodes have edges, to any node.

The time of a primary is over for them when it closes a connection, or when another node serves.  A primary that was
stopped closes nothing: then the clients leave their connections open, and what still comes there is looked at.  An edge
that is lost closes connections, too: so with edges only another primary, or another epoch of it, ends the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import trio

from gateway.edges.link import AWAY
from tests.crash.books import Books
from tests.crash.client import Client
from tests.crash.load import Worker
from tests.crash.wire import Gone, Link

from .nodes import Cluster, GatewayNode

# Seconds in which clients must have noticed that their primary is dead.
_NOTICE = 10.0
_AGAIN = 0.1
# Seconds after SIGCONT for what was on its way.  A stop may cut the turn of a chunk in two, behind its look at the
# lease; what the turn had decided to deliver comes then, like what lay in sockets.
_ON_ITS_WAY = 1.0
# What a primary without its servers, or without its lease, tells clients.
EXCUSES = ("the store cannot be written", "this node is a standby", AWAY)
# Seconds for a session: an edge that is stopped takes connections, and nothing more.
_LONGEST_OPEN = 5.0


class Term:
    """The time of one primary.

    Attributes:
        left: clients whose connections to the old primary are still open.
        is_over: no client connects to it any more.
    """

    def __init__(self, cluster: Cluster, node: GatewayNode, books: Books, random: Random) -> None:
        self.node = node
        self._epoch = node.epoch
        self.left: list[Client] = []
        self.is_over = False
        self._cluster = cluster
        self._books = books
        self._random = random
        self._over = trio.Event()
        self._is_replaced = False

    async def serve(self, workers: Sequence[Worker]) -> None:
        """Let the workers work until it is over."""
        async with trio.open_nursery() as nursery:
            for each in workers:
                nursery.start_soon(self._drive, each)
            await self._until_over()
            if self._is_replaced:
                nursery.cancel_scope.cancel()
            else:
                nursery.cancel_scope.deadline = trio.current_time() + _NOTICE
        if nursery.cancel_scope.cancelled_caught and not self._is_replaced:
            self._books.complain("error", "clients did not see that the primary has gone")

    async def _drive(self, worker: Worker) -> None:
        """Let one work, on one connection after the other."""
        last: Client | None = None
        while not self.is_over:
            try:
                client = await self._open()
            except Gone:
                await trio.sleep(_AGAIN)
                continue
            last = None
            try:
                await worker.work(client)
            except trio.Cancelled:
                self.left.append(client)
                raise
            except Gone:
                # The primary may live, and have done any part of what was asked: it refuses what it cannot store.
                client.forsake()
                last = client
                client.complain(EXCUSES)
            await client.close()
            if last is not None:
                await trio.sleep(_AGAIN)
                await self._wait_until_noticed(worker, client)
        if last is None or self._cluster.has_edges:  # it may have lost its edge, and the primary has lived on
            return
        if last.error is None or last.error.headers["message"] not in EXCUSES:
            last.forsake(loose=False)  # it was the end of the primary, which did all of each unit, or nothing

    async def _open(self) -> Client:
        """A session at this primary.  Raises Gone."""
        if not self._cluster.has_edges:
            return await Client.open(self.node.connect, self._books)
        with trio.move_on_after(_LONGEST_OPEN):
            client = await Client.open(self._random.choice(self._cluster.nodes).connect, self._books)
            is_here = False
            try:
                await client.bind()
                # In this order: a session of the next epoch is seen by that.
                is_here = bool(await self.node.has_session(client.session)) and await self._is_primary()
            finally:
                client.complain(EXCUSES)
                if not is_here:
                    await client.close()
            if is_here:
                return client
        raise Gone

    async def _is_primary(self) -> bool:
        return await self.node.is_primary() and self.node.epoch == self._epoch

    async def _wait_until_noticed(self, worker: Worker, client: Client) -> None:
        # Before the primary has noticed that an edge is lost, it has two consumers: the lost one and the next one.
        while self._cluster.has_edges and worker.shows_order and not self.is_over:
            if await self.node.has_session(client.session) is False:
                return
            await trio.sleep(_AGAIN)

    async def _until_over(self) -> None:
        async with trio.open_nursery() as nursery:
            if not self._cluster.has_edges:
                nursery.start_soon(self._hold)
            nursery.start_soon(self._look_for_another)
            await self._over.wait()
            self.is_over = True
            nursery.cancel_scope.cancel()

    async def _hold(self) -> None:
        """Keep a connection that says nothing, until the primary ends it."""
        try:
            link = await Link.open(self.node.connect)
            try:
                while True:
                    await link.receive()
            finally:
                await link.close()
        except Gone:
            self._over.set()

    async def _look_for_another(self) -> None:
        while await self._cluster.primary(but=self.node) is None:
            if self._cluster.has_edges and await self.node.is_primary() and self.node.epoch != self._epoch:
                break
            await trio.sleep(_AGAIN)
        self._is_replaced = True
        self._over.set()


async def watch(client: Client, node: GatewayNode, books: Books, life: int) -> None:
    """Read what an old primary still says to a client, until it ends the connection."""
    try:
        while True:
            for each in await client.receive():
                if trio.current_time() > node.continued + _ON_ITS_WAY:
                    books.delivered_late(each, life)
    except Gone:
        client.complain(EXCUSES)
    finally:
        await client.close()
