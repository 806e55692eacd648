"""Ports, TLS, certificates, client certificates and PROXY headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from cryptography import x509

from gateway.doctor.model import TCP, WEBSOCKET, Level, Target, own_targets
from tests.clients.nginx import start_nginx_tls
from tests.demanding import Demanding, demanding
from tests.doctor.scene import ADA, faults, http, look, only, relay, served, settings_of, tcp, users, websocket
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway
from tests.transports import tls_files

NOW = datetime.now(UTC)
PROXY_1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 40312 61613\r\n"


def leaf(*names: str, after: int, before: int = -30) -> trustme.LeafCert:
    start, end = [NOW + timedelta(days=days) for days in (before, after)]
    return tls_files.authority().issue_cert(*names, not_before=start, not_after=end)


def without_chain() -> trustme.LeafCert:
    whole = tls_files.authority().create_child_ca().issue_cert(HOST)
    return trustme.LeafCert(whole.private_key_pem.bytes(), whole.cert_chain_pems[0].bytes(), [])


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    file.write_bytes(tls_files.authority().cert_pem.bytes())
    return file


Show = Callable[[trustme.LeafCert], Awaitable[tuple[Target, ...]]]


@pytest.fixture
def show(tmp_path: Path, nursery: trio.Nursery) -> Show:
    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()

    async def start(certificate: trustme.LeafCert) -> tuple[Target, ...]:
        context = tls_files.certificates(tmp_path, certificate).context("tcp")
        (found,) = await nursery.start(partial(trio.serve_ssl_over_tcp, serve, 0, context, host=HOST))
        return (tcp(found.transport_listener.socket.getsockname()[1], tls=True),)

    return start


NO_AUTHORITY = "the certificate has no authority that clients trust"


@pytest.mark.parametrize(
    ("certificate", "is_known", "told"),
    [
        (partial(leaf, HOST, after=-1), True, ["has expired: it is for 127.0.0.1", "Renew"]),
        (partial(leaf, HOST, after=9, before=2), True, ["is not valid yet", "clock"]),
        (partial(leaf, "a.example", after=90), True, ["is not for 127.0.0.1: it is for a.example", "Connect to one"]),
        (tls_files.server, False, [f"{NO_AUTHORITY}: it is for gateway.example, 127.0.0.1", "fullchain.pem"]),
        (without_chain, True, [NO_AUTHORITY, "fullchain.pem"]),
    ],
)
async def test_certificates(
    show: Show, ca: Path, certificate: Callable[[], trustme.LeafCert], is_known: bool, told: list[str]
) -> None:
    fault = (await look(tcp=await show(certificate()), ca=ca if is_known else None, patience=0.5))[0]
    assert fault.level is Level.FAIL
    assert all(each in f"{fault}" for each in told), fault


async def test_a_certificate_that_ends_soon_is_a_warning(show: Show, ca: Path) -> None:
    targets = await show(leaf(HOST, after=5))
    soon = (await look(tcp=targets, ca=ca, patience=0.5))[0]
    assert (soon.level, "(4 days)" in soon.detail, "Renew it now" in soon.remedy) == (Level.WARN, True, True)
    late = (await look(tcp=targets, ca=ca, patience=0.5, now=lambda: NOW.timestamp() - 1e7))[0]
    assert late.level is Level.OK


async def test_a_self_signed_certificate_may_also_have_expired(show: Show) -> None:
    own = trustme.CA()
    end = x509.load_pem_x509_certificate(own.cert_pem.bytes()).not_valid_after_utc.timestamp()
    targets = await show(trustme.LeafCert(own.private_key_pem.bytes(), own.cert_pem.bytes(), []))
    for now, is_expired in ((end - 1, False), (end, True)):
        fault = (await look(tcp=targets, patience=0.5, now=lambda now=now: now))[0]
        assert fault.detail.startswith("the certificate is self-signed, and clients do not trust it: it is for no name")
        assert fault.detail.endswith(" UTC, so it has also expired") is is_expired


async def test_no_passcode_is_sent_where_the_certificate_does_not_hold(tmp_path: Path, ca: Path) -> None:
    files = tls_files.write(tmp_path)
    (port,) = free_ports(1)
    settings = {"tcp_tls": f"{HOST}:{port}", "tls_certificate": files.certificate, "tls_key": files.key}
    with start_gateway(users_file=users(tmp_path), login_delay=0, **settings) as secured:
        target = tcp(port, tls=True)
        found = await look(tcp=(target,), **ADA)
        assert only(found, "login", Level.WARN).detail == "not tried, because the certificate does not hold"
        assert '"connected"' not in secured.log
        assert only(await look(tcp=(target,), ca=ca, **ADA), "login", Level.OK).detail == "let in as ada"
        assert only(await look(tcp=(tcp(port),)), "session").remedy == f"Connect to stomps://{HOST}:{port}"


async def test_tls_to_a_port_that_has_none(gateway: GatewayProcess) -> None:
    targets = (tcp(gateway.tcp_port, tls=True), websocket(gateway.ws_port, tls=True))
    found = await look(url=http(gateway.http_port, tls=True), tcp=targets)
    assert [each.detail for each in found] == ["it speaks no TLS"] * 3
    for each, word in zip(found, ["listen 443 ssl", "tcp_tls with", "websocket_tls with"], strict=True):
        assert word in each.remedy
    assert f"Connect to http://{HOST}:{gateway.http_port}" in found[0].remedy


async def test_no_tls_to_a_port_that_has_it(gateway: GatewayProcess, tmp_path: Path) -> None:
    with start_nginx_tls(gateway.ws_port, gateway.http_port, gateway.tcp_port) as public:
        found = await look(url=http(public.https))
    assert [str(each) for each in found[1:]] == [
        f"FAIL http://{HOST}:{public.https}: it speaks TLS only. Connect to https://{HOST}:{public.https}"
    ]
    files = tls_files.write(tmp_path)
    (secure,) = free_ports(1)
    settings = {"websocket_tls": f"{HOST}:{secure}", "tls_certificate": files.certificate, "tls_key": files.key}
    with start_gateway(**settings):
        found = await look(websocket=(websocket(secure),))
    assert only(found, "upgrade").remedy == f"Connect to wss://{HOST}:{secure}/ws"


async def test_the_files_of_deploy_have_no_faults_with_tls(tmp_path: Path) -> None:
    settings = {"tcp_proxy_protocol": True, "trusted_proxies": HOST, "users_file": users(tmp_path)}
    with (
        start_gateway(**settings, login_delay=0) as proxied,
        start_nginx_tls(proxied.ws_port, proxied.http_port, proxied.tcp_port) as public,
    ):
        found = await look(
            url=http(public.https, tls=True),
            websocket=(websocket(public.https, tls=True),),
            tcp=(tcp(public.stomp, tls=True),),
            settings=settings_of(proxied, max_connections=100),
            ca=public.authority,
            **ADA,
        )
        moved = await look(url=http(public.http), ca=public.authority)
    assert f"pages are elsewhere (301, https://{HOST}:{public.https}/healthz)" in faults(moved)[0]
    assert faults(found) == []
    assert [each.level for each in found if each.what.endswith("client address")] == [Level.OK, Level.OK]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demanding]:
    with demanding(tmp_path_factory.mktemp("demanding")) as found:
        yield found


class TestClientCertificates:
    async def faults(self, there: Demanding, cert: Path | None = None, key: Path | None = None) -> list[str]:
        targets = {"tcp": (tcp(there.port, tls=True),), "websocket": (websocket(there.websocket, tls=True),)}
        return faults(await look(**targets, ca=there.ca, cert=cert, key=key))

    async def test_the_right_one_is_accepted_and_not_shown_to_an_untrusted_server(self, there: Demanding) -> None:
        assert await self.faults(there, there.cert, there.key) == []
        lines = faults(await look(tcp=(tcp(there.port, tls=True),), cert=there.cert, key=there.key))
        assert "the certificate has no authority that clients trust" in lines[0]
        assert not any("client certificate" in line for line in lines)
        (line,) = await self.faults(there, there.key)
        assert "has no certificate with its key in PEM" in line
        assert "Name files in PEM by --ca, --cert and --key" in line

    @pytest.mark.parametrize(
        ("is_shown", "words"),
        [
            (False, "it demands a client certificate, and none was shown"),
            (True, "it does not take the certificate in {stranger}: tlsv1 alert unknown ca"),
        ],
    )
    async def test_the_server_s_refusal_is_shown(self, there: Demanding, is_shown: bool, words: str) -> None:
        lines = await self.faults(there, there.stranger if is_shown else None)
        assert any(f"{HOST}:{there.port}" in line for line in lines)
        assert any(f"{HOST}:{there.websocket}" in line for line in lines)
        for line in lines:
            assert words.format(stranger=there.stranger) in line
            assert "Give a certificate of an authority in tls_client_ca by --cert and --key" in line


class TestProxyHeader:
    @pytest.mark.parametrize("kind", ["tcp", "websocket"])
    async def test_a_port_that_expects_one_gets_it(self, kind: str, tmp_path: Path) -> None:
        settings = {f"{kind}_proxy_protocol": True, "trusted_proxies": HOST, "users_file": users(tmp_path)}
        with start_gateway(**settings, login_delay=0) as proxied:
            own = own_targets(settings_of(proxied))
            ours = settings_of(proxied, max_connections=100)
            found = await look(tcp=own[TCP], websocket=own[WEBSOCKET], settings=ours, **ADA)
        assert faults(found) == []
        only(found, "PROXY header", Level.OK)
        assert [each.level for each in found if each.what.endswith("large message")] == [Level.OK, Level.OK]

    async def test_a_port_of_proxies_elsewhere_is_not_tried(self, tmp_path: Path) -> None:
        settings = {"tcp_proxy_protocol": True, "trusted_proxies": "192.0.2.7", "users_file": users(tmp_path)}
        with start_gateway(**settings, login_delay=0) as proxied:
            target = tcp(proxied.tcp_port)
            found = await look(tcp=(target,), settings=settings_of(proxied, max_connections=100), **ADA)
        assert faults(found) == []
        hint = only(found, f"{target}", Level.WARN)
        assert hint.detail.startswith("not tried: tcp_proxy_protocol is on, and 127.0.0.1")
        assert "Connect through the proxy, by --tcp HOST:PORT" in hint.remedy

    async def test_a_missing_one_is_a_fault(self, nursery: trio.Nursery) -> None:
        settings = {"tcp_proxy_protocol": True, "websocket_proxy_protocol": True, "trusted_proxies": HOST}
        with start_gateway(**settings) as waiting:
            fault = only(await look(tcp=(tcp(await relay(nursery, waiting.tcp_port)),)), "session")
            assert "the gateway expects a PROXY header" in fault.detail
            assert "proxy_protocol on;" in fault.remedy
            assert "tcp_proxy_protocol = false" in fault.remedy
            found = await look(websocket=(websocket(await relay(nursery, waiting.ws_port)),))
            assert "websocket_proxy_protocol = false" in only(found, "upgrade").remedy
            port = await relay(nursery, waiting.tcp_port, preface=PROXY_1)
            found = await look(tcp=(tcp(port),), settings=settings_of(waiting))
            assert only(found, "large message", Level.OK)

    async def test_a_proxy_that_is_not_trusted_is_a_fault(self) -> None:
        with start_gateway(tcp_proxy_protocol=True, trusted_proxies="192.0.2.1") as waiting:
            fault = only(await look(tcp=(tcp(waiting.tcp_port),)), "session")
        assert "closed at CONNECT without an answer" in fault.detail
        assert "trusted_proxies" in fault.remedy


async def test_a_listener_that_says_nothing_is_a_fault(nursery: trio.Nursery) -> None:
    async def wait(stream: trio.SocketStream) -> None:
        async for _ in stream:
            pass

    port = await served(nursery, wait)
    found = await look(tcp=(tcp(port), tcp(port, tls=True)), websocket=(websocket(port),), patience=0.3)
    assert "no answer to CONNECT within 0.3 s" in only(found, f"stomp://{HOST}:{port} session").detail
    assert "no answer to a GET of /ws within 0.3 s" in only(found, "upgrade").detail
    assert "no TLS handshake within 0.3 s" in only(found, f"stomps://{HOST}:{port}").detail


async def test_hosts_that_cannot_be_reached_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await look(tcp=(tcp(1), tcp(61613, "no-such-host.invalid"), tcp(61613, "255.255.255.255")))
    assert [each.detail for each in found[:2]] == [
        "127.0.0.1:1 has no listener",
        "the host name no-such-host.invalid cannot be resolved",
    ]
    assert found[2].detail.startswith("255.255.255.255:61613 cannot be reached: ")

    async def drop(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", drop)  # as a firewall does
    found = await look(tcp=(tcp(61613),), patience=0.1)
    assert [each.detail for each in found] == ["no answer from 127.0.0.1:61613 within 0.1 s"]


async def test_another_program_is_a_fault(gateway: GatewayProcess, nursery: trio.Nursery) -> None:
    async def greet(stream: trio.SocketStream) -> None:
        await stream.send_all(b"220 mail.example.org ESMTP\x1b[2J\r\n")

    port = await served(nursery, greet)
    fault = only(await look(tcp=(tcp(port),)), "session")
    assert "'220 mail.example.org ESMTP [2J'" in fault.detail
    assert "Another program has this port" in fault.remedy
    assert "which is not HTTP" in only(await look(websocket=(websocket(port),)), "upgrade").detail


async def test_files_of_certificates_must_be_usable(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name, words in (("ca.pem", "it has no certificate in pem"), ("other.pem", "no such file")):
        (found,) = await look(ca=tmp_path / name)
        assert words in found.detail.lower()
