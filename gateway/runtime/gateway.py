"""Gateway without HTTP: listeners, server and connections in one nursery, and their end.

    open_gateway
      |- server                     timers of all connections
      |- functions                  of the setting `handlers`, each message a task
      |- a listener per address     each connection a task, with a nursery of its own
      '- (the caller's block)

Draining.  Listeners close; every session gets an ERROR with the time to come back, and over WebSocket the close code
1012; routed messages are written; functions finish; all of it within `drain_timeout`, after which connections are cut.
After a drain by an operator the process stays, and sockets of systemd stay open: systemd would go on listening, and new
clients would wait without an answer, so they get the ERROR with the time to come back.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
import trio

from gateway import __version__
from gateway.auth.rules import Rules
from gateway.broker import Broker, Quotas, Session
from gateway.broker.admin.messages import MessageAdmin
from gateway.broker.core.announcer import EventAnnouncer
from gateway.broker.core.ports import Authenticator
from gateway.broker.model.identity import Credentials, Identity
from gateway.broker.model.message import Message
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.broker.session.recheck import recheck
from gateway.codec import Limits, ProtocolError
from gateway.config.errors import StartError as StartError
from gateway.config.errors import start_errors
from gateway.config.settings import Settings, wrong
from gateway.handlers import DEAD_LETTERS, OF_SENDS, Handlers, HandlersError, Runner, load
from gateway.journal import Journal
from gateway.runtime import local_client
from gateway.runtime.journal import close_journal, close_tracing, open_journal, open_tracing
from gateway.runtime.listeners import addresses_of, handler_of, open_all, read_certificates, warnings
from gateway.runtime.local_client import LocalClient
from gateway.runtime.reload import InForce, Reading, Reloadable, reload_all
from gateway.runtime.store import OpenStore, last_words, open_the_store, recover_from, tell_of_memory
from gateway.stores import SQLiteStore, StoreError
from gateway.stores.backup import FrozenStore, frozen
from gateway.transports import ConnectionHandler, Listening, Server, TransportOptions, Trusted, close, identify
from gateway.transports.accept.listener import Acceptor
from gateway.transports.connection.session_expiry import SessionReviewer
from gateway.transports.flow.broker_clock import BrokerClock
from gateway.transports.flow.connected import NO_BODY
from gateway.transports.flow.connection_limits import Capacity, room_for, within_files
from gateway.transports.flow.process_memory import watch_process, within_mark
from gateway.transports.server import NO_LEASE, Lease
from gateway.transports.wire.link import Remote

if TYPE_CHECKING:
    from gateway.cluster.node import Node
    from gateway.observe.spans import Spans
    from gateway.runtime.edges import EdgePart, Edges
    from gateway.runtime.remote_edges import EdgeListeners
    from gateway.transports.wire.certificates import TlsCertificates

log = structlog.get_logger("gateway")

# Seconds for the last batches.
LONGEST_WRITE = 10.0

_NO_LINK = "the edges of this node have no link to the primary"

# A body before login is a mistake or an attack; so many bytes of it are read and ignored.
_CONNECT_BODY = 1024


def _fields_of(kind: Any, settings: Settings) -> dict[str, Any]:
    """The fields of a dataclass that have the name of a setting."""
    names = [each.name for each in fields(kind) if each.name in Settings.model_fields]
    return {name: getattr(settings, name) for name in names}


def announce(settings: Settings, broker: Broker) -> None:
    """Begin to publish events, if the settings say so."""
    if settings.events:
        announcer = EventAnnouncer(
            broker.context, settings.events, settings.events_of, sessions=settings.events_of_sessions
        )
        broker.context.announcer = announcer
        announcer.started()


def quotas_of(settings: Settings) -> Quotas:
    return Quotas(**_fields_of(Quotas, settings))


def policies_of(settings: Settings) -> Policies:
    """The policies of destinations in the order of the file, after the default for the functions' dead letters."""
    ours = (Pattern(OF_SENDS), {"dead_letter": DEAD_LETTERS})
    return Policies([ours, *[(Pattern(text), values) for text, values in settings.policy_by_pattern]])


