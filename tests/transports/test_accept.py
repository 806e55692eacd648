"""Doors: what a connection passes before STOMP, who it is then known as, and what is said of those turned away."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import trio
import trio_websocket
from trio.testing import MockClock

from gateway.transports import ConnectionHandler, TransportOptions, Trusted
from gateway.transports.connection.connection import Connection
from gateway.transports.wire.certificates import TlsCertificates

from . import tls_files
from .harness import Harness, MakeHarness
from .peers import CONNECT, UPGRADE, Peer, TcpWire, WebSocketWire, read_all, response_of, socket_streams, until
from .test_proxy_protocol import SSL, addresses, binary

parametrize = pytest.mark.parametrize

HEADER = b"PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613\r\n"
UNIX = Trusted(["unix"])


class Visit:
    """A client at a door; our end of the sockets is a unix socket's, so that it has no address of its own."""

    def __init__(self, harness: Harness, entrance: ConnectionHandler) -> None:
        self.harness = harness
        self.stream, ours = socket_streams()
        harness._sockets.append(self.stream)
        self.wire: trio.abc.Stream = self.stream
        harness.nursery.start_soon(entrance.serve, ours)

    async def secure(self, context: ssl.SSLContext | None = None) -> None:
        self.wire = trio.SSLStream(self.stream, context or tls_files.of_clients(), server_hostname=tls_files.HOST)
        with trio.fail_after(30):
            await self.wire.do_handshake()

    async def connect(self, kind: str, *fields: str, request: bytes = UPGRADE) -> Connection:
        """Up to CONNECTED; the connection at the other end."""
        wire = TcpWire(self.wire)
        if kind == "websocket":
            await self.wire.send_all(with_fields(request, *fields))
            wire = WebSocketWire(self.wire, await response_of(self.wire))
        await Peer(wire).connect()
        (connection,) = self.harness.server.open_connections
        return connection

    async def refused(self, *fields: str, request: bytes = UPGRADE) -> bytes:
        await self.wire.send_all(with_fields(request, *fields))
        return await read_all(self.wire)


def with_fields(request: bytes, *fields: str) -> bytes:
    return request.removesuffix(b"\r\n") + "".join([f"{field}\r\n" for field in fields]).encode() + b"\r\n"


def origin(name: str) -> str:
    return f"Origin: {name}"


@pytest.fixture
def certificates(tmp_path: Path) -> TlsCertificates:
    return tls_files.certificates(tmp_path)


class TestTls:
    @parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_a_client_with_a_certificate(self, harness: Harness, tmp_path: Path, version: ssl.TLSVersion) -> None:
        """Also when it takes up an earlier session of TLS."""
        certificates = TlsCertificates(replace(tls_files.write(tmp_path), required=True))
        leaf = tls_files.authority().issue_cert("worker.example", common_name="worker")
        context = tls_files.client_with(leaf)
        context.maximum_version = version
        for _ in range(2):
            visit = Visit(harness, ConnectionHandler(harness.server, "tcp", certificates))
            await visit.secure(context)
            connection = await visit.connect("tcp")
            shown = connection._link.remote.certificate
            assert shown is not None
            assert (shown.common_name, shown.names) == ("worker", ("dns:worker.example",))
            await visit.wire.aclose()
            await harness.server.wait_empty()

    @parametrize(
        ("files", "version", "reason"),
        [
            ({"required": True}, "TLSv1_3", "the client shows no certificate, and tls_client_certificates is required"),
            ({"min_version": "1.3"}, "TLSv1_2", "the client offers no TLS version from tls_min_version on"),
        ],
    )
    async def test_a_client_that_does_not_show_what_is_demanded(
        self, harness: Harness, tmp_path: Path, files: dict[str, Any], version: str, reason: str
    ) -> None:
        certificates = TlsCertificates(replace(tls_files.write(tmp_path), **files))
        context = ssl.create_default_context()
        tls_files.authority().configure_trust(context)
        context.maximum_version = ssl.TLSVersion[version]
        visit = Visit(harness, ConnectionHandler(harness.server, "tcp", certificates))

        async def meet() -> None:
            await visit.secure(context)
            await visit.wire.receive_some()

        with structlog.testing.capture_logs() as logs:
            with pytest.raises(trio.BrokenResourceError):
                await meet()
            await until(lambda: harness.counters.totals()["refused"])
        assert [entry["reason"] for entry in logs] == [reason]

    async def test_http_1_1_is_agreed_for_websockets(self, harness: Harness, certificates: TlsCertificates) -> None:
        context = ssl.create_default_context()
        tls_files.authority().configure_trust(context)
        context.set_alpn_protocols(["h2", "http/1.1"])
        visit = Visit(harness, ConnectionHandler(harness.server, "websocket", certificates))
        await visit.secure(context)
        assert isinstance(visit.wire, trio.SSLStream)
        assert visit.wire.selected_alpn_protocol() == "http/1.1"
        await visit.connect("websocket")

    @parametrize(
        ("kind", "data", "start"),
        [
            ("tcp", CONNECT, b"ERROR\n"),
            ("websocket", UPGRADE, b"HTTP/1.1 400 Bad Request\r\n"),
            ("tcp", b"\0" * 4, b""),
            ("tcp", b"", b""),
        ],
        ids=["STOMP", "HTTP", "neither", "nothing"],
    )
    async def test_a_client_without_tls_is_told(
        self, harness: Harness, certificates: TlsCertificates, kind: str, data: bytes, start: bytes
    ) -> None:
        """As it began; what is neither STOMP nor HTTP has no answer, and a load balancer that only looks, no line."""
        visit = Visit(harness, ConnectionHandler(harness.server, kind, certificates))
        answer = b""
        with structlog.testing.capture_logs() as logs:
            if data:
                await visit.stream.send_all(data)
                answer = await read_all(visit.stream)
            await visit.stream.aclose()
            await until(lambda: harness.counters.totals()["refused"])
        assert answer.startswith(start)
        assert (b"this port speaks TLS only" in answer) is bool(start)
        if kind == "websocket":
            head, _, body = answer.partition(b"\r\n\r\n")
            assert f"Content-Length: {len(body)}".encode() in head
        assert [entry["reason"] for entry in logs] == ["the peer does not speak TLS"] * bool(data)


