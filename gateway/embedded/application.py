"""Embedded gateway: a part of a Starlette or FastAPI application, with one lifespan.

    stomp = Embedded()
    app = FastAPI(lifespan=stomp.lifespan)
    app.mount("/stomp", stomp)               # the console and the API, at /stomp/console/
    await stomp.publish("/queue/orders", b"two cups")

It works on trio and on asyncio (`gateway/process/asyncio_bridge.py`).  STOMP clients connect to the gateway's own
listeners.  A message is sent by a session of its own, with the rules and limits of its user, so no rule is written
twice; that costs a login in memory for each message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import trio

from gateway.app import CRASHED, App

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from gateway.config.settings import Settings

NOT_OPEN = "the gateway is not open: start the application with its lifespan, FastAPI(lifespan=stomp.lifespan)"
_LONGEST_WAIT = 30.0  # seconds for the RECEIPT


class NotStarted(Exception):
    """The gateway did not start, or has failed; `str()` is one sentence."""


class NotPublished(Exception):
    """The message is refused, or not confirmed; `str()` is the sentence of the ERROR."""


class Embedded:
    """The gateway as a part of an ASGI application.  `settings`: None: those of the environment and the file."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._app = App(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, outer: Any = None) -> AsyncIterator[None]:
        """Run the gateway for the block.  Raises NotStarted: it cannot start, or failed before the block ended."""
        started, stop = anyio.Event(), anyio.Event()
        failure = ""
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "lifespan.startup"}
            await stop.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: Message) -> None:
            nonlocal failure
            if message["type"].endswith(".failed"):
                failure = message["message"]
            started.set()

        async def run() -> None:
            nonlocal failure
            await self._app({"type": "lifespan"}, receive, send)
            if not stop.is_set():
                failure = failure or CRASHED
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await started.wait()
            if not failure:
                try:
                    yield
                finally:
                    stop.set()
        if failure:
            raise NotStarted(failure)

    async def publish(
        self,
        destination: str,
        body: bytes | str,
        headers: Mapping[str, str] | None = None,
        *,
        user: str = "application",
        groups: frozenset[str] = frozenset(),
    ) -> None:
        """Send a message as a user; returns when a RECEIPT would come.

        Raises NotPublished: it is refused, or not confirmed within 30 s; then it may still be accepted.
        """
        data = body.encode() if isinstance(body, str) else body
        wanted = {**(headers or {}), "destination": destination}
        await self._app.run(self._publish, wanted, data, user, groups)

    async def ticket_for(self, user: str, groups: frozenset[str] = frozenset()) -> str:
        """A ticket for the WebSocket of a user that has logged in to the application; see docs/security.md.

        Raises RuntimeError: no login is needed; TooManyTickets.
        """
        found: str = await self._app.run(self._ticket, user, groups)
        return found

    async def _ticket(self, user: str, groups: frozenset[str]) -> str:
        from gateway.broker.model.identity import Identity

        if self._app.tickets is None:
            raise RuntimeError("no login is needed here, so there are no tickets: connect without one")
        return self._app.tickets.issue(Identity(user, groups))

    async def _publish(self, headers: dict[str, str], body: bytes, user: str, groups: frozenset[str]) -> None:
        from gateway.broker.model.identity import Upgrade
        from gateway.runtime.local_client import SessionRefused
        from gateway.transports.wire.link import Remote

        gateway = self._app.gateway
        if gateway is None:
            raise NotPublished(NOT_OPEN)
        ticket = "" if self._app.tickets is None else await self._ticket(user, groups)
        client = None
        try:
            with trio.fail_after(_LONGEST_WAIT):
                remote = Remote("127.0.0.1", True, None, Upgrade(ticket=ticket))
                client = await gateway.connect_local(remote, "application")
                await client.perform("SEND", headers, body)
        except SessionRefused as refused:
            raise NotPublished(f"{refused}: {refused.detail}" if refused.detail else str(refused)) from None
        except trio.TooSlowError:
            sentence = f"no RECEIPT came within {_LONGEST_WAIT:g} s, and the message may still be accepted"
            raise NotPublished(sentence) from None
        finally:
            if client is not None:
                client.close()
