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

import dataclasses
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import structlog
import trio

from gateway.auth.rules import Rules
from gateway.broker import Broker, rights
from gateway.broker.batch import Stored
from gateway.broker.errors import SessionEnded
from gateway.broker.identity import Credentials, Identity
from gateway.broker.message import Message
from gateway.broker.policy import Policies
from gateway.broker.ports import Authenticator, StoreError
from gateway.broker.queue import Queue
from gateway.broker.recovery import recover
from gateway.broker.topic import Topic
from gateway.codec import ProtocolError
from gateway.handlers import HandlersError, Runner, load
from gateway.journal import Journal, JournalError
from gateway.listeners import addresses_of, entrance_of, open_all, read_certificates, warnings
from gateway.mistakes import StartError as StartError
from gateway.parts import options_of, policies_of, quotas_of, tables_of
from gateway.recording import close_journal, open_journal
from gateway.settings import Settings, unusable, wrong
from gateway.stores import SQLiteStore, StoreDamaged, open_store
from gateway.stores.preflight import unkept
from gateway.tracing import close_tracing, open_tracing
from gateway.transports import Entrance, Hub, Listening, Trusted, close, identify
from gateway.transports.acceptor import Acceptor
from gateway.transports.admission import within_files
from gateway.transports.memory import watch_process, within_mark

if TYPE_CHECKING:
    from gateway.observe.spans import Spans
    from gateway.transports.certificates import Certificates

log = structlog.get_logger("gateway")

# Names that a line of the log has at most.
_NAMED = 10
# Seconds for the last batches at the end.
_LONGEST_WRITE = 10.0


@runtime_checkable
class Reloadable(Protocol):
    """What lies in files that may change while sessions go on.

    Attributes:
        name: for the log.
    """

    name: str

    def reload(self) -> str | None:
        """Read them again; returns a sentence on what is wrong, then the old ones stay in force; None: nothing is."""
        ...


def _reloaded(what: Reloadable) -> str | None:
    try:
        return what.reload()
    except Exception:  # sessions go on, whatever lies in a file
        log.exception("a reload failed", what=what.name)
        return "it failed; the log says why"


class Gateway:
    """A running gateway.

    Attributes:
        broker: the core.
        holds: the publishers that are held.
        admission: how many connections there are, and whom there was no room for.
        memory: whether there is enough of it.
        turns: how long turns of clients take.
        taps: show the frames of sessions to operators.
        committer: writes to the store; None: there is none.
        journal: of what happens; None: nothing is recorded.
        addresses: kind of listener -> where it listens, with real ports.
        reloadables: what `reload` reads again.
        trusted: proxies that may say who a client is.
        certificates: of the TLS listeners; None: there are none.
        functions: the operator's own; None: there are none.
        tracing: sends spans to a collector; None: nothing is traced.
        drained: an operator's drain is over: nothing is connected, and all that is durable is written.
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
        self.admission = hub.admission
        self.memory = hub.memory
        self.turns = hub.back_pressure.turns
        self.taps = hub.taps
        self.committer = hub.committer
        self.journal = journal
        self.addresses = addresses
        self.reloadables: list[Reloadable] = []
        self.trusted = Trusted(settings.trusted_proxies)
        self.certificates: Certificates | None = None
        self.tracing: Spans | None = None
        self.drained = False
        self._settings = settings
        self._hub = hub
        self.functions = functions
        self._listening = trio.CancelScope()
        self._drained_by = 0.0
        self._drain_asked = trio.Event()

    async def identify(self, credentials: Credentials) -> Identity:
        """Who somebody is that has no session.

        Raises:
            LoginRefused: the credentials are refused.
        """
        return await identify(self._hub, credentials)

    @property
    def draining(self) -> bool:
        """Sessions are being ended, or have been, and none will be opened any more."""
        return self._hub.draining

    def not_ready(self) -> str | None:
        """Why no new session should be sent here, or None."""
        if self._hub.draining:
            return "the gateway is shutting down"
        # Short memory is no reason: it would keep away the consumers, who alone can make room.  Full memory is one.
        if self.memory.reason:
            return f"memory is full: {self.memory.reason}"
        storage = self.broker.storage
        if storage is None or not storage.failure:
            return None
        return f"{'the store has failed' if storage.is_failing else 'the store is short of room'}: {storage.failure}"

    def complaints(self) -> dict[str, str]:
        """What does not work as it should, by name, though clients are served all the same."""
        found = {
            "journal": self.journal.failure if self.journal is not None else "",
            "certificate": self.certificates.warning() if self.certificates is not None else "",
            "tracing": self.tracing.failure if self.tracing is not None else "",
        }
        return {name: sentence for name, sentence in found.items() if sentence}

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
            if self.functions is not None:
                await self.functions.finish()

    def begin_drain(self) -> None:
        """Drain on an operator's word, and return at once; whoever has the block open goes on."""
        log.info("draining", signal="an operator's word")
        self._drain_asked.set()

    async def _drain_when_asked(self) -> None:
        await self._drain_asked.wait()
        await self.drain()
        # Unlike a signal's drain this one need not end: the process stays, so whoever lingers is waited for.
        await self._hub.wait_empty()
        if self._hub.committer is not None:
            await self._hub.committer.finish()
        self.drained = True
        log.info("drained", next="stop or restart the process: nothing is connected any more")

    async def store_all(self) -> bool:
        """Write what is not in the store yet; False: it took too long."""
        if self._hub.committer is None:
            return True
        with trio.move_on_after(_LONGEST_WRITE) as waiting:
            await self._hub.committer.finish()
        if waiting.cancelled_caught:
            log.error("the store does not take what is left")
        return not waiting.cancelled_caught

    def reload(self) -> None:
        """Read again what lies in files and may change while sessions go on; what cannot be used stays as it was."""
        faults = {each.name: fault for each in self.reloadables if (fault := _reloaded(each))}
        fresh = [each.name for each in self.reloadables if each.name not in faults]
        say = log.warning if faults else log.info
        say("reloaded", what=", ".join(fresh) or "nothing", kept=[*faults])
        for name, fault in faults.items():
            log.warning("what was in force stays after a reload", what=name, reason=fault)
        if certificate := self.complaints().get("certificate"):
            log.warning(certificate)

    async def _listen(self, doors: Iterable[tuple[Entrance, Listening]], connections: trio.Nursery) -> None:
        with self._listening:
            async with trio.open_nursery() as nursery:
                for entrance, listening in doors:
                    if listening.listeners:  # a setting may name no address
                        serve = partial(trio.serve_listeners, handler_nursery=connections)
                        nursery.start_soon(serve, entrance.serve, [Acceptor(each) for each in listening.listeners])