def options_of(settings: Settings) -> TransportOptions:
    made: dict[str, Any] = {
        "server": f"{settings.server_name}/{__version__}" if settings.server_version else settings.server_name,
        "limits": Limits(settings.max_headers, settings.max_header_line, settings.max_body),
        "connect_limits": Limits(
            settings.max_connect_headers, settings.max_connect_header_line, _CONNECT_BODY, "max_connect_", NO_BODY
        ),
        "allowed_origins": tuple(settings.allowed_origins),
        "capacity": Capacity(**_fields_of(Capacity, settings)),
    }
    return TransportOptions(**_fields_of(TransportOptions, settings) | made)


class Gateway:
    """A running gateway.

    `trusted`: proxies whose word on a client's address counts.  `drained`: an operator's drain is complete: no client
    is connected, and the store has all durable messages.
    """

    def __init__(
        self,
        settings: Settings,
        server: Server,
        addresses: dict[str, list[str]],
        functions: Runner | None = None,
        journal: Journal | None = None,
        reading: Reading | None = None,
        store: OpenStore | None = None,
    ) -> None:
        self._store = store
        self._reading = reading or Reading(lambda: settings)
        self.in_force = InForce(settings, self._reading)  # the settings, which a reload may change
        self.in_force.on_change.append(self._take)
        self.broker: Broker = server.broker
        self.message_admin = MessageAdmin(server.broker)
        self.blocked_publishers = server.back_pressure.blocked  # those that are not read now
        self.connection_limits = server.connection_limits  # counts and limits of connections
        self.memory_guard = server.memory_guard
        self.turns = server.back_pressure.turns  # durations of clients' turns
        self.fair_gates = server.fair_gates  # queues of bulk senders and of new connections
        self.traces = server.traces  # show the frames of sessions to operators
        self.committer = server.committer  # writes to the store; None: there is no store
        self.journal = journal  # None: events are not recorded
        self.addresses = addresses  # kind of listener -> its addresses, with real ports
        self.reloadables: list[Reloadable] = []  # read again by `reload`
        self.trusted = server.rate_limits.trusted = Trusted(settings.trusted_proxies)
        self.certificates: TlsCertificates | None = None  # of the TLS listeners; None: there are none
        self.tracing: Spans | None = None  # sends spans to a collector; None: messages are not traced
        self.node: Node | None = None  # of a cluster; None: this gateway is alone
        self.recovered = 0.0  # the monotonic time when the broker had all that the store has
        self.drained = False
        self.is_written = False  # it is finished, and all batches are in the store
        self._finishing = trio.CancelScope(shield=True)
        self._is_finishing = False
        self._server = server
        self._connections: trio.Nursery | None = None  # where connections live; None: it takes no clients yet
        self.functions = functions  # of the operator; None: there are none
        self.edges: Edges | None = None  # the processes that have the sockets; None: this one has them
        self.remote_edges: EdgeListeners | None = None  # those on other machines; None: it does not listen for them
        self._listening = trio.CancelScope()
        self._own_listeners: list[trio.CancelScope] = []  # within it: those that are not systemd's
        self._drained_by = 0.0
        self._drain_asked = trio.Event()

    async def identify(self, credentials: Credentials) -> Identity:
        """The identity of a client without a session.  Raises LoginRefused: the credentials are refused."""
        return await identify(self._server, credentials)

    def edge_of(self, session: Session) -> str | None:
        """The edge that has the connection of a session; None: this process has it, or it has none."""
        connection = self._server.connections.get(session)
        return None if connection is None else connection.edge

    @property
    def is_standby(self) -> bool:
        """Whether this gateway is a standby of a cluster: it has no messages, and refuses all clients."""
        return self._server.standby is not None

    @property
    def draining(self) -> bool:
        """Whether sessions are being ended, and no new ones are opened."""
        return self._server.draining

    def not_ready(self) -> str | None:
        """The reason why new clients must not be sent here; None: they may."""
        node = self.node
        if self._server.standby is not None:
            where = self._server.standby()
            if node is not None and node.edges is not None and not node.is_drained:
                return None if node.edges.are_up else _NO_LINK
            if node is not None and node.failure:
                return f"this node is a standby that cannot take over: {node.failure}; {where}"
            if node is not None and node.is_drained:
                return f"this node is drained: {where}"
            return f"this node is a standby: {where}"
        if self._server.draining:
            return "the gateway is shutting down"
        # Full memory is a reason; short memory is not: it would keep away the consumers, which alone can make room.
        if self.memory_guard.reason:
            return f"memory is full: {self.memory_guard.reason}"
        if node is not None and node.edges is not None and not node.edges.are_up:
            return _NO_LINK
        if self._server.unready:
            return self._server.unready
        storage = self.broker.storage
        if storage is not None and storage.is_suspended:
            return f"the lease is not renewed: {NO_LEASE}"
        if storage is None or not storage.failure:
            return None
        return f"{'the store has failed' if storage.is_failing else 'the store is short of room'}: {storage.failure}"

    def complaints(self) -> dict[str, str]:
        """Faults that do not keep clients away: name -> sentence."""
        found = {
            "journal": self.journal.failure if self.journal is not None else "",
            "certificate": self.certificates.warning() if self.certificates is not None else "",
            "tracing": self.tracing.failure if self.tracing is not None else "",
        }
        return {name: sentence for name, sentence in found.items() if sentence}

    async def drain(self) -> None:
        """End all sessions; returns when they have ended, or after `drain_timeout`."""
        self._begin_drain()
        self._listening.cancel()
        await self._end_sessions()

    def _begin_drain(self) -> None:
        if not self._server.draining:
            self._server.draining = True
            self._drained_by = trio.current_time() + self.in_force.now.drain_timeout

    async def _end_sessions(self) -> None:
        error = self._server.shutting_down()
        connections = list(self._server.open_connections)
        # All before the first one ends: else a client would get what another one gives back, marked as redelivered.
        for session in [each.session for each in connections if each.session is not None]:
            session.pause()
        is_final = not self._drain_asked.is_set()
        if self.edges is not None:
            self.edges.close(is_final=is_final)
        for link in self._server.links:
            link.drain(error, is_final=is_final)
        for connection in connections:
            connection.end(error)
        with trio.move_on_at(self._drained_by):
            await self._server.wait_empty()
            if self.functions is not None:
                await self.functions.finish()

    def begin_drain(self) -> None:
        """Drain for an operator, and return at once; the process stays."""
        if not self._drain_asked.is_set():
            log.info("draining", signal="an operator's word")
            self._begin_drain()
            self._drain_asked.set()

    async def _drain_when_asked(self) -> None:
        await self._drain_asked.wait()
        for scope in self._own_listeners:
            scope.cancel()
        await self._end_sessions()
        # Unlike a signal's drain this one has no limit: the process stays, so it waits for every connection.
        await self._server.wait_empty()
        if self._server.committer is not None:
            await self._server.committer.finish()
        self.drained = True
        log.info("drained", next="stop or restart the process: nothing is connected any more")

    async def store_all(self) -> bool:
        """Write all batches to the store; False: it took too long."""
        if self._server.committer is None:
            return True
        with trio.move_on_after(LONGEST_WRITE) as waiting:
            await self._server.committer.finish()
        if waiting.cancelled_caught:
            log.error("the store does not take what is left")
        return not waiting.cancelled_caught

    async def finish(self) -> None:
        """Drain, and write the last batches; once, and not at all when the gateway is abandoned."""
        if self._finishing.cancel_called or self._is_finishing:
            return
        self._is_finishing = True
        with self._finishing:
            await self.drain()
            self.is_written = await self.store_all()

    def abandon(self) -> None:
        """Finish nothing more, now and later: what is in memory counts no more."""
        self._finishing.cancel()

    def frozen_store(self) -> AbstractAsyncContextManager[FrozenStore]:
        """The store's file, which stays as it is for the block, while clients go on.

        Raises StoreError: there is no file of this gateway's own, or it cannot be frozen.
        """
        if self.committer is None or not isinstance(self._store, SQLiteStore):
            raise StoreError(self._no_file())
        return frozen(self._store, self.committer)

    def _no_file(self) -> str:
        if self.node is not None:
            return "the store of a cluster is copied from a standby that is stopped: see docs/cluster.md"
        return "this gateway has no store: messages are in memory only"

    async def connect_local(self, remote: Remote, peer: str) -> LocalClient:
        """A STOMP client in this process; see `gateway.runtime.local_client.connect`."""
        assert self._connections is not None  # it takes clients
        return await local_client.connect(self._server, self._connections, remote, peer)

    def reload(self) -> None:
        """Read again all reloadable files; a file that cannot be used changes nothing."""
        self._reading.forget()
        reload_all(self.reloadables)
        for edges in (self.edges, None if self.node is None else self.node.edges):
            if edges is not None:
                edges.reload(self.in_force.now)
        self._reading.forget()  # frees the settings
        self.warn()

    def warn(self) -> None:
        for warning in warnings(self.in_force.now, self.certificates):
            log.warning(warning)

    def _take(self, settings: Settings) -> None:
        """Apply changed settings to new connections."""
        self.trusted.replace(settings.trusted_proxies)
        self._server.options = replace(self._server.options, allowed_origins=tuple(settings.allowed_origins))

    async def take_clients(
        self, settings: Settings, opened: dict[str, Listening], nursery: trio.Nursery, *, decides: bool
    ) -> None:
        """Listen, or have edges listen; `decides`: this gateway is a primary, and may have edges.

        Raises StartError: an edge cannot start, or links of edges cannot be had.
        """
        server = self._server
        self._connections = nursery
        if decides and settings.edges:
            from gateway.edges.primary import PrimaryLink
            from gateway.runtime.edges import Edges

            self.edges = Edges(settings, opened, partial(PrimaryLink, server))
            server.memory_guard.elsewhere = self.edges.memory
            await nursery.start(self.edges.run)
        else:
            handlers = [handler_of(kind, server, settings, self.certificates, self.trusted) for kind in opened]
            nursery.start_soon(self._listen, list(zip(handlers, opened.values(), strict=True)), nursery)
        if decides and settings.edge_listen:
            from gateway.runtime.remote_edges import EdgeListeners

            links = opened["edge_listen"] = await open_all("edge_listen", settings.edge_listen)
            self.addresses["edge_listen"] = links.addresses
            self.remote_edges = EdgeListeners(settings, server, links)
            nursery.start_soon(self.remote_edges.run)

    async def _listen(
        self, accepting: Iterable[tuple[ConnectionHandler, Listening]], connections: trio.Nursery
    ) -> None:
        async def accept(
            scope: trio.CancelScope, handler: ConnectionHandler, listeners: list[trio.SocketListener]
        ) -> None:
            acceptors = [Acceptor(each) for each in listeners]
            with scope:
                await trio.serve_listeners(handler.serve, acceptors, handler_nursery=connections)

        with self._listening:
            async with trio.open_nursery() as nursery:
                for handler, listening in accepting:
                    own = [each for each in listening.listeners if each not in listening.inherited]
                    if own:
                        self._own_listeners.append(trio.CancelScope())
                        nursery.start_soon(accept, self._own_listeners[-1], handler, own)
                    if listening.inherited:
                        nursery.start_soon(accept, trio.CancelScope(), handler, listening.inherited)


