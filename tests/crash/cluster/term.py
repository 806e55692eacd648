"""Clients under one primary.

The time of a primary is over for them when it closes a connection, or when another node serves.  A primary that was
stopped closes nothing: then the clients leave their connections open, and what still comes there is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from tests.crash.books import Books
from tests.crash.client import Client
from tests.crash.load import Worker
from tests.crash.wire import Gone, Link

from .nodes import Cluster, GatewayNode

# Seconds in which clients must have noticed that their primary is dead.
_NOTICE = 10.0
_AGAIN = 0.1
# What a primary without its servers, or without its lease, tells clients.
EXCUSES = ("the store cannot be written", "this node is a standby")


class Term:
    """The time of one primary.

    Attributes:
        left: clients whose connections to the old primary are still open.
        is_over: no client connects to it any more.
    """

    def __init__(self, cluster: Cluster, node: GatewayNode, books: Books) -> None:
        self.node = node
        self.left: list[Client] = []
        self.is_over = False
        self._cluster = cluster
        self._books = books
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
                client = await Client.open(self.node.port, self._books)
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
                await trio.sleep(_AGAIN)
            await client.close()
        if last is not None and not (last.error is not None and last.error.headers["message"] in EXCUSES):
            last.forsake(loose=False)  # it was the end of the primary, which did all of each unit, or nothing

    async def _until_over(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hold)
            nursery.start_soon(self._look_for_another)
            await self._over.wait()
            self.is_over = True
            nursery.cancel_scope.cancel()

    async def _hold(self) -> None:
        """Keep a connection that says nothing, until the primary ends it."""
        try:
            link = await Link.open(self.node.port)
            try:
                while True:
                    await link.receive()
            finally:
                await link.close()
        except Gone:
            self._over.set()

    async def _look_for_another(self) -> None:
        while await self._cluster.primary(but=self.node) is None:  # noqa: ASYNC110 - another process brings it about
            await trio.sleep(_AGAIN)
        self._is_replaced = True
        self._over.set()


async def watch(client: Client, books: Books, life: int) -> None:
    """Read what an old primary still says to a client, until it ends the connection."""
    try:
        while True:
            for each in await client.receive():
                books.delivered_late(each, life)
    except Gone:
        client.complain(EXCUSES)
    finally:
        await client.close()
