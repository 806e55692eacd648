"""Reading files again while sessions go on: what a gateway does at SIGHUP, without the signal."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog.testing
import trio

from gateway.auth.authenticator import Anonymous
from gateway.config.settings import Settings, load
from gateway.runtime.gateway import Gateway, StartError, open_gateway

from ..transports import tls_files
from ..transports.peers import UPGRADE, Peer, TcpWire, dial_stream


@asynccontextmanager
async def secured(folder: Path, **values: object) -> AsyncIterator[Gateway]:
    tls_files.write(folder)
    settings = Settings(
        tcp=[],
        websocket=[],
        tcp_tls="127.0.0.1:0",
        tls_certificate=folder / "server.pem",
        tls_key=folder / "server.key",
        close_linger=0.1,
        **values,  # type: ignore[arg-type]
    )
    async with open_gateway(settings, authenticator=Anonymous()) as gateway:
        yield gateway


async def dial(gateway: Gateway) -> tuple[Peer, dict[str, object]]:
    """A session, and the certificate that it was shown."""
    stream = await dial_stream(gateway.addresses["tcp_tls"][0])
    context = ssl.create_default_context()
    tls_files.authority().configure_trust(context)
    context.check_hostname = False
    secure = trio.SSLStream(stream, context)
    peer = Peer(TcpWire(secure))
    await peer.connect()
    return peer, secure.getpeercert()


def names(certificate: dict[str, object]) -> object:
    return certificate["subjectAltName"]


async def test_sessions_go_on_and_new_ones_get_the_new_certificate(tmp_path: Path) -> None:
    async with secured(tmp_path) as gateway:
        old, shown = await dial(gateway)
        assert names(shown) == (("DNS", tls_files.HOST), ("IP Address", "127.0.0.1"))
        tls_files.write(tmp_path, tls_files.authority().issue_cert("renewed.example"))
        with structlog.testing.capture_logs() as logs:
            gateway.reload()
        assert logs[0]["event"] == "reloaded"
        assert "certificates" in logs[0]["what"]
        assert (logs[0]["log_level"], logs[0]["kept"]) == ("info", [])
        await old.settled()
        new, shown = await dial(gateway)
        assert names(shown) == (("DNS", "renewed.example"),)
        await old.publish("/queue/a", b"x")
        ((message),) = await new.subscribe_and_read("/queue/a", 1)
        assert message.body == b"x"
        await old.aclose()
        await new.aclose()


class TestSettings:
    """Those that come into force without a restart, as whoever dials meets them."""

    @asynccontextmanager
    async def opened(self, values: dict[str, object]) -> AsyncIterator[Gateway]:
        """A gateway whose reload reads these values, whatever they are by then."""

        def read() -> Settings:
            return load(tcp=[], websocket="127.0.0.1:0", close_linger=0.1, **values)

        async with open_gateway(read(), authenticator=Anonymous(), read=read) as gateway:
            yield gateway

    async def upgrade(self, gateway: Gateway, *fields: str) -> bytes:
        """The first line of the answer."""
        async with await dial_stream(gateway.addresses["websocket"][0]) as stream:
            request = UPGRADE.removesuffix(b"\r\n") + "".join([f"{each}\r\n" for each in fields]).encode()
            await stream.send_all(request + b"\r\n")
            return (await stream.receive_some()).partition(b"\r\n")[0]

    async def test_proxies(self) -> None:
        """Whom they believe to be in front: the host that it names is the page's own then."""
        fields = ("Origin: https://gateway.example", "X-Forwarded-Host: gateway.example", "X-Forwarded-Proto: https")
        values: dict[str, object] = {}
        async with self.opened(values) as gateway:
            assert b" 403 " in await self.upgrade(gateway, *fields)
            values["trusted_proxies"] = "127.0.0.1"
            with structlog.testing.capture_logs() as logs:
                gateway.reload()
            assert b" 101 " in await self.upgrade(gateway, *fields)
            assert "127.0.0.1" in gateway.trusted
            sentences = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
            assert any(each.startswith("trusted_proxies is set and no authenticator is") for each in sentences)
            del values["trusted_proxies"]
            gateway.reload()
            assert b" 403 " in await self.upgrade(gateway, *fields)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tcp_tls": "127.0.0.1:0"}, "tcp_tls .* is wrong: it needs a certificate and its key"),
        ({"tls_client_certificates": "required"}, "tls_client_certificates .* and tls_client_ca names no authorities"),
        (
            {"tcp_tls": "127.0.0.1:0", "tls_certificate": "/nowhere/server.pem"},
            "tls_certificate .* cannot be used: /nowhere/server.pem cannot be read: No such file or directory",
        ),
    ],
)
async def test_a_start_that_is_refused(values: dict[str, object], words: str) -> None:
    settings = Settings(tcp=[], websocket="127.0.0.1:0", **values)  # type: ignore[arg-type]
    with pytest.raises(StartError, match=words):
        async with open_gateway(settings, authenticator=Anonymous()):
            pass