@asynccontextmanager
async def open_gateway(settings: Settings, *, authenticator: Authenticator) -> AsyncIterator[Gateway]:
    """Open all listeners, serve while the block runs, drain at its end.

    To stop it, leave the block: a cancellation around it reaches the connections, too, and cuts them without a word.

    Raises:
        StartError: an address cannot be opened, the functions cannot be loaded, or certificates, store or journal
            cannot be used.
    """
    certificates = read_certificates(settings)
    store = await open_the_store(settings)
    policies = policies_of(settings)
    rules = Rules(settings.rule)
    options = options_of(settings)
    capacity = within_files(options.capacity, is_wish="max_connections" in settings.model_fields_set)
    options = dataclasses.replace(options, capacity=capacity)
    quotas = within_mark(quotas_of(settings), settings.memory_mark)
    hub = Hub(authenticator, quotas, options, policies=policies, store=store, authorizer=rules)
    watch_process(hub.memory, settings.memory_mark)
    rules.on_change = partial(rights.recheck, hub.broker)
    opened: dict[str, Listening] = {}
    journal: Journal | None = None
    tracing: Spans | None = None
    written = False
    try:
        if store is not None:
            Message.run = store.token.encode()
        journal = await _open_the_journal(settings, hub, policies)  # what a recovery throws away is recorded, too
        tracing = open_tracing(settings, hub.broker, journal)
        if store is not None:
            damaged = recover_from(store, hub.broker)  # nobody waits: no listener is open
            assert hub.committer is not None  # it came with the store
            hub.committer.damaged += damaged
        elif unkept_policies := unkept(tables_of(settings)):
            log.warning(unkept_policies)
        functions = runner_of(settings, hub)
        for kind, texts in addresses_of(settings):
            opened[kind] = await open_all(kind, texts)
        addresses = {kind: listening.addresses for kind, listening in opened.items()}
        with _last_words(hub.broker):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hub.run)
                if functions is not None:
                    nursery.start_soon(functions.run)
                gateway = Gateway(settings, hub, addresses, functions, journal)
                gateway.certificates = certificates
                gateway.tracing = tracing
                changing = (certificates, authenticator, rules)
                gateway.reloadables += [each for each in changing if isinstance(each, Reloadable)]
                doors = [(entrance_of(kind, hub, settings, certificates), opened[kind]) for kind in opened]
                nursery.start_soon(gateway._listen, doors, nursery)
                nursery.start_soon(gateway._drain_when_asked)
                log.info("listening", **{kind: " ".join(names) for kind, names in addresses.items()})
                for warning in warnings(settings, certificates):
                    log.warning(warning)
                try:
                    yield gateway
                finally:
                    with trio.CancelScope(shield=True):
                        await gateway.drain()
                        written = await gateway.store_all()
                    nursery.cancel_scope.cancel()
    finally:
        if tracing is not None:
            with trio.CancelScope(shield=True):
                await close_tracing(tracing, hub.broker)
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
        mortal = [(queue.waiting, queue.waiting + len(queue.resting) - queue.stored) for queue in queues]
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
