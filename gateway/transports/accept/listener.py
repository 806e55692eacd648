"""Listening: addresses to open sockets.  What becomes of a connection there is in `entrance`.

All addresses are opened before the first connection is taken, so that a start that fails half way leaves nothing
behind.  A unix socket's file is replaced when nobody listens on it any more, and removed at the end; that of a socket
which came from systemd is not ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import trio

# Connections that may wait to be accepted: a whole fleet that reconnects at once (the kernel cuts it to somaxconn).
_BACKLOG = 4096
# A peer that vanished without a word and agreed on no heart-beats is found by the system after two minutes.  Accepted
# sockets inherit these.
_KEEPALIVE = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 15,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 4,
}


class AddressError(OSError):
    """An address cannot be listened on; `str()` says which and why, in words."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Open listeners of one kind and where they are.

    Attributes:
        inherited: those among them that somebody else keeps open, too.
    """

    listeners: list[trio.SocketListener]
    addresses: list[str]
    inherited: list[trio.SocketListener] = field(default_factory=list)


async def open_listeners(host: str, port: int, path: str) -> Listening:
    """Open one address: a host name may stand for several.

    Raises:
        AddressError: it cannot be opened.
    """
    shown = f"unix:{path}" if path else name_of((host, port))
    try:
        if path:
            return Listening([_open_unix(path)], [shown])
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)
    except OSError as error:
        raise AddressError(f"{shown}: {_reason(error)}") from None
    for listener in listeners:
        _find_the_vanished(listener.socket)
    return Listening(listeners, [name_of(each.socket.getsockname()) for each in listeners])


def _find_the_vanished(sock: trio.socket.SocketType) -> None:
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(*option, value)


def inherit_listeners(shown: str, sockets: Iterable[socket.socket]) -> Listening:
    """Listen on sockets that somebody else has opened; they are ours from now on.

    Args:
        shown: what the settings call them.

    Raises:
        AddressError: one of them does not listen.
    """
    listening = Listening([], [])
    for sock in sockets:
        try:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        except ValueError:
            sock.close()
            raise AddressError(
                f"{shown}: what systemd passed is no stream socket that listens; its .socket unit needs ListenStream= "
                "and Accept=no"
            ) from None
        is_unix = sock.family == socket.AF_UNIX
        if not is_unix:
            _find_the_vanished(listener.socket)
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
    sock = trio.socket.from_stdlib_socket(_bound_unix(path))
    return trio.SocketListener(sock)


def _bound_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Refused is the one answer that says nobody is there; a full backlog or a missing right says somebody is.
        probe.setblocking(False)
        return probe.connect_ex(path) != errno.ECONNREFUSED


async def close(listening: Listening) -> None:
    """Close listeners, and remove the files of unix sockets, but for those on which another program listens by now."""
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
