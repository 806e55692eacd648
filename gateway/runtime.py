"""The gateway without HTTP: listeners, wheel and connections in one nursery, and the way it all ends.

    open_gateway
      |- wheel                      heart-beats of all connections
      |- functions                  the operator's, each message a task, where the setting `handlers` names any
      |- a listener per address     each connection a task, with a nursery of its own
      '- (the caller's block)

Draining.  Listeners close, so that nobody new comes; every session gets an ERROR that says when to come back, and over
WebSocket the close code 1012; what was routed before is written; functions end what they have begun; all of it within
`drain_timeout`, after which the connections are cut.  What waits in queues then is lost, and the log says how much.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import structlog
import trio

from gateway import __version__
from gateway.broker import Broker, Quotas
from gateway.broker.batch import Stored
from gateway.broker.errors import SessionEnded
from gateway.broker.message import Message
from gateway.broker.policy import Policies
from gateway.broker.ports import Authenticator, StoreError
from gateway.broker.queue import Queue
from gateway.broker.recovery import recover
from gateway.broker.topic import Topic
from gateway.broker.words import Pattern
from gateway.codec import Limits, ProtocolError
from gateway.handlers import DEAD_LETTERS, OF_SENDS, HandlersError, Runner, load
from gateway.journal import Journal, JournalError
from gateway.recording import close_journal, open_journal
from gateway.settings import Address, Settings, unusable, wrong
from gateway.stores import SQLiteStore, StoreDamaged, open_store
from gateway.stores.preflight import unkept
from gateway.transports import (
    AddressError,
    Hub,
    Listening,
    Options,
    close,
    open_listeners,
    serve_tcp,
    serve_websocket,
)

log = structlog.get_logger("gateway")

# Names that a line of the log has at most.
_NAMED = 10
# Seconds for the last batches at the end.
_LONGEST_WRITE = 10.0

_Serve = Callable[[trio.SocketStream], Awaitable[None]]

# A body before login is a mistake, or an attack; this much of one is read and ignored.
_CONNECT_BODY = 1024


class StartError(Exception):
    """The gateway cannot start; `str()` is one sentence that names the setting."""


class Gateway:
    """A running gateway.

    Attributes:
        broker: the core.
        holds: the publishers that are held.
        committer: writes to the store; None: there is none.
        journal: of what happens; None: nothing is recorded.
        addresses: kind of listener -> where it listens, with real ports.
    """

    def __init__(
        self,
        settings: Settings,
        hub: Hub,
        addresses: dict[str, list[str]],
        functions: Runner | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.broker: Broker = hub.broker
        self.holds = hub.holds
        self.committer = hub.committer
        self.journal = journal
        self.addresses = addresses
        self._settings = settings
        self._hub = hub
        self._functions = functions
        self._listening = trio.CancelScope()
        self._drained_by = 0.0

    def not_ready(self) -> str | None:
        """Why no new session should be sent here, or None."""
        if self._hub.draining:
            return "the gateway is shutting down"
        # Short memory is no reason: it would keep away the consumers, who alone can make room.
        storage = self.broker.storage
        if storage is None or not storage.failure:
            return None
        return f"{'the store has failed' if storage.is_failing else 'the store is short of room'}: {storage.failure}"

    async def drain(self) -> None:
        """End all sessions as described at the top; returns when they are gone or the time is up."""
        if not self._hub.draining:
            self._hub.draining = True
            self._drained_by = trio.current_time() + self._settings.drain_timeout
        self._listening.cancel()
        retry = self._settings.drain_retry
        error = SessionEnded("server is shutting down", f"connect again in {retry} ms", retry_after=retry)
        for connection in list(self._hub.open_connections):
            connection.end(error)
        with trio.move_on_at(self._drained_by):
            await self._hub.wait_empty()
            if self._functions is not None:
                await self._functions.finish()

    async def store_all(self) -> bool:
        """Write what is not in the store yet; False: it took too long."""
        if self._hub.committer is None:
            return True
        with trio.move_on_after(_LONGEST_WRITE) as waiting:
            await self._hub.committer.finish()
        if waiting.cancelled_caught:
            log.error("the store does not take what is left")
        return not waiting.cancelled_caught

    async def _listen(self, kinds: Sequence[tuple[_Serve, Listening]], connections: trio.Nursery) -> None:
        with self._listening:
            async with trio.open_nursery() as nursery:
                for serve, listening in kinds:
                    if listening.listeners:  # a setting may name no address
                        nursery.start_soon(
                            partial(trio.serve_listeners, serve, listening.listeners, handler_nursery=connections)
                        )


@asynccontextmanager
async def open_gateway(settings: Settings, *, authenticator: Authenticator) -> AsyncIterator[Gateway]:
    """Open all listeners, serve while the block runs, drain at its end.

    To stop it, leave the block: a cancellation around it reaches the connections, too, and cuts them without a word.

    Raises:
        StartError: an address cannot be opened, the functions cannot be loaded, or store or journal cannot be used.
    """
    store = await open_the_store(settings)
    policies = policies_of(settings)
    hub = Hub(authenticator, quotas_of(settings), options_of(settings), policies=policies, store=store)
    opened: dict[str, Listening] = {}
    journal: Journal | None = None
    written = False
    try:
        if store is not None:
            Message.run = store.token.encode()
        journal = await _open_the_journal(settings, hub, policies)  # what a recovery throws away is recorded, too
        if store is not None:
            damaged = recover_from(store, hub.broker)  # nobody waits: no listener is open
            assert hub.committer is not None  # it came with the store
            hub.committer.damaged += damaged
        elif unkept_policies := unkept(_tables(settings)):
            log.warning(unkept_policies)
        functions = runner_of(settings, hub)
        opened["tcp"] = await open_all("tcp", settings.tcp)
        opened["websocket"] = await open_all("websocket", settings.websocket)
        addresses = {kind: listening.addresses for kind, listening in opened.items()}
        with _last_words(hub.broker):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hub.run)
                if functions is not None:
                    nursery.start_soon(functions.run)
                gateway = Gateway(settings, hub, addresses, functions, journal)
                kinds = [(partial(serve_tcp, hub), opened["tcp"]), (partial(serve_websocket, hub), opened["websocket"])]
                nursery.start_soon(gateway._listen, kinds, nursery)
                log.info("listening", **{kind: " ".join(names) for kind, names in addresses.items()})
                try:
                    yield gateway
                finally:
                    with trio.CancelScope(shield=True):
                        await gateway.drain()
                        written = await gateway.store_all()
                    nursery.cancel_scope.cancel()
    finally:
        if journal is not None:
            with trio.CancelScope(shield=True):
                await close_journal(journal, hub.broker)
        if store is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(store.close, clean=written))
        for listening in opened.values():
            with trio.CancelScope(shield=True):
                await close(listening)


@contextmanager
def _last_words(broker: Broker) -> Iterator[None]:
    """Say what goes with the gateway, when all sessions have given back what they had."""
    try:
        yield
    finally:
        router = broker.router
        every = [*broker.destinations.values(), *broker.directory.hidden.values()]
        queues = [target for target in every if isinstance(target, Queue)]
        mortal = [(queue.waiting, queue.waiting + queue.delayed - queue.stored) for queue in queues]
        mortal = [(waiting, gone) for waiting, gone in mortal if gone]
        lost = {
            "waiting": sum([min(waiting, gone) for waiting, gone in mortal]),
            "queues": len(mortal),
            "delayed": len(router.delayed)
            - router.delayed.stored
            + sum([max(gone - waiting, 0) for waiting, gone in mortal]),
            "retained": len(router.retained) - router.retained.stored,
        }
        logs = [target.log for target in every if isinstance(target, Topic) and target.log is not None]
        logged = sum([len(each) for each in logs if not each.is_stored])
        if logged:
            lost["logged"] = logged
        if any(lost.values()):
            log.warning("messages are lost, for they are kept in memory only", **lost)
        log.info("stopped")


async def open_the_store(settings: Settings) -> SQLiteStore | None:
    """The store that the settings name; None: messages are kept in memory only.

    Raises:
        StartError: it cannot be used.
    """
    try:
        return await trio.to_thread.run_sync(open_store, settings.store)
    except StoreError as error:
        raise StartError(unusable("store", error)) from None


async def _open_the_journal(settings: Settings, hub: Hub, policies: Policies) -> Journal | None:
    try:
        return await open_journal(settings, hub, policies)
    except JournalError as error:
        raise StartError(unusable("journal", error)) from None


def recover_from(store: SQLiteStore, broker: Broker) -> int:
    """Fill the broker with what the store holds.

    Returns:
        messages that were to be read and are damaged: they stay where they are.

    Raises:
        StartError: it cannot be read.
    """
    storage = broker.storage
    assert storage is not None  # it came with the store
    started = time.perf_counter()
    damaged: list[int] = []
    try:
        found = store.load()
        storage.places_from(max((place.number for place in found.places), default=0) + 1)
        # What was never stored had numbers, too: by the clock they cannot come again.
        broker.router.number_from(max(found.highest, int(broker.agenda.epoch() * 1e6)))
        broker.router.restore_seen(found.seen)
        recover(broker, found.places, found.rows, partial(_read_around, store, damaged), clean=found.clean)
    except StoreError as error:
        raise StartError(unusable("store", error)) from None
    except (ValueError, KeyError, TypeError) as error:  # facts that nobody can have written so
        fault = StoreDamaged(store.path, f"what it says of a message or a place cannot be read: {error!r}")
        raise StartError(unusable("store", fault)) from None
    if store.is_new:
        log.info("a new store was made", store=str(store.path))
        return 0
    kinds = Counter([place.kind for place in found.places])
    logs = broker.directory.logs
    if logs.unused:
        log.warning("logs in the store that no policy keeps", count=len(logs.unused), topics=logs.unused[:_NAMED])
    log.info(
        "recovered",
        store=str(store.path),
        queues=kinds["queue"],
        messages=broker.waiting,
        subscriptions=kinds["subscription"],
        logs=len(logs),
        logged=logs.messages,
        delayed=len(broker.router.delayed),
        retained=len(broker.router.retained),
        clean=found.clean,
        seconds=round(time.perf_counter() - started, 3),
    )
    return len(damaged)


def _read_around(store: SQLiteStore, damaged: list[int], rows: Sequence[int]) -> list[Stored]:
    """Read all that is not damaged; the rest goes to `damaged`, and to the log."""
    try:
        return store.read(rows)
    except StoreError as error:
        if not error.is_damage:
            raise
        half = len(rows) // 2
        if half:
            return _read_around(store, damaged, rows[:half]) + _read_around(store, damaged, rows[half:])
        damaged += rows
        log.error("a message in the store is damaged", row=rows[0], place=error.place, reason=str(error))
        return []


async def open_all(setting: str, texts: list[str]) -> Listening:
    """Open the addresses of one setting; if one fails, close the others again."""
    all_of_them = Listening([], [])
    for text in texts:
        address = Address.parse(text)
        try:
            listening = await open_listeners(address.host, address.port, address.path)
        except AddressError as error:
            await close(all_of_them)
            variable = f"GATEWAY_{setting.upper()}"
            raise StartError(f"cannot listen on {error}; change the setting {setting} ({variable})") from None
        all_of_them.listeners.extend(listening.listeners)
        all_of_them.addresses.extend(listening.addresses)
    return all_of_them


def quotas_of(settings: Settings) -> Quotas:
    """The broker's part of the settings."""
    return Quotas(
        max_subscriptions=settings.max_subscriptions,
        max_transactions=settings.max_transactions,
        max_transaction_octets=settings.max_transaction_octets,
        max_unacknowledged=settings.max_unacknowledged,
        max_outbound=settings.max_outbound,
        memory_limit=settings.memory_limit,
        max_destinations=settings.max_destinations,
        max_unacknowledged_octets=settings.max_unacknowledged_octets,
        max_delayed=settings.max_delayed,
        max_retained=settings.max_retained,
        max_durable_subscriptions=settings.max_durable_subscriptions,
        dedup_window=settings.dedup_window,
        max_dedup_ids=settings.max_dedup_ids,
        client_queue_arguments=settings.client_queue_arguments,
    )


