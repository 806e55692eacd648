"""A node of a cluster in this process: its connections to the NATS servers, and its turns as standby and primary.

    open_node          opens the copy of the log, makes stream and bucket
    turns              a gateway after the other, each until the node's part in the cluster changes

Nothing here is imported without the setting `cluster`.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

import structlog
import trio

from gateway import __version__
from gateway.broker.core.ports import StoreError
from gateway.cluster.lease import Lease
from gateway.cluster.log import LogUnavailable
from gateway.cluster.nats.connection import NatsOptions, ServerAddress
from gateway.cluster.nats.credentials import CredentialsError, NatsCredentials
from gateway.cluster.nats.faults import About, NatsRefused, NatsUnavailable
from gateway.cluster.node import Node, NodeOptions
from gateway.cluster.presence import NameTaken
from gateway.cluster.servers import Servers
from gateway.cluster.term import Term
from gateway.config.errors import StartError, unusable
from gateway.config.settings import Settings
from gateway.config.values import Address
from gateway.process import systemd
from gateway.runtime.gateway import Gateway, load_functions
from gateway.runtime.journal import check_recording
from gateway.runtime.store import OpenStore
from gateway.runtime.terms import step_down, tell_of_take_over

log = structlog.get_logger("gateway.cluster")

T = TypeVar("T")

START_PATIENCE = 30.0
"""Seconds at the start for what the NATS servers may lack because they start, too, like streams and other servers."""

_SAY_EVERY = 30.0
"""Seconds between two words about servers that do not answer."""

FAILING = 5.0
"""Seconds for which the store of a primary may fail while another node could take over."""

_AGAIN = 0.5
_LOOK_AT_STORE = 1.0


class Opener(Protocol):
    """Opens a gateway, and serves it."""

    def __call__(
        self, *, store: OpenStore | None = None, lease: Lease | None = None, standby: Callable[[], str] | None = None
    ) -> AbstractAsyncContextManager[Gateway]: ...


def nats_options(settings: Settings, purpose: str) -> NatsOptions:
    """How to reach the servers.

    Files are read now, and again for each connection, so that they may be replaced.  Raises StartError: they cannot be
    used.
    """
    found = NatsOptions(
        servers=[ServerAddress(each.host, each.port) for each in map(Address.parse, settings.cluster_servers)],
        credentials=partial(_credentials, settings),
        tls=partial(_tls, settings) if settings.cluster_tls or settings.cluster_ca else None,
        has_certificate=settings.cluster_certificate is not None,
        tls_first=settings.cluster_tls_first,
        name=f"gateway {settings.node_name}: {purpose}",
    )
    for name, read in (("cluster_credentials", found.credentials), (_tls_setting(settings), found.tls)):
        try:
            if read is not None:
                read()
        except CredentialsError as error:
            raise StartError(unusable(name, error)) from None
    return found


def _credentials(settings: Settings) -> NatsCredentials:
    if settings.cluster_credentials is None:
        return NatsCredentials(settings.cluster_user, settings.cluster_password, settings.cluster_token)
    return NatsCredentials.of_file(settings.cluster_credentials)


def _tls(settings: Settings) -> ssl.SSLContext:
    """Raises CredentialsError: a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=settings.cluster_ca)
    except (OSError, ssl.SSLError) as error:
        raise CredentialsError(f"{settings.cluster_ca} cannot be read: {_reason(error)}") from None
    if settings.cluster_certificate is not None:
        try:
            context.load_cert_chain(settings.cluster_certificate, settings.cluster_key)
        except (OSError, ssl.SSLError) as error:
            files = f"{settings.cluster_certificate} and {settings.cluster_key}"
            raise CredentialsError(f"{files} cannot be read: {_reason(error)}") from None
    return context


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "they are not in PEM").replace("_", " ").lower()
    return error.strerror or str(error)


@asynccontextmanager
async def open_node(settings: Settings) -> AsyncIterator[Node]:
    """A node that stands by, for the block.

    Raises StartError: servers, credentials or file cannot be used, or what this node needs as primary.
    """
    if settings.handlers:
        load_functions(settings)
    await trio.to_thread.run_sync(check_recording, settings)
    with Servers(partial(nats_options, settings), settings.cluster) as servers:
        if not await _answered(settings, servers.check):
            log.info("the NATS servers do not tell whether their sync_interval is always")
        stream, directory, snapshots = servers.log(), servers.directory(), servers.snapshots()
        node = Node(
            _node_options(settings),
            stream,
            directory,
            servers.directory("lease"),
            snapshots,
            servers.log(),
            servers.rooms,
        )
        try:
            try:
                applied = await node.open()
                await _answered(settings, partial(servers.make, settings.cluster_replicas, applied))
                await node.join()
            except NameTaken as error:
                raise StartError(unusable("cluster_node", error)) from None
            except StoreError as error:
                raise StartError(unusable("store", error)) from None
            yield node
        finally:
            with trio.CancelScope(shield=True):
                await node.close()


