"""Link: the edge's end of it, which sends batches, and gives sessions what comes for them.

A batch is sent by a task of its own, a round of the loop after it was asked for: so frames of all clients that were
read in one round go out together.  What the primary does not wait for goes with the next batch, or some milliseconds
later.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from gateway.broker.core.ports import Carrier
from gateway.broker.errors import SessionEnded
from gateway.codec.encoder import Binary
from gateway.transports.flow.connected import Login
from gateway.transports.server import Server

from .forms import EdgeLoad, Message, ToPrimary, error_of, fields_of_login
from .logins import EdgeLogins
from .pipe import MessagePipe
from .session import EdgeSession

AWAY = "this edge has no link to its primary"
# Bytes of all clients' frames that may wait for the link; then none is read.
_LINK_WINDOW = 8 * 1024 * 1024
# Bodies of a run: so many frames are a turn of the primary.
_LONGEST_RUN = 400
# Seconds between two messages with counts.
_COUNTS_EVERY = 1.0
# Seconds within which the primary is told what nothing waits for, if there is no batch before, nor a wish of its own.
_TOLD_WITHIN = 0.005
_RUN, _CONFIRMED = int(ToPrimary.RUN), int(ToPrimary.CONFIRMED)


def away(server: Server) -> SessionEnded:
    """The error that clients get while there is no link."""
    retry = server.options.drain_retry
    return SessionEnded(AWAY, f"connect again in {retry} ms", retry_after=retry)


class EdgeLink:
    """The link of an edge to its primary, and the sessions that go over it; it may be lost, and come again."""

    def __init__(self) -> None:
        self._pipe: MessagePipe | None = None  # None: there is no link now
        self._sessions: dict[int, EdgeSession] = {}
        self._last_number = 0
        self._moving: list[EdgeSession] = []  # they wait for the next link
        self._asked = trio.Event()
        self._wrote: dict[int, int] = {}  # session -> bytes since the last batch
        self._has_time = trio.Event()  # something is to be told that has time
        # The run that is being put together: session, place, bodies, and receipts if each frame has one.
        self._run: tuple[int, int, list[bytes], list[str]] | None = None
        self._spoke: list[tuple[EdgeSession, int]] = []  # sessions with frames in this batch, and how many bytes
        self._on_way: deque[list[tuple[EdgeSession, int]]] = deque()  # the same of each batch that is not handled
        self._room = trio.lowlevel.ParkingLot()
        self._takes: tuple[Callable[..., None], ...] = (
            self._of_session(EdgeSession.begin),
            self._refuse,
            self._write,
            self._of_session(EdgeSession.hold),
            self._of_session(EdgeSession.go),
            self._of_session(lambda session, error: session.end(error_of(error))),
            self._of_session(lambda session, error: session.fail(error_of(error))),
            self._of_session(EdgeSession.finish),
            self._of_session(EdgeSession.renew),
            self._handled,
            self._of_session(EdgeSession.note_told),
            self._drain,
            self._reload,
            lambda *answer: self.logins.take_answer(*answer),
            lambda *failed: self.logins.take_failure(*failed),
            lambda *succeeded: self.logins.take_success(*succeeded),
            lambda *others: self._on_others(*others),
            lambda: None,  # a sign of life
            self._of_session(EdgeSession.tell_at_once),
            lambda *known: self.logins.take_known(*known),
        )
        self.logins = EdgeLogins(self, None)
        self.farewell: SessionEnded | None = None  # what clients are told since the primary drains
        # Called when the primary drains; None: it is on another machine, and there may be a next one soon.
        self.on_drain: Callable[[bool], None] | None = None
        # Called when the primary has read its files again, with the settings that a reload may change.
        self.on_reload: Callable[[Mapping[str, Any]], None] = lambda changed: None
        self._on_others: Callable[[int, int], None] = lambda connections, memory: None

    def attend(self, logins: EdgeLogins, on_others: Callable[[int, int], None]) -> None:
        """Tell the primary of logins, and what it says of other processes: their connections and memory."""
        self.logins, self._on_others = logins, on_others

    @property
    def is_up(self) -> bool:
        return self._pipe is not None

    async def serve(
        self,
        pipe: MessagePipe,
        flush: Callable[[], Awaitable[None]],
        counts: Callable[[], dict[str, object]],
        load: Callable[[], EdgeLoad],
        longest_silence: float,
    ) -> None:
        """Serve the link until it ends, or is silent for so many seconds.

        `flush`: writes outboxes.  `counts`: what was counted since the last call.
        """
        self._pipe = pipe
        self.farewell = None
        self._move_all()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, pipe)
                nursery.start_soon(self._tell_late, pipe)
                nursery.start_soon(self._count, counts, load)
                with trio.CancelScope() as listening:
                    nursery.start_soon(self._watch, pipe, longest_silence, listening)
                    async for batch in pipe.batches():
                        for message in batch:
                            self._takes[message[0]](*message[1:])
                        await flush()
                if listening.cancelled_caught:
                    # Clients go elsewhere now: what is on its way would come behind what they send there.
                    pipe.discard()
                nursery.cancel_scope.cancel()
        finally:
            self._pipe = None
            with trio.CancelScope(shield=True):
                await pipe.aclose()

    async def _watch(self, pipe: MessagePipe, longest_silence: float, listening: trio.CancelScope) -> None:
        await pipe.wait_silent(longest_silence, longest_silence)
        listening.cancel()

    def end_all(self, error: SessionEnded) -> tuple[int, int]:
        """The link is lost: end all sessions but those that can move to another primary.

        Returns how many can, and how many end.
        """
        self._run = None
        self._wrote.clear()
        self._spoke.clear()
        self._on_way.clear()
        self._room.unpark_all()
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            if session.can_move:
                session.wait_for_link()
                self._moving.append(session)
            else:
                session.lose(error)
        return len(self._moving), len(sessions) - len(self._moving)

    def _move_all(self) -> None:
        """There is a link again: have sessions at its primary for those that wait."""
        moving, self._moving = self._moving, []
        for session in moving:
            if not session.outbox.closed:
                self._last_number += 1
                self._sessions[self._last_number] = session
                session.move(self._last_number)

    def give_up(self, error: SessionEnded) -> None:
        """There was no link for too long: end the sessions that wait for one."""
        moving, self._moving = self._moving, []
        for session in moving:
            session.lose(error)

    # to the primary

    def put(self, kind: ToPrimary, *fields: object) -> None:
        """Put a message behind the others."""
        self._end_run()
        if self._pipe is not None:
            self._pipe.put(int(kind), *fields)

    def put_send(self, number: int, place: int, body: bytes, receipt: str | None) -> None:
        """Put a SEND behind the others."""
        run = self._run
        if (
            run is None
            or run[0] != number
            or run[1] != place
            or (receipt is None) is not (not run[3])
            or len(run[2]) == _LONGEST_RUN
        ):
            self._end_run()
            run = self._run = (number, place, [], [])
        run[2].append(body)
        if receipt is not None:
            run[3].append(receipt)

    def _end_run(self) -> None:
        run = self._run
        if run is not None and self._pipe is not None:
            self._run = None
            if run[3]:
                self._pipe.put(_CONFIRMED, *run)
            else:
                self._pipe.put(_RUN, *run[:3])

    def ask(self) -> None:
        """Have the batch sent soon."""
        self._asked.set()

    def end_turn(self, session: EdgeSession) -> None:
        """A session's turn is over."""
        if nbytes := session.send():
            self._spoke.append((session, nbytes))
            self._asked.set()

    def wrote(self, number: int, nbytes: int) -> None:
        """A socket has taken bytes."""
        self._wrote[number] = self._wrote.get(number, 0) + nbytes
        self._has_time.set()

    async def _tell_late(self, pipe: MessagePipe) -> None:
        while True:
            await self._has_time.wait()
            await trio.sleep(_TOLD_WITHIN)
            self._has_time = trio.Event()
            if self._wrote or pipe.has_messages:
                self.ask()

    async def wait_for_room(self) -> None:
        """Wait while too much waits for the primary."""
        while self._pipe is not None and self._pipe.waiting > _LINK_WINDOW:
            await self._room.park()

    async def _send(self, pipe: MessagePipe) -> None:
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            self._end_run()
            if self._wrote:
                pipe.put(int(ToPrimary.WROTE), [*itertools.chain.from_iterable(self._wrote.items())])
                self._wrote.clear()
            if self._spoke:
                pipe.put(int(ToPrimary.BATCH))
                self._on_way.append(self._spoke)
                self._spoke = []
            if not pipe.send():
                await pipe.drain()
            self._room.unpark_all()

    async def _count(self, counts: Callable[[], dict[str, object]], load: Callable[[], EdgeLoad]) -> None:
        # The first of these tells the primary that the edge is ready.
        while True:
            self.put(ToPrimary.COUNTS, counts())
            self.put(ToPrimary.LOAD, *load())
            self.ask()
            await trio.sleep(_COUNTS_EVERY)

    async def open(self, server: Server, carrier: Carrier, login: Login) -> EdgeSession:
        """Ask for a session.  Raises ProtocolError: the primary opens none, or there is no link."""
        if self._pipe is None:
            raise away(server)
        self._last_number = number = self._last_number + 1
        session = self._sessions[number] = EdgeSession(self, number, server, carrier, login)
        self.put(ToPrimary.OPEN, number, fields_of_login(login), False)
        self.ask()
        try:
            await session.opened.wait()
        except BaseException:
            self.leave(session)
            raise
        if session.refusal is not None:
            raise session.refusal
        return session

    def leave(self, session: EdgeSession) -> None:
        """The connection of a session is closed."""
        number = session.number
        # Behind what it has written: else that would come back, and to others.
        if nbytes := self._wrote.pop(number, 0):
            self.put(ToPrimary.WROTE, (number, nbytes))
        self.put(ToPrimary.LEFT, number, session.received.taken_of_primary)
        self._sessions.pop(number, None)
        if session.ended:  # it has left the queues and topics already
            self._has_time.set()
        else:
            self.ask()

    # from the primary; a session may have left meanwhile

    def _of_session(self, take: Callable[..., None]) -> Callable[..., None]:
        """What takes a message for one session, of which the function gets the fields."""

        def find(number: int, *fields: Any) -> None:
            session = self._sessions.get(number)
            if session is not None:
                take(session, *fields)

        return find

    def _refuse(self, number: int, error: Message) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            session.lose(error_of(error))  # it may have moved to this primary

    def _write(self, shared: Sequence[bytes], receivers: Sequence[Any], binary: Sequence[int]) -> None:
        if binary:
            shared = [Binary(part) if at in binary else part for at, part in enumerate(shared)]
        size, count = sum(map(len, shared)), len(shared)
        sessions = self._sessions
        for at in range(0, len(receivers), 2):
            session = sessions.get(receivers[at])
            if session is not None:
                prefixes = receivers[at + 1]
                if isinstance(prefixes, bytes):
                    session.take_in((prefixes,) * count, shared, size + len(prefixes) * count)
                else:
                    session.take_in(prefixes, shared, size + sum(map(len, prefixes)))

    def _handled(self, batches: int) -> None:
        for _ in range(batches):
            for session, nbytes in self._on_way.popleft():
                session.note_handled(nbytes)

    def _drain(self, error: Message, is_final: bool) -> None:
        farewell = error_of(error)
        assert isinstance(farewell, SessionEnded)  # no other error ends all sessions
        self.farewell = farewell
        if self.on_drain is not None:
            self.on_drain(is_final)
            return
        # The others are ended by the primary, one by one.
        for session in [each for each in self._sessions.values() if each.can_move]:
            self.leave(session)
            session.wait_for_link()
            self._moving.append(session)

    def _reload(self, changed: Mapping[str, Any]) -> None:
        self.on_reload(changed)