@asynccontextmanager
async def open_gateway(
    settings: Settings,
    *,
    authenticator: Authenticator,
    read: Callable[[], Settings] | None = None,
    store: OpenStore | None = None,
    lease: Lease | None = None,
    standby: Callable[[], str] | None = None,
    edge: EdgePart | None = None,
    clock: BrokerClock | None = None,
) -> AsyncIterator[Gateway]:
    """Open all listeners, serve while the block runs, drain at its end.

    To stop it, leave the block: a cancellation around it would cut the connections without an ERROR.

    Args:
        read: reads the settings again, for a reload; by default they never change.
        store, lease: of the primary of a cluster; None: the store is that of the settings.
        standby: says where the primary is; then every client is refused with it, and nothing is stored or recorded.
        edge: the part of an edge: its sessions are elsewhere, and its listeners are open.
        clock: of a test, which sets it forward; None: the broker reads trio's.

    Raises StartError: an address cannot be opened, the functions cannot be loaded, or certificates, store or journal
    cannot be used.
    """
    certificates, told = read_certificates(settings), settings
    if standby is not None:
        settings = settings.model_copy(
            update={"store": "memory", "journal": None, "handlers": "", "trace_endpoint": "", "events": ""}
        )
    elif store is None and edge is None:
        store = await open_the_store(settings)
    policies = policies_of(settings)
    reading = Reading(read or (lambda: settings))
    rules = Rules(settings.rule, lambda: reading().rule)
    server = _server_of(settings, authenticator, policies, store, rules, edge, clock)
    server.lease = lease
    server.standby, server.draining = standby, standby is not None
    opened: dict[str, Listening] = {}
    async with _closing(opened), _keeping(settings, server, policies, store) as kept:
        functions = runner_of(settings, server)
        if edge is None or edge.listening is None:
            await _open_listeners(settings, opened, are_open=standby is None or settings.cluster_standby_listens)
        else:
            opened |= edge.listening
        addresses = {kind: listening.addresses for kind, listening in opened.items()}
        with last_words(server.broker), start_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.run)
                if functions is not None:
                    nursery.start_soon(functions.run)
                gateway = Gateway(told, server, addresses, functions, kept.journal, reading, store)
                gateway.certificates = certificates
                gateway.tracing, gateway.recovered = kept.tracing, kept.recovered
                users: Reloadable | None = None
                if isinstance(authenticator, Reloadable):
                    users = SessionReviewer(authenticator.name, authenticator.reload, server)
                # The primary reads settings and rules, and tells its edges.
                own = () if edge is not None and edge.listening is not None else (rules, gateway.in_force)
                changing = (certificates, users, *own)
                gateway.reloadables += [each for each in changing if isinstance(each, Reloadable)]
                decides = standby is None and edge is None
                await gateway.take_clients(settings, opened, nursery, decides=decides)
                nursery.start_soon(gateway._drain_when_asked)
                if edge is None or edge.listening is None:
                    log.info("listening", **{kind: " ".join(names) for kind, names in addresses.items() if names})
                    gateway.warn()
                if decides:
                    tell_of_memory(settings)
                try:
                    yield gateway
                finally:
                    await gateway.finish()
                    kept.is_written = gateway.is_written
                    nursery.cancel_scope.cancel()