def policies_of(settings: Settings) -> Policies:
    """The policies of destinations, in the order of the file, behind the one default that is not the broker's."""
    ours = (Pattern(OF_SENDS), {"dead_letter": DEAD_LETTERS})
    return Policies([ours, *[(Pattern(text), values) for text, values in _tables(settings)]])


def _tables(settings: Settings) -> list[tuple[str, Mapping[str, Any]]]:
    return [(text, table.values) for table in settings.policy for text in table.match]


def runner_of(settings: Settings, hub: Hub) -> Runner | None:
    """The operator's functions, ready to run; None: there are none.

    Raises:
        StartError: the setting names no functions, or more than limits allow.
    """
    if not settings.handlers:
        return None

    async def settle(runner: Runner) -> None:
        await hub.settle(runner, kept=True)

    try:
        return Runner(hub.broker, load(settings.handlers), settle)
    except HandlersError as error:
        raise StartError(wrong("handlers", error)) from None
    except ProtocolError as error:
        raise StartError(wrong("handlers", f"it has more functions than may be: {error.detail}")) from None


def options_of(settings: Settings) -> Options:
    """The transports' part of the settings."""
    return Options(
        server=f"{settings.server_name}/{__version__}",
        limits=Limits(settings.max_headers, settings.max_header_line, settings.max_body),
        connect_limits=Limits(
            settings.max_connect_headers, settings.max_connect_header_line, _CONNECT_BODY, "max_connect_"
        ),
        connect_timeout=settings.connect_timeout,
        heartbeat_send=settings.heartbeat_send,
        heartbeat_receive=settings.heartbeat_receive,
        heartbeat_margin=settings.heartbeat_margin,
        websocket_path=settings.websocket_path,
        websocket_ping=settings.websocket_ping,
        allowed_origins=tuple(settings.allowed_origins),
        anonymous=settings.users_file is None,
        close_linger=settings.close_linger,
        slow_consumer_timeout=settings.slow_consumer_timeout,
    )