def _node_options(settings: Settings) -> NodeOptions:
    assert settings.store_file is not None  # the settings have seen to it
    address = settings.cluster_address or next(iter([*settings.tcp, *settings.websocket]), "")
    return NodeOptions(
        settings.cluster,
        settings.node_name,
        address,
        __version__,
        settings.store_file,
        settings.cluster_snapshot_after,
        url_of(settings),
        replicas=settings.cluster_replicas,
    )


def url_of(settings: Settings) -> str:
    """The URL of this node's pages; empty: it cannot be known of all addresses, or of a socket."""
    if settings.cluster_url:
        return settings.cluster_url.rstrip("/")
    address = Address.parse(settings.http[0])
    return f"http://{address}" if address.port and address.host not in ("0.0.0.0", "::") else ""


async def _answered(settings: Settings, ask: Callable[[], T]) -> T:
    """Ask the servers, until they answer.  Raises StartError: they refuse, or lack something."""
    until, say_at = trio.current_time() + START_PATIENCE, 0.0
    while True:
        try:
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)
        except (NatsUnavailable, LogUnavailable) as error:
            about, now = error.about if isinstance(error, NatsUnavailable) else None, trio.current_time()
            if isinstance(error, NatsRefused) or (about is not None and now >= until):
                raise StartError(unusable(_setting(settings, about), error)) from None
            # A service manager that ended this process would have to start it again, to no other effect.
            if now >= say_at:
                log.warning("waiting for the NATS servers", reason=str(error))
                systemd.waiting("waiting for the NATS servers", 2 * _SAY_EVERY)
                say_at = now + _SAY_EVERY
        await trio.sleep(_AGAIN)


def _setting(settings: Settings, about: About | None) -> str:
    """The setting that a refusal is about."""
    match about:
        case About.LOGIN | About.PERMISSION:
            given = ("cluster_credentials", "cluster_token", "cluster_user")
            return next((name for name in given if getattr(settings, name)), "cluster_user")
        case About.TLS:
            return _tls_setting(settings)
        case About.CERTIFICATE:
            return "cluster_certificate"
        case About.REPLICAS:
            return "cluster_replicas"
    return "cluster_servers"


def _tls_setting(settings: Settings) -> str:
    return "cluster_tls" if settings.cluster_ca is None else "cluster_ca"


async def turns(
    node: Node,
    opener: Opener,
    stopping: trio.Event,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve, as standby or primary in turns, until the event; each gateway ends in order."""
    while not stopping.is_set():
        term: Term | None = None
        async with opener(standby=node.where) as gateway:
            _show(node, gateway)
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED
            async with _until(stopping):
                term = await node.follow()
        if term is None:
            return
        try:
            await _decide(node, opener, term, stopping)
        finally:
            with trio.CancelScope(shield=True):
                await node.end(term)


async def _decide(node: Node, opener: Opener, term: Term, stopping: trio.Event) -> None:
    async with opener(store=term.store, lease=term.lease) as gateway:
        _show(node, gateway)
        term.on_lost = gateway.abandon
        if term.reason:  # it was lost while the gateway opened
            gateway.abandon()
        if node.took is not None:
            node.took.reached("recovery", gateway.recovered)
        node.opened(term)
        tell_of_take_over(gateway, node, term)
        async with _until(stopping), trio.open_nursery() as nursery:
            nursery.start_soon(_watch_store, node, gateway)
            await node.decide(term)
            nursery.cancel_scope.cancel()
        await step_down(gateway, node, term)


@asynccontextmanager
async def _until(stopping: trio.Event) -> AsyncIterator[None]:
    """Cancel the block at the event, and nothing around it."""

    async def end() -> None:
        await stopping.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        yield
        nursery.cancel_scope.cancel()


async def _watch_store(node: Node, gateway: Gateway) -> None:
    """Give up when this node alone cannot write: a full disk here is no reason for the cluster to stand still."""
    storage = gateway.broker.storage
    assert storage is not None  # a primary has a store
    failing_since = math.inf
    while True:
        await trio.sleep(_LOOK_AT_STORE)
        # Without the servers of the log, and where these are full, no other node could do better.
        if storage.is_failing and not (node.unavailable or node.full) and node.has_standby:
            failing_since = min(failing_since, trio.current_time())
            if trio.current_time() - failing_since >= FAILING:
                node.give_up(f"its store fails: {storage.failure}")
        else:
            failing_since = math.inf


def _show(node: Node, gateway: Gateway) -> None:
    """Let node and gateway know each other."""
    gateway.node = node
    node.load = lambda: gateway.connection_limits.all_connections