def _server_of(
    settings: Settings,
    authenticator: Authenticator,
    policies: Policies,
    store: OpenStore | None,
    rules: Rules,
    edge: EdgePart | None,
    clock: BrokerClock | None,
) -> Server:
    options = options_of(settings)
    if edge is not None:
        from gateway.edges.edge import EdgeServer

        capacity = replace(options.capacity, max_connections=room_for(options.capacity.max_connections)[0])
        edge_server = EdgeServer(
            edge.link,
            edge.connect,
            authenticator,
            quotas_of(settings),
            replace(options, capacity=capacity),
            longest_silence=edge.longest_silence,
        )
        watch_process(edge_server.memory_guard, settings.memory_mark, is_told=False)
        return edge_server
    # Edges have the sockets, each with files of its own.
    processes = max(settings.edges, 1)
    capacity = within_files(options.capacity, processes, is_set="max_connections" in settings.model_fields_set)
    options = replace(options, capacity=capacity)
    quotas = within_mark(quotas_of(settings), settings.memory_mark, 1 + settings.edges)
    server = Server(authenticator, quotas, options, policies=policies, store=store, authorizer=rules, clock=clock)
    watch_process(server.memory_guard, settings.memory_mark)
    # Sessions that the changed rules no longer allow are ended.
    rules.on_change(lambda: recheck(server.broker.sessions.values(), server.broker.context))
    return server