class TestProxy:
    @parametrize("header", [HEADER, binary(addresses()), binary(addresses() + SSL)])
    async def test_the_client_is_the_one_that_the_header_names(
        self, harness: Harness, kind: str, header: bytes
    ) -> None:
        visit = Visit(harness, ConnectionHandler(harness.server, kind, proxied=True, trusted=UNIX))
        await visit.stream.send_all(header)
        connection = await visit.connect(kind)
        assert connection._link.peer == "203.0.113.7:40312"
        assert connection._link.remote.address == "203.0.113.7"
        assert connection._link.remote.secure is header.endswith(SSL)

    @parametrize(
        ("trusted", "data", "reason"),
        [
            (Trusted(["10.0.0.1"]), HEADER, "tcp_proxy_protocol is on, and unix is not one of trusted_proxies"),
            (UNIX, CONNECT, "the connection does not begin with a PROXY header"),
            (UNIX, b"PROXY TCP9 a\r\n", "the PROXY line is not TCP4 or TCP6 with"),
        ],
    )
    async def test_turned_away(self, harness: Harness, trusted: Trusted, data: bytes, reason: str) -> None:
        visit = Visit(harness, ConnectionHandler(harness.server, proxied=True, trusted=trusted))
        with structlog.testing.capture_logs() as logs:
            await visit.stream.send_all(data)
            with trio.fail_after(30):
                with suppress(trio.BrokenResourceError):  # bytes that nobody read
                    assert await visit.stream.receive_some() == b""
            await until(lambda: logs)
        assert logs[0]["reason"].startswith(reason)
        assert harness.counters.totals()["refused"] == 1
        assert not harness.server.connection_limits.connections

    async def test_tls_behind_it(self, harness: Harness, kind: str, certificates: TlsCertificates) -> None:
        visit = Visit(harness, ConnectionHandler(harness.server, kind, certificates, proxied=True, trusted=UNIX))
        await visit.stream.send_all(HEADER)
        await visit.secure()
        remote = (await visit.connect(kind))._link.remote
        assert (remote.address, remote.secure) == ("203.0.113.7", True)


