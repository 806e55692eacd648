"""A harness with functions: clients over memory streams, and a runner in the same hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from gateway.broker import Quotas
from gateway.handlers import Handlers, Runner
from tests.transports.harness import Harness
from tests.transports.peers import Peer, Received


class Hall:
    """Functions and their clients.

    Attributes:
        harness: the clients' side.
        runner: not running before `begin`.
        scope: cancelled, the runner stops.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        handlers: Handlers,
        policies: Mapping[str, Mapping[str, Any]] | None = None,
        **quotas: Any,
    ) -> None:
        self.harness = Harness(nursery, policies=policies or {}, quotas=Quotas(**quotas))
        self.runner = Runner(self.harness.broker, handlers, self._settle)
        self.scope = trio.CancelScope()
        self._nursery = nursery

    async def _settle(self, runner: Runner) -> None:
        await self.harness.server.back_pressure.end_turn(runner)

    def begin(self) -> Hall:
        self._nursery.start_soon(self._run)
        return self

    async def _run(self) -> None:
        with self.scope:
            await self.runner.run()

    async def client(self, version: str = "1.2", **headers: object) -> Peer:
        peer = self.harness.connect("tcp")
        await peer.connect(version, **headers)
        return peer

    async def ask(self, peer: Peer, destination: str, body: bytes = b"", **headers: object) -> Received:
        await peer.publish(destination, body, reply_to="/temp-queue/r", **headers)
        return await peer.frame("MESSAGE")
