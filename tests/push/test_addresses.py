"""Addresses that may be connected to, and names that are looked up once."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import anyio
import httpcore
import pytest

from gateway.push.addresses import is_public, literal
from gateway.push.dialing import CheckedBackend, PrivateAddress
from tests.gateway_process import HOST, free_ports

PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"]
PRIVATE = [
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1"),
    *("::1", "::", "fe80::1", "fe80::1%lo", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1"),
    # with an address of IPv4 inside: mapped, 6to4, NAT64, Teredo
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "2002:a00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    "2001:0:7f00:1::",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_ones(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PRIVATE)
def test_all_others(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


def test_names_are_no_addresses() -> None:
    assert literal("example.org") is None
    assert str(literal("::1")) == "::1"


class Names:
    """A name server; each look-up of a name takes the next answer."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        if not self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "none")
        found = self.answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]


async def connected(port: int, monkeypatch: pytest.MonkeyPatch, *answers: list[str], allow: bool = False) -> str:
    """The address that is connected to."""
    monkeypatch.setattr(anyio, "getaddrinfo", Names(*answers).getaddrinfo)
    stream = await CheckedBackend(allow_private=allow).connect_tcp("shop.example", port, timeout=5)
    try:
        return str(stream.get_extra_info("server_addr")[0])
    finally:
        await stream.aclose()


async def test_a_private_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PrivateAddress, match="which is no public address"):
        await connected(1, monkeypatch, [HOST])


async def test_a_private_one_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as listener:
        assert await connected(listener.getsockname()[1], monkeypatch, [HOST], allow=True) == HOST


async def test_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that says another address the second time, as DNS rebinding does, is not asked again."""
    dialled: list[str] = []

    async def dial(_: object, host: str, *rest: object) -> None:
        dialled.append(host)
        raise httpcore.ConnectError("closed")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", dial)
    with pytest.raises(httpcore.ConnectError, match="closed"):
        await connected(80, monkeypatch, [PUBLIC[0], HOST, PUBLIC[0]], [HOST])
    assert dialled == [PUBLIC[0]], "the address that was checked, and no private one beside it"


async def test_the_next_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as listener:
        found = await connected(listener.getsockname()[1], monkeypatch, ["127.0.0.9", HOST], allow=True)
    assert found == HOST


async def test_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(httpcore.ConnectError, match="there is no host"):
        await connected(80, monkeypatch)
    with pytest.raises(httpcore.ConnectError, match="has no address"):
        await connected(80, monkeypatch, [])


async def test_nothing_listens() -> None:
    (port,) = free_ports(1)
    with pytest.raises(httpcore.ConnectError):
        await CheckedBackend(allow_private=True).connect_tcp(HOST, port, timeout=5)


async def test_no_unix_socket() -> None:
    with pytest.raises(httpcore.ConnectError, match="no unix socket"):
        await CheckedBackend(allow_private=True).connect_unix_socket("/run/a.sock")
