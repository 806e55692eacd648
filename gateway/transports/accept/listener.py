"""Listeners: addresses to open sockets, and the fair accept on them.

A unix socket's file is replaced when no process listens on it any more, and removed at the end; that of a socket which
came from systemd is not ours.

Accept.  Trio's listener accepts one connection in each round of the loop, and a thousand publishers that are never idle
make rounds of 300 ms: 900 clients that come back after a restart were not in after half a minute.  So one more is
accepted for each share of time that the round took (see `wire/fairness.py`).
"""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

import trio

from ..wire.fairness import SHARE_OF_HANDSHAKES

# Connections that may wait to be accepted: a whole fleet that reconnects at once (the kernel cuts it to somaxconn).
_BACKLOG = 4096
# The system finds a peer that vanished without heart-beats after two minutes.  Accepted sockets inherit these.
_KEEPALIVE = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 15,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 4,
}


class AddressError(OSError):
    """The gateway cannot listen on an address; `str()` says which and why, in words."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Open listeners of one kind, and their addresses; systemd keeps the `inherited` among them open, too."""

    listeners: list[trio.SocketListener]
    addresses: list[str]
    inherited: list[trio.SocketListener] = field(default_factory=list)


async def open_listeners(host: str, port: int, path: str) -> Listening:
    """Open one address; a host name may stand for several.  Raises `AddressError`."""
    shown = f"unix:{path}" if path else name_of((host, port))
    try:
        if path:
            return Listening([_open_unix(path)], [shown])
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)
    except OSError as error:
        raise AddressError(f"{shown}: {_reason(error)}") from None
    for listener in listeners:
        _keep_alive(listener.socket)
    return Listening(listeners, [name_of(each.socket.getsockname()) for each in listeners])


def _keep_alive(sock: trio.socket.SocketType) -> None:
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(*option, value)


def inherit_listeners(shown: str, sockets: Iterable[socket.socket]) -> Listening:
    """Listen on sockets that systemd has opened, and the settings call `shown`; raises `AddressError`."""
    listening = Listening([], [])
    for sock in sockets:
        try:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        except ValueError:
            sock.close()
            needed = "its .socket unit needs ListenStream= and Accept=no"
            raise AddressError(f"{shown}: systemd passed no stream socket that listens; {needed}") from None
        is_unix = sock.family == socket.AF_UNIX
        if not is_unix:
            _keep_alive(listener.socket)
        listening.listeners.append(listener)
        listening.inherited.append(listener)
        listening.addresses.append(shown if is_unix else name_of(sock.getsockname()))
    return listening


def _reason(error: OSError) -> str:
    known = {
        errno.EADDRINUSE: "the address is in use by another program",
        errno.EACCES: "not permitted to this user",
        errno.EADDRNOTAVAIL: "this machine has no such address",
        errno.ENOENT: "the folder does not exist",
    }
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    return known.get(error.errno or 0) or (error.strerror or str(error)).lower()


def _open_unix(path: str) -> trio.SocketListener:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode) and not _is_listening(path):
            os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(sock))


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Only a refusal says that no process listens; a full backlog or a missing permission says that one does.
        probe.setblocking(False)
        return probe.connect_ex(path) != errno.ECONNREFUSED


async def close(listening: Listening) -> None:
    """Close listeners, and remove the files of unix sockets, but for those that another program listens on by now."""
    for listener in listening.listeners:
        await listener.aclose()
    unlink([each for each in listening.addresses if not (each.startswith("unix:") and _is_listening(each[5:]))])


def unlink(addresses: list[str]) -> None:
    """Remove the files of unix sockets."""
    for address in addresses:
        if address.startswith("unix:"):
            with contextlib.suppress(OSError):
                os.unlink(address[5:])


@contextlib.contextmanager
def unlinking(addresses: list[str]) -> Iterator[None]:
    """Remove the files of unix sockets afterwards."""
    try:
        yield
    finally:
        unlink(addresses)


def name_of(address: object) -> str:
    """An address of the socket module as host:port; empty for a unix socket's nameless other end."""
    if not isinstance(address, tuple):
        return "unix"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Acceptor(trio.abc.Listener[trio.SocketStream]):
    """The fair accept on a listener of trio's, which it closes."""

    def __init__(self, listener: trio.SocketListener, clock: Callable[[], float] = perf_counter) -> None:
        self._listener = listener
        self._clock = clock
        of_trio = listener.socket
        # A second object for the same socket: trio's has no accept that does not wait.
        self._socket = socket.fromfd(of_trio.fileno(), of_trio.family, of_trio.type)
        self._socket.setblocking(False)
        self._left = 0  # in this round

    async def accept(self) -> trio.SocketStream:
        """The next connection; no checkpoint, as long as this round has room for one more."""
        if self._left:
            self._left -= 1
        else:
            began = self._clock()
            await trio.lowlevel.checkpoint()
            self._left = int((self._clock() - began) / SHARE_OF_HANDSHAKES)
        try:
            accepted, _ = self._socket.accept()
        except OSError:  # no connection waits, or trio knows how to handle the error
            self._left = 0
            return await self._listener.accept()
        return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))

    async def aclose(self) -> None:
        self._socket.close()
        await self._listener.aclose()