class TestForwarded:
    """What proxies say is believed of proxies that are trusted."""

    @parametrize(
        ("trusted", "peer", "address", "secure"),
        [(UNIX, "203.0.113.7", "203.0.113.7", True), (Trusted(), "unix", "", False)],
    )
    async def test_the_client_is_the_one_that_the_proxy_names(
        self, harness: Harness, trusted: Trusted, peer: str, address: str, secure: bool
    ) -> None:
        visit = Visit(harness, ConnectionHandler(harness.server, "websocket", trusted=trusted))
        fields = "X-Forwarded-For: 6.6.6.6, 203.0.113.7", "X-Forwarded-Proto: https"
        link = (await visit.connect("websocket", *fields))._link
        assert (link.peer, link.remote.address, link.remote.secure) == (peer, address, secure)

    @parametrize(
        ("trusted", "fields", "status"),
        [
            (UNIX, ("X-Forwarded-For: 203.0.113.7", "Forwarded: for=6.6.6.6"), b"400"),
            (Trusted(), (origin("https://gateway.example"), "X-Forwarded-Host: gateway.example"), b"403"),
            (UNIX, (origin("https://evil.example"), "X-Forwarded-Host: gateway.example"), b"403"),
        ],
        ids=["a contradiction", "not trusted", "another site"],
    )
    async def test_refused(self, harness: Harness, trusted: Trusted, fields: tuple[str, ...], status: bytes) -> None:
        visit = Visit(harness, ConnectionHandler(harness.server, "websocket", trusted=trusted))
        with structlog.testing.capture_logs() as logs:
            assert (await visit.refused(*fields)).startswith(b"HTTP/1.1 " + status)
            await visit.stream.aclose()
            await until(lambda: harness.counters.refusals["handshake"])
        assert logs[0]["event"] == "WebSocket refused"

    @parametrize(
        ("host", "name", "is_accepted"),
        [
            ("gateway.example", "https://gateway.example", True),
            ("gateway.example", "http://gateway.example", False),
            ("localhost", "http://127.0.0.1:3000", True),
        ],
    )
    async def test_a_page_without_tls_is_refused(
        self, harness: Harness, certificates: TlsCertificates, host: str, name: str, is_accepted: bool
    ) -> None:
        """If the WebSocket has TLS, but not on loopback."""
        visit = Visit(harness, ConnectionHandler(harness.server, "websocket", certificates))
        await visit.secure()
        request = UPGRADE.replace(b"Host: localhost", b"Host: " + host.encode())
        if is_accepted:
            await visit.connect("websocket", origin(name), request=request)
        else:
            assert (await visit.refused(origin(name), request=request)).startswith(b"HTTP/1.1 403 ")


async def test_what_the_library_trips_over(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def trip(_: trio.Nursery, stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        raise ValueError("nonsense")

    monkeypatch.setattr(trio_websocket, "wrap_server_stream", trip)
    answer = await Visit(harness, ConnectionHandler(harness.server, "websocket")).refused()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(body)}".encode() in head


@parametrize(
    ("parts", "data", "stage"),
    [
        ({"certificates": None}, b"\x16\x03\x01", "TLS handshake"),
        ({"proxied": True, "trusted": UNIX}, b"PROXY", "PROXY header"),
        ({"transport": "websocket"}, UPGRADE[:-1], "HTTP upgrade"),
    ],
    ids=["TLS", "PROXY", "half an upgrade"],
)
async def test_the_connect_timeout(
    make_harness: MakeHarness,
    certificates: TlsCertificates,
    parts: dict[str, Any],
    data: bytes,
    stage: str,
    autojump_clock: MockClock,
) -> None:
    """It ends what comes before STOMP, and the log names the stage."""
    harness = make_harness(options=TransportOptions(connect_timeout=10.0))
    if "certificates" in parts:
        parts = {"certificates": certificates}
    visit = Visit(harness, ConnectionHandler(harness.server, **parts))
    with structlog.testing.capture_logs() as logs:
        if data:
            await visit.stream.send_all(data)
        assert await read_all(visit.stream) == b""
    assert [entry["reason"] for entry in logs] == [f"connect timeout: the {stage} did not come to an end"]
    assert trio.current_time() == pytest.approx(10.0, abs=0.1)
    assert harness.counters.totals()["refused"] == 1
    assert not harness.server.open_connections


class TestDraining:
    """A client is told when to come back, and the log has no line of it."""

    @parametrize(("retry", "seconds"), [(0, "0"), (1500, "2"), (2000, "2")])
    async def test_an_upgrade(self, make_harness: MakeHarness, retry: int, seconds: str) -> None:
        harness = make_harness(options=TransportOptions(drain_retry=retry))
        harness.server.draining = True
        visit = Visit(harness, ConnectionHandler(harness.server, "websocket"))
        with structlog.testing.capture_logs() as logs:
            answer = await visit.refused()
            await visit.stream.aclose()
            await until(lambda: not harness.server.connection_limits.connections)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert harness.counters.refusals["draining"] == 1
        assert f"\r\nRetry-After: {seconds}\r\n".encode() in answer
        assert b"shutting down" in answer
        assert not logs

    @parametrize("proxied", [False, True])
    async def test_tcp(self, harness: Harness, proxied: bool) -> None:
        harness.server.draining = True
        visit = Visit(harness, ConnectionHandler(harness.server, proxied=proxied, trusted=UNIX))
        with structlog.testing.capture_logs() as logs:
            if proxied:
                await visit.stream.send_all(HEADER)
            error = await Peer(TcpWire(visit.stream)).frame("ERROR")
            await visit.stream.aclose()
            await until(lambda: not harness.server.connection_limits.connections)
        assert (error["message"], error["retry-after"]) == ("server is shutting down", "2000")
        assert (harness.counters.totals()["refused"], harness.counters.sessions) == (1, 0)
        assert not logs
