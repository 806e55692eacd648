"""Edge: the server of `gateway/transports` whose sessions are at a primary.

The loop of a connection gives each frame to its `EdgeSession`, which puts it on the link.  At the end of its turn it
asks for a batch, and waits as long as the primary says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import structlog
import trio

from gateway.broker import Session
from gateway.broker.core.events import NullEventLog
from gateway.broker.errors import SessionEnded
from gateway.broker.model.identity import Identity
from gateway.codec import ProtocolError
from gateway.transports.flow.back_pressure import BackPressure, Blockable, Turn
from gateway.transports.flow.connected import Connected, Login
from gateway.transports.flow.process_memory import resident
from gateway.transports.server import Server
from gateway.transports.wire.link import Link

from .forms import OVER_LIMIT, EdgeLoad, ToPrimary, fields_of_error, fields_of_identity
from .link import AWAY, EdgeLink, away
from .logins import EdgeLogins
from .pipe import MessagePipe
from .session import EdgeSession

log = structlog.get_logger("gateway.edge")

# What an edge counts, of all that `Counters` has; the primary counts the rest.
_COUNTED = ("connections", "bytes_in", "bytes_out", "heartbeat_timeouts")
_COUNTED_BY_CAUSE = ("refusals", "failed_logins", "failures")
# Seconds for which sessions wait for the next link: as long as a take-over may last.
_LONGEST_WAIT = 30.0


class _Turns(BackPressure):
    """The ends of turns at an edge: the primary says how long a client must wait."""

    link: EdgeLink

    async def end_turn(self, publisher: Blockable, turn: Turn | None = None) -> None:
        await super().end_turn(publisher, turn)
        session = publisher.session
        assert isinstance(session, EdgeSession)  # an edge has no others
        session.read_by(publisher)
        self.link.end_turn(session)
        await self.link.wait_for_room()
        if session.must_wait:
            await session.wait(publisher)


class _Refusals(NullEventLog):
    """An event log of which the primary gets the refused connections."""

    def __init__(self, link: EdgeLink) -> None:
        super().__init__()
        self._link = link

    def refused(self, transport: str, peer: str, login: str | None, error: ProtocolError) -> None:
        self._link.put(ToPrimary.REFUSED, transport, peer, login, fields_of_error(error))
        self._link.ask()


Connect: TypeAlias = Callable[[], Awaitable[MessagePipe]]
"""Waits for the primary; returns the pipe to it."""


class EdgeServer(Server):
    """The server of an edge: its sessions are at the primary.

    `connect`: called again when a link has ended, or was silent for `longest_silence` seconds.
    """

    def __init__(
        self, link: EdgeLink, connect: Connect, *args: Any, longest_silence: float = math.inf, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.link = link
        self._connect = connect
        self._longest_silence = longest_silence
        self.back_pressure = turns = _Turns(
            self.broker, self.timers, self.flush, self.options.slow_consumer_timeout, self.connections
        )
        turns.link = link
        self.broker.records = _Refusals(link)
        link.attend(EdgeLogins(link, self.authenticator), self._take_others)
        self._counted: dict[str, int] = {}

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            nursery.start_soon(self._keep_link)

    async def _keep_link(self) -> None:
        while True:
            with trio.move_on_after(_LONGEST_WAIT) as waiting:
                pipe = await self._connect()
            if waiting.cancelled_caught:
                self.link.give_up(away(self))
                pipe = await self._connect()
            await self.link.serve(pipe, self.flush, self._counts, self._load, self._longest_silence)
            moving, ended = self.link.end_all(away(self))
            log.warning("the link to the primary is lost", waiting=moving, ended=ended)

    @property
    def unready(self) -> str:
        return "" if self.link.is_up else AWAY

    def _take_others(self, connections: int, memory: int) -> None:
        """Limits count all processes together."""
        self.connection_limits.elsewhere = connections
        self.memory_guard.elsewhere = lambda: memory

    def _load(self) -> EdgeLoad:
        limits = self.connection_limits
        return EdgeLoad(
            limits.connections,
            limits.handshakes,
            self.broker.memory.partial,
            resident(),
            time.process_time(),
            **self.fair_gates.waiting,
        )

    def _counts(self) -> dict[str, object]:
        """What was counted since the last call."""
        counters = self.broker.counters
        now = {name: getattr(counters, name) for name in _COUNTED}
        now |= {f"{name} {cause}": n for name in _COUNTED_BY_CAUSE for cause, n in getattr(counters, name).items()}
        now |= {f"{OVER_LIMIT} {limit}": n for limit, n in self.connection_limits.refusals.items()}
        before, self._counted = self._counted, now
        return {name: n - before.get(name, 0) for name, n in now.items() if n != before.get(name, 0)}

    def shutting_down(self) -> SessionEnded:
        return self.link.farewell or super().shutting_down()

    async def log_in(self, connection: Connected, login: Login) -> tuple[Session, Connected | None]:
        session = await self.link.open(self, connection, login)
        # Limits of users are the primary's.
        connection.slot.logs_in(login.identity.user)
        self.session_opened(connection, session)
        return session, None

    async def last_words(self, session: Session) -> None:
        assert isinstance(session, EdgeSession)
        if session.ended or session.failed:
            await session.done.wait()

    def regroup(self, session: Session, identity: Identity, link: Link) -> None:
        assert isinstance(session, EdgeSession)
        self.link.put(ToPrimary.REGROUPED, session.number, fields_of_identity(identity))
        self.link.ask()

    def recheck(self, session: Session) -> bool:
        assert isinstance(session, EdgeSession)
        self.link.put(ToPrimary.RECHECK, session.number)
        self.link.ask()
        return True