async def _open_listeners(settings: Settings, opened: dict[str, Listening], *, are_open: bool) -> None:
    """Open all listeners; they are closed again at once where they must not be open yet.

    So an address that cannot be opened is known at the start of a standby, not when it takes over.
    """
    for kind, texts in addresses_of(settings):
        opened[kind] = await open_all(kind, texts)
        if not are_open:
            await close(opened[kind])
            opened[kind] = Listening([], [])


@asynccontextmanager
async def _closing(opened: dict[str, Listening]) -> AsyncIterator[None]:
    """Close the listeners of the table at the end of the block."""
    try:
        yield
    finally:
        for listening in opened.values():
            with trio.CancelScope(shield=True):
                await close(listening)


@dataclass
class _Kept:
    """Journal and traces of a running gateway.

    `recovered`: the monotonic time when the broker had all that the store has.  `is_written`: all batches are in the
    store.
    """

    journal: Journal | None = None
    tracing: Spans | None = None
    recovered: float = 0.0
    is_written: bool = False


@asynccontextmanager
async def _keeping(
    settings: Settings, server: Server, policies: Policies, store: OpenStore | None
) -> AsyncIterator[_Kept]:
    """Open store, journal and traces for the block, and read the store into the broker.

    They are closed in the opposite order, each of them even if another one fails.

    Raises StartError: one of them cannot be used.
    """
    kept = _Kept()
    async with AsyncExitStack() as closing:
        if store is not None:
            closing.push_async_callback(_shielded, partial(_close_store, store, kept))
            Message.run = store.token.encode()
        # The journal is open first: it records the messages that a recovery drops.
        kept.journal = journal = await open_journal(settings, server, policies)
        if journal is not None:
            closing.push_async_callback(_shielded, partial(close_journal, journal, server.broker))
        kept.tracing = tracing = open_tracing(settings, server.broker, journal)
        if tracing is not None:
            closing.push_async_callback(_shielded, partial(close_tracing, tracing, server.broker))
        if store is not None:
            damaged = recover_from(store, server.broker)  # may block: no listener is open
            assert server.committer is not None  # it came with the store
            server.committer.damaged += damaged
        announce(settings, server.broker)
        kept.recovered = time.monotonic()
        yield kept


async def _shielded(close: Callable[[], Awaitable[None]]) -> None:
    with trio.CancelScope(shield=True):
        await close()


async def _close_store(store: OpenStore, kept: _Kept) -> None:
    await trio.to_thread.run_sync(partial(store.close, clean=kept.is_written))


def runner_of(settings: Settings, server: Server) -> Runner | None:
    """The operator's functions, ready to run; None: there are none.

    Raises StartError: the functions cannot be loaded, or exceed a limit.
    """
    if not settings.handlers:
        return None

    async def settle(runner: Runner) -> None:
        await server.back_pressure.end_turn(runner)

    try:
        return Runner(server.broker, load_functions(settings), settle)
    except ProtocolError as error:
        raise StartError(wrong("handlers", f"it has too many functions: {error.detail}")) from None


def load_functions(settings: Settings) -> Handlers:
    """Import the operator's functions.  Raises StartError: they cannot be loaded."""
    try:
        return load(settings.handlers)
    except HandlersError as error:
        raise StartError(wrong("handlers", error)) from None
