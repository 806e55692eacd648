"""TLS: certificates that do not hold, each told apart, and TLS where there is none, or none where there should be."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trustme
from cryptography import x509

from gateway.config.settings import Settings
from gateway.doctor import doors
from gateway.doctor.examine import own_orders
from gateway.doctor.finding import Level
from gateway.doctor.places import TCP, WEBSOCKET
from tests.clients.nginx import start_nginx_tls
from tests.doctor.scene import ADA, faults, http, look, only, settings_of, tcp, users, websocket
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway
from tests.transports import tls_files

NOW = datetime.now(UTC)


def shown(*names: str, after: timedelta, before: timedelta = timedelta(0)) -> trustme.LeafCert:
    """A certificate of the authority, good from one time to another, both counted from now."""
    start = min(NOW + before, NOW - timedelta(days=30)) if before <= timedelta(0) else NOW + before
    return tls_files.authority().issue_cert(*names, not_before=start, not_after=NOW + after)


async def door(folder: Path, nursery: trio.Nursery, certificate: trustme.LeafCert) -> int:
    """A listener with that certificate, which says nothing."""
    context = tls_files.certificates(folder, certificate).context("tcp")

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()

    async def listen(task_status: trio.TaskStatus[list[trio.SSLListener[trio.SocketStream]]]) -> None:
        await trio.serve_ssl_over_tcp(serve, 0, context, host=HOST, task_status=task_status)

    (listener,) = await nursery.start(listen)
    return int(listener.transport_listener.socket.getsockname()[1])


def authorities(folder: Path) -> Path:
    file = folder / "ca.pem"
    file.write_bytes(tls_files.authority().cert_pem.bytes())
    return file


@pytest.mark.parametrize(
    ("names", "after", "before", "detail", "remedy"),
    [
        ([HOST], timedelta(days=-1), timedelta(0), "has expired: it is for 127.0.0.1", "Renew"),
        ([HOST], timedelta(days=9), timedelta(days=2), "is not good yet", "clock"),
        (["a.example"], timedelta(days=90), timedelta(0), "is not for 127.0.0.1: it is for a.example", "Dial one of"),
    ],
)
async def test_certificates(
    tmp_path: Path,
    nursery: trio.Nursery,
    names: list[str],
    after: timedelta,
    before: timedelta,
    detail: str,
    remedy: str,
) -> None:
    port = await door(tmp_path, nursery, shown(*names, after=after, before=before))
    found = await look(tcp=(tcp(port, tls=True),), authorities=authorities(tmp_path), patience=0.5)
    fault = found[0]
    assert fault.level is Level.FAIL
    assert detail in fault.detail
    assert fault.remedy.startswith(remedy) or remedy in fault.remedy


async def test_a_certificate_that_ends_soon(tmp_path: Path, nursery: trio.Nursery) -> None:
    port = await door(tmp_path, nursery, shown(HOST, after=timedelta(days=5)))
    found = await look(tcp=(tcp(port, tls=True),), authorities=authorities(tmp_path), patience=0.5)
    assert "Renew it now" in found[0].remedy
    assert (found[0].level, "(4 days)" in found[0].detail) == (Level.WARN, True)
    found = await look(
        tcp=(tcp(port, tls=True),), authorities=authorities(tmp_path), patience=0.5, now=lambda: NOW.timestamp() - 1e7
    )
    assert found[0].level is Level.OK


async def test_an_authority_that_nobody_knows(tmp_path: Path, nursery: trio.Nursery) -> None:
    port = await door(tmp_path, nursery, tls_files.server())
    found = await look(tcp=(tcp(port, tls=True),), patience=0.5)
    assert (
        "nobody whom clients know vouches for the certificate: it is for gateway.example, 127.0.0.1" in found[0].detail
    )
    assert "fullchain.pem" in found[0].remedy


async def test_a_certificate_that_is_signed_by_itself(tmp_path: Path, nursery: trio.Nursery) -> None:
    own = trustme.CA()
    port = await door(tmp_path, nursery, trustme.LeafCert(own.private_key_pem.bytes(), own.cert_pem.bytes(), []))
    found = await look(tcp=(tcp(port, tls=True),), patience=0.5)
    assert found[0].detail.startswith("the certificate is signed by itself, and no client knows it: it is for nobody")


async def test_one_that_is_signed_by_itself_and_has_expired(tmp_path: Path, nursery: trio.Nursery) -> None:
    """OpenSSL names the first of both only."""
    own = trustme.CA()
    port = await door(tmp_path, nursery, trustme.LeafCert(own.private_key_pem.bytes(), own.cert_pem.bytes(), []))
    end = x509.load_pem_x509_certificate(own.cert_pem.bytes()).not_valid_after_utc.timestamp()
    for now, both in ((end - 1, False), (end, True)):
        found = await look(tcp=(tcp(port, tls=True),), patience=0.5, now=lambda now=now: now)
        assert found[0].detail.startswith("the certificate is signed by itself, ")
        assert found[0].detail.endswith(" UTC, so it has expired, too") is both


async def test_a_certificate_that_only_openssl_can_read(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(octets: bytes) -> None:
        raise ValueError

    port = await door(tmp_path, nursery, tls_files.server())
    monkeypatch.setattr(doors.x509, "load_der_x509_certificate", refuse)
    found = await look(tcp=(tcp(port, tls=True),), authorities=authorities(tmp_path), patience=0.5)
    assert (found[0].level, found[0].detail) == (Level.OK, "the certificate holds")
    found = await look(tcp=(tcp(port, tls=True),), patience=0.5)
    assert found[0].detail == "nobody whom clients know vouches for the certificate"


async def test_a_chain_that_is_cut_off(tmp_path: Path, nursery: trio.Nursery) -> None:
    """The server shows its own certificate alone, and not that of the authority between."""
    between = tls_files.authority().create_child_ca()
    whole = between.issue_cert(HOST)
    alone = trustme.LeafCert(whole.private_key_pem.bytes(), whole.cert_chain_pems[0].bytes(), [])
    port = await door(tmp_path, nursery, alone)
    found = await look(tcp=(tcp(port, tls=True),), authorities=authorities(tmp_path), patience=0.5)
    assert "fullchain.pem" in found[0].remedy


async def test_no_passcode_is_sent_where_the_certificate_does_not_hold(tmp_path: Path) -> None:
    files = tls_files.write(tmp_path)
    (port,) = free_ports(1)
    settings = {"tcp_tls": f"{HOST}:{port}", "tls_certificate": files.certificate, "tls_key": files.key}
    with start_gateway(users_file=users(tmp_path), login_delay=0, **settings) as secured:
        place = tcp(port, tls=True)
        found = await look(tcp=(place,), credentials=ADA)
        assert only(found, "login", Level.WARN).detail == "not tried, for the certificate does not hold"
        assert '"connected"' not in secured.log
        found = await look(tcp=(place,), credentials=ADA, authorities=authorities(tmp_path))
        assert only(found, "login", Level.OK).detail == "let in as ada"
        found = await look(tcp=(tcp(port),))
        assert only(found, "session").remedy == f"Dial stomps://{HOST}:{port}"


async def test_tls_to_a_port_that_has_none(gateway: GatewayProcess) -> None:
    places = (tcp(gateway.tcp_port, tls=True), websocket(gateway.ws_port, tls=True))
    found = await look(http=http(gateway.http_port, tls=True), tcp=places)
    assert [each.detail for each in found] == ["it speaks no TLS"] * 3
    for each, word in zip(found, ["listen 443 ssl", "tcp_tls with", "websocket_tls with"], strict=True):
        assert word in each.remedy
    assert f"Dial http://{HOST}:{gateway.http_port}" in found[0].remedy


async def test_no_tls_to_a_port_that_has_it(gateway: GatewayProcess, tmp_path: Path) -> None:
    with start_nginx_tls(gateway.ws_port, gateway.http_port, gateway.tcp_port) as public:
        found = await look(http=http(public.https))
    assert [str(each) for each in found[1:]] == [
        f"FAIL http://{HOST}:{public.https}: it speaks TLS only. Dial https://{HOST}:{public.https}"
    ]
    files = tls_files.write(tmp_path)
    (secure,) = free_ports(1)
    settings = {"websocket_tls": f"{HOST}:{secure}", "tls_certificate": files.certificate, "tls_key": files.key}
    with start_gateway(**settings):
        found = await look(websocket=(websocket(secure),))
    assert only(found, "upgrade").remedy == f"Dial wss://{HOST}:{secure}/ws"


async def test_the_files_of_deploy_with_tls(tmp_path: Path) -> None:
    settings = {"tcp_proxy_protocol": True, "trusted_proxies": HOST, "users_file": users(tmp_path)}
    with (
        start_gateway(**settings, login_delay=0) as proxied,
        start_nginx_tls(proxied.ws_port, proxied.http_port, proxied.tcp_port) as public,
    ):
        found = await look(
            http=http(public.https, tls=True),
            websocket=(websocket(public.https, tls=True),),
            tcp=(tcp(public.stomp, tls=True),),
            credentials=ADA,
            settings=settings_of(proxied, max_connections=100),
            authorities=public.authority,
        )
        moved = await look(http=http(public.http), authorities=public.authority)
    assert f"pages are elsewhere (301, https://{HOST}:{public.https}/healthz)" in faults(moved)[0]
    assert faults(found) == []
    assert [each.level for each in found if each.what.endswith("our address")] == [Level.OK, Level.OK]


@pytest.mark.parametrize("kind", ["tcp", "websocket"])
async def test_a_port_that_wants_a_proxy_header_gets_one(kind: str, tmp_path: Path) -> None:
    """On the machine of gateway and proxy, without an address: what the settings name."""
    settings = {f"{kind}_proxy_protocol": True, "trusted_proxies": HOST, "users_file": users(tmp_path)}
    with start_gateway(**settings, login_delay=0) as proxied:
        found_settings = settings_of(proxied, max_connections=100)
        own = own_orders(found_settings)
        found = await look(tcp=own[TCP], websocket=own[WEBSOCKET], credentials=ADA, settings=found_settings)
    assert faults(found) == []
    only(found, "PROXY header", Level.OK)
    assert len([each for each in found if each.what.endswith("large message") and each.level is Level.OK]) == 2


async def test_a_port_for_proxies_elsewhere(tmp_path: Path) -> None:
    settings = {"tcp_proxy_protocol": True, "trusted_proxies": "192.0.2.7", "users_file": users(tmp_path)}
    with start_gateway(**settings, login_delay=0) as proxied:
        place = tcp(proxied.tcp_port)
        found = await look(tcp=(place,), credentials=ADA, settings=settings_of(proxied, max_connections=100))
    assert faults(found) == []
    hint = only(found, f"{place}", Level.WARN)
    assert hint.detail.startswith("not tried: tcp_proxy_protocol is on, and 127.0.0.1")
    assert "Go through the proxy, by --tcp HOST:PORT" in hint.remedy


async def test_nobody_at_a_port_for_proxies() -> None:
    (port,) = free_ports(1)
    settings = Settings(tcp=[f"{HOST}:{port}"], tcp_proxy_protocol=True, trusted_proxies=[HOST])
    found = await look(tcp=(tcp(port),), settings=settings)
    assert "nobody listens" in only(found, f"{tcp(port)}").detail


async def test_authorities_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    (found,) = await look(authorities=file)
    assert "it has no certificate in PEM" in found.detail
    (found,) = await look(authorities=tmp_path / "other.pem")
    assert "no such file" in found.detail.lower()
