"""Connections of a push, to addresses that it may connect to.

A name is looked up once for each connection, and the connection goes to an address that was checked, not to the name: a
name server that gives another address the second time (DNS rebinding) gains nothing.  TLS still checks the name.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

import anyio
import httpcore

from .addresses import IPAddress, is_public, literal


class PrivateAddress(httpcore.ConnectError):
    """The name has only addresses that must not be connected to."""


async def resolve(host: str, port: int) -> list[IPAddress]:
    """All addresses of a host.  Raises OSError: there are none."""
    if (address := literal(host)) is not None:
        return [address]
    # The system reads "127.1" and "2130706433" as addresses, too: what comes back is checked all the same.
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys([ipaddress.ip_address(each[4][0]) for each in found]))


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only.  Each address of a name is tried in turn."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises ConnectError: no address takes the connection; PrivateAddress: none may be connected to."""
        try:
            addresses = await resolve(host, port)
        except OSError:
            raise httpcore.ConnectError(f"there is no host {host[:200]!r}") from None
        if not self._allow_private:
            public = [each for each in addresses if is_public(each)]
            if addresses and not public:
                raise PrivateAddress(f"{host} is {addresses[0]}, which is no public address (allow_private)")
            addresses = public
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for each in addresses:
            try:
                return await self._backend.connect_tcp(str(each), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("a push goes to no unix socket")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
