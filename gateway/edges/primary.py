"""Primary: the end of a link at the process that has the broker.

One task for each edge reads a batch and carries it out, whatever clients it is of; then all outboxes are flushed, also
those of other edges' clients, and each link that got something is written, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import repeat
from time import perf_counter
from typing import Any, TypeAlias

import structlog
import trio

from gateway.codec import Frame, Head, ProtocolError
from gateway.codec.encoder import Binary
from gateway.transports.flow.connection_limits import AtEdges
from gateway.transports.server import Server

from .forms import OVER_LIMIT, EdgeLoad, Message, ToEdge, error_of, fields_of_error, login_of
from .logins import PrimaryLogins
from .pipe import MessagePipe
from .remote import RemoteConnection, Run

log = structlog.get_logger("gateway.edge")

# Seconds after which others get their turn in the middle of a batch.
_LONGEST_TURN = 0.003
LONGEST_SILENCE = 15.0
"""Seconds without a message after which an edge counts as hung: it says something each second."""
LONGEST_START = 120.0
"""Seconds until its first one: a process takes long to start where many do."""
_WRITE = int(ToEdge.WRITE)


_Left: TypeAlias = "tuple[RemoteConnection, Iterator[Frame], Run | None]"
"""Frames that are left until others had their turn."""


def _handle(connection: RemoteConnection, frames: Iterator[Frame], run: Run | None = None) -> _Left | None:
    return None if connection.take(frames, run) else (connection, frames, run)


class PrimaryLink:
    """The link to one edge, and the sessions of its clients.

    Args:
        end_process: ends the process of an edge that is silent.
        on_ready: called when the edge says for the first time that it serves clients.
        memory_beside: returns the bytes of memory of the other processes of the same machine.

    Attributes:
        in_turn: connections with frames since the last end of a turn.
        ended: numbers of sessions that get nothing more once the outboxes are flushed.
        load: what the edge said last that it has and takes.
        is_silent: the link ended because the edge said nothing any more.
        lost: sessions that the end of the link has ended.
    """

    def __init__(
        self,
        server: Server,
        pipe: MessagePipe,
        name: str,
        *,
        end_process: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        on_ready: Callable[[], None] = lambda: None,
        memory_beside: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = name
        self._server = server
        self._pipe = pipe
        self._connections: dict[int, RemoteConnection] = {}
        self._nursery: trio.Nursery | None = None
        self._asked = trio.Event()
        self._depth = 0  # flushes that are under way
        self._batches = 0  # that were handled since the last flush
        # What outboxes get now: shared parts, and the sessions that get them, each with its prefixes.
        self._shared: list[bytes] = []
        self._receivers: list[Any] = []
        self.in_turn: list[RemoteConnection] = []
        self.ended: list[int] = []
        self._end_process = end_process
        self._on_ready = on_ready
        self._memory_beside = memory_beside
        self.load = EdgeLoad()
        self.is_silent = False
        self.lost = 0
        self._others = 0, 0
        self._logins = logins = PrimaryLogins(server, self)
        self._takes: tuple[Callable[..., _Left | None], ...] = (
            self._open,
            self._head,
            self._run,
            self._confirmed,
            self._frame,
            self._wrote,
            self._of_session(RemoteConnection.fail_at_edge),
            self._of_session(RemoteConnection.leave),
            self._of_session(RemoteConnection.renewed),
            self._of_session(RemoteConnection.regroup),
            self._of_session(RemoteConnection.recheck),
            self._of_session(RemoteConnection.tell),
            self._refused,
            self._counts,
            self._batch,
            logins.redeem,
            logins.take_failure,
            logins.take_success,
            self._load,
        )

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes that came over the link, and that were sent."""
        return self._pipe.bytes_in, self._pipe.bytes_out

    @property
    def sessions(self) -> int:
        """Sessions of the edge."""
        return len(self._connections)

    async def run(self) -> None:
        """Serve the link until it ends, or is silent; then all its sessions have ended."""
        server = self._server
        server.links.append(self)
        self._logins.begin()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._send)
                with trio.CancelScope() as listening:
                    nursery.start_soon(self._watch, listening)
                    await self._listen()
                await self._end_all()
                nursery.cancel_scope.cancel()
        finally:
            for connection in list(self._connections.values()):  # there are some if this was cancelled
                connection.abandon()
            server.links.remove(self)
            server.connection_limits.at_edges = count_at_edges(server)
            with trio.CancelScope(shield=True):
                await self._pipe.aclose()

    async def _listen(self) -> None:
        server = self._server
        try:
            async with aclosing(self._pipe.batches()) as batches:
                async for batch in batches:
                    server.turn_time = trio.current_time()
                    if server.lease is not None:
                        server.look_at_lease()
                    await self._carry_out(batch)
        except Exception:
            # Nothing may leave, it would end the gateway: the edge is started again.
            log.exception("the link to an edge is broken", edge=self.name)

    async def _watch(self, listening: trio.CancelScope) -> None:
        """End the link of an edge that says nothing, and its process."""
        await self._pipe.wait_silent(LONGEST_START, LONGEST_SILENCE)
        self.is_silent = True
        log.error("an edge is silent", edge=self.name)
        # First: going on later, its clients would be at work on what others have got meanwhile.
        await self._end_process()
        listening.cancel()

    async def _carry_out(self, batch: Iterable[Message]) -> None:
        began = perf_counter()
        for kind, *fields in batch:
            left = self._takes[kind](*fields)
            while left is not None:
                began = await self._turn_over(began)
                left = _handle(*left)
            if perf_counter() - began > _LONGEST_TURN:
                began = await self._turn_over(began)
        await self._flush(began)

    async def _turn_over(self, began: float) -> float:
        await self._flush(began)
        await trio.lowlevel.checkpoint()
        return perf_counter()

    async def _flush(self, began: float) -> None:
        """End the turn that began then."""
        has_frames = bool(self.in_turn)
        self.end_turns()
        await self._server.flush()
        if has_frames:
            self._server.back_pressure.turns.add((perf_counter() - began) * 1e6)

    def end_turns(self) -> None:
        """The turns of all clients with frames are over."""
        if self.in_turn:
            in_turn, self.in_turn = self.in_turn, []
            is_short = self._server.back_pressure.is_short
            for connection in in_turn:
                connection.end_turn(is_short)

    async def _end_all(self) -> None:
        """The edge is gone, and its clients are not to blame."""
        self.lost = len(self._connections)
        for connection in list(self._connections.values()):
            connection.leave(None, has_failed=False)
        while self._connections:  # noqa: ASYNC110 - the last one of thousands need not wake it at once
            await trio.sleep(0.01)

    # to the edge

    def drain(self, error: ProtocolError, *, is_final: bool) -> None:
        """Have the edge take no new clients; `is_final`: this process ends."""
        self.put(ToEdge.DRAIN, fields_of_error(error), is_final)
        self.ask()

    def reload(self, changed: Mapping[str, Any]) -> None:
        """Have the edge read its files again, and take settings."""
        self.put(ToEdge.RELOAD, dict(changed))
        self.ask()

    def put(self, kind: ToEdge, *fields: object) -> None:
        """Put a message behind the others."""
        self._end_write()
        self._pipe.put(int(kind), *fields)

    def write(self, number: int, parts: list[bytes]) -> None:
        """Put frames for a session: prefix, shared part, prefix, shared part ..."""
        if len(parts) == 2:
            # The usual case of what is lone: a receipt, or a message to many.
            first, one = parts
            if len(self._shared) != 1 or self._shared[0] is not one:
                self._end_write()
                self._shared.append(one)
            self._receivers += number, first
        else:
            prefixes, shared = parts[0::2], parts[1::2]
            # The lists of subscribers of one topic are made of the same objects, which makes this cheap.
            if shared != self._shared:
                self._end_write()
                self._shared = shared
            first = prefixes[0]
            self._receivers += number, (first if prefixes.count(first) == len(prefixes) else prefixes)
        if not self._depth:
            self.ask()

    def _end_write(self) -> None:
        if self._receivers:
            # Of what a part is made, its bytes do not say.
            binary = [at for at, part in enumerate(self._shared) if type(part) is Binary]
            self._pipe.put(_WRITE, self._shared, self._receivers, binary)
            self._shared, self._receivers = [], []

    def ask(self) -> None:
        """Have the batch sent soon."""
        self._asked.set()

    def begin_flush(self) -> None:
        """Outboxes are being flushed: what they have is to go in one batch."""
        self._depth += 1

    def end_flush(self) -> None:
        """They are flushed: send it."""
        self._depth -= 1
        if self._depth:
            return
        self._end_write()
        for number in self.ended:
            self._pipe.put(int(ToEdge.DONE), number)
        self.ended.clear()
        if self._batches:
            self._pipe.put(int(ToEdge.HANDLED), self._batches)
            self._batches = 0
        if not self._pipe.send():
            self.ask()

    async def _send(self) -> None:
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            self._end_write()
            await self._pipe.drain()

    def start(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Begin a task of a connection."""
        assert self._nursery is not None  # connections are there only while it runs
        self._nursery.start_soon(task, *args)

    def forget(self, number: int) -> None:
        """A session is gone."""
        self._connections.pop(number, None)

    # from the edge; a session may be gone already

    def _open(self, number: int, fields: Message, has_moved: bool) -> None:
        login = login_of(fields)
        try:
            connection = RemoteConnection(self._server, self, number, login, has_moved=has_moved)
        except ProtocolError as error:
            self.put(ToEdge.REFUSE, number, fields_of_error(error))
            return
        self._connections[number] = connection
        assert connection.session is not None  # it is open
        self.put(ToEdge.OPENED, number, connection.session.id)

    def _head(
        self, number: int, place: int, command: str, headers: dict[str, str], content_length: int, size: int
    ) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            connection.heads[place] = Head(command, headers, content_length, size)

    def _run(self, number: int, place: int, bodies: tuple[bytes, ...]) -> _Left | None:
        connection = self._connections.get(number)
        if connection is None:
            return None
        head = connection.heads[place]
        connection.came += head.size * len(bodies) + sum(map(len, bodies))
        left = iter(bodies)
        return _handle(connection, map(Frame, repeat(head), left), (head, left))

    def _confirmed(self, number: int, place: int, bodies: tuple[bytes, ...], receipts: tuple[str, ...]) -> _Left | None:
        connection = self._connections.get(number)
        if connection is None:
            return None
        head = connection.heads[place]
        connection.came += head.size * len(bodies) + sum(map(len, bodies))
        return _handle(connection, map(Frame, repeat(head), bodies, receipts))

    def _frame(
        self, number: int, command: str, headers: dict[str, str], size: int, body: bytes, receipt: str | None
    ) -> _Left | None:
        connection = self._connections.get(number)
        if connection is None:
            return None
        connection.came += size + len(body)
        return _handle(connection, iter((Frame(Head(command, headers, size=size), body, receipt),)))

    def _wrote(self, counts: tuple[int, ...]) -> None:
        connections, now = self._connections, self._server.turn_time
        for number, nbytes in zip(counts[0::2], counts[1::2], strict=True):
            connection = connections.get(number)
            if connection is not None:
                connection.wrote(nbytes, now)

    def _of_session(self, take: Callable[..., None]) -> Callable[..., None]:
        """What takes a message of one session, of which the function gets the fields."""

        def find(number: int, *fields: Any) -> None:
            connection = self._connections.get(number)
            if connection is not None:
                take(connection, *fields)

        return find

    def _refused(self, transport: str, peer: str, login: str | None, error: Message) -> None:
        self._server.broker.records.refused(transport, peer, login, error_of(error))

    def _counts(self, counts: Mapping[str, int]) -> None:
        self.put(ToEdge.ALIVE)
        counters = self._server.broker.counters
        for name, count in counts.items():
            of, _, cause = name.partition(" ")
            if of == OVER_LIMIT:
                self._server.connection_limits.refusals[cause] += count
            elif cause:
                by_cause = getattr(counters, of)
                by_cause[cause] = by_cause.get(cause, 0) + count
            else:
                setattr(counters, of, getattr(counters, of) + count)

    def _load(self, *load: Any) -> None:
        is_first, self.load = not self.load.memory, EdgeLoad(*load)
        if is_first:
            self._on_ready()
        limits = self._server.connection_limits
        limits.at_edges = count_at_edges(self._server)
        others = limits.at_edges.connections - self.load.connections, self._memory_beside()
        if others != self._others:
            self._others = others
            self.put(ToEdge.OTHERS, *others)
            self.ask()

    def _batch(self) -> None:
        self._batches += 1


def count_at_edges(server: Server) -> AtEdges:
    """What all edges together have."""
    loads = [each.load for each in server.links if isinstance(each, PrimaryLink)]
    return AtEdges(*[sum([getattr(each, name) for each in loads]) for name in AtEdges._fields])
