"""The files for nginx, run by a real one with TLS in front of a real gateway."""

from __future__ import annotations

import json
import re
import socket
import ssl
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path

import pytest
import stomp
import trio
from trio_websocket import open_websocket_url, wrap_client_stream

from gateway.config.settings import Settings
from tests.clients.nginx import DEPLOY, Public, start_nginx_tls
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

PATIENCE = 20.0


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_users(tmp_path_factory.mktemp("users") / "users.txt", {"ada": "engine"})


@pytest.fixture(scope="module")
def gateway(users: Path) -> Iterator[GatewayProcess]:
    """A gateway as the comments in the files want it."""
    settings = {"tcp_proxy_protocol": "true", "trusted_proxies": HOST, "users_file": users, "admin_token": "operator"}
    with start_gateway(**settings) as process:
        yield process


@pytest.fixture(scope="module")
def public(gateway: GatewayProcess) -> Iterator[Public]:
    with start_nginx_tls(gateway.ws_port, gateway.http_port, gateway.tcp_port) as ports:
        yield ports


@contextmanager
def secured(port: int, trust: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection((HOST, port), timeout=PATIENCE) as plain,
        trust.wrap_socket(plain, server_hostname=HOST) as sock,
    ):
        yield sock


def asked(public: Public, path: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of a GET over https:."""
    with closing(HTTPSConnection(HOST, public.https, timeout=PATIENCE, context=public.trust)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()


class TestPages:
    def test_http_leads_to_https_and_to_the_page(self, public: Public) -> None:
        with closing(HTTPConnection(HOST, public.http, timeout=PATIENCE)) as connection:
            connection.request("GET", "/console/?a=b", headers={"Host": "broker.example.org"})
            response = connection.getresponse()
            assert response.status == 301
            assert response.getheader("location") == f"https://broker.example.org:{public.https}/console/?a=b"
        with closing(HTTPSConnection(HOST, public.https, timeout=PATIENCE, context=public.trust)) as connection:
            connection.request("GET", "/")
            response = connection.getresponse()
            assert response.status == 200
            assert response.getheader("strict-transport-security") == "max-age=63072000"
            assert response.getheader("content-security-policy"), "the gateway's own headers come through"
            assert "nginx/" not in (response.getheader("server") or "")

    @pytest.mark.parametrize("door", ["https", "stomp"])
    def test_tls_1_2_too_and_no_http_2(self, public: Public, door: str) -> None:
        trust = public.trust
        trust.set_alpn_protocols(["h2", "http/1.1"])
        before, trust.maximum_version = trust.maximum_version, ssl.TLSVersion.TLSv1_2
        try:
            with secured(getattr(public, door), trust) as sock:
                assert sock.version() == "TLSv1.2"
                assert sock.selected_alpn_protocol() == ("http/1.1" if door == "https" else None)
        finally:
            trust.maximum_version = before

    async def test_a_websocket(self, public: Public) -> None:
        url = f"wss://{HOST}:{public.https}/ws"
        with trio.fail_after(PATIENCE):
            async with open_websocket_url(
                url, public.trust, subprotocols=["v12.stomp"], extra_headers=[("Origin", public.url)]
            ) as page:
                await page.send_message("CONNECT\naccept-version:1.2\nhost:x\nlogin:ada\npasscode:engine\n\n\0")
                assert (await page.get_message()).startswith("CONNECTED\n")

    def test_nothing_large_comes_in(self, public: Public) -> None:
        with secured(public.https, public.trust) as sock:
            sock.sendall(b"POST /api/v1/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 413 ")

    def test_an_operator_logs_in_all_the_same(self, public: Public) -> None:
        """The gateway sees that somebody came through a proxy, and does not take him for a user of this machine."""
        for path in ("/metrics", "/api/v1/overview"):
            assert asked(public, path)[0] == 401
            assert asked(public, path, Authorization="Bearer operator")[0] == 200

    async def test_who_he_is(self, public: Public, gateway: GatewayProcess) -> None:
        """He is at the address that nginx sees, and at no other that he names."""
        lies = [("Origin", public.url), ("X-Forwarded-For", "192.0.2.7"), ("Forwarded", "for=192.0.2.8")]
        with trio.fail_after(PATIENCE):
            # Of another address than the proxy's: what a trusted one says would be believed.
            plain = await trio.open_tcp_stream(HOST, public.https, local_address="127.0.0.9")
            async with trio.open_nursery() as nursery, trio.SSLStream(plain, public.trust, server_hostname=HOST) as tls:
                page = await wrap_client_stream(nursery, tls, f"{HOST}:{public.https}", "/ws", extra_headers=lies)
                await page.send_message("CONNECT\naccept-version:1.2\nhost:x\nlogin:ada\npasscode:wrong\n\n\0")
                refusal = await page.get_message()
                nursery.cancel_scope.cancel()
        assert refusal.startswith("ERROR\n")
        (line,) = [line for line in gateway.log.splitlines() if '"login refused"' in line]
        assert json.loads(line)["peer"] == "127.0.0.9"

    async def test_frames_are_seen_as_they_come(self, public: Public) -> None:
        """A stream that never ends: what nginx kept back would not be there."""
        url = f"wss://{HOST}:{public.https}/ws"
        connection = HTTPSConnection(HOST, public.https, timeout=PATIENCE, context=public.trust)
        with closing(connection):
            async with open_websocket_url(url, public.trust, extra_headers=[("Origin", public.url)]) as page:
                await page.send_message("CONNECT\naccept-version:1.2\nhost:x\nlogin:ada\npasscode:engine\n\n\0")
                (session,) = re.findall("^session:(.*)$", await page.get_message(), re.MULTILINE)
                stream = await trio.to_thread.run_sync(tapped, connection, session)
                await page.send_message("SEND\ndestination:/queue/nginx\n\nseen\0")
                with stream:
                    while b'"seen"' not in (line := await trio.to_thread.run_sync(stream.readline)):
                        assert line, "the stream has ended"


def tapped(connection: HTTPSConnection, session: str) -> HTTPResponse:
    """The stream of a session's frames, from now on."""
    connection.request("GET", f"/api/v1/sessions/{session}/tap", headers={"Authorization": "Bearer operator"})
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    return response


class TestWorkers:
    def test_stomp_py(self, public: Public, gateway: GatewayProcess) -> None:
        """Its address is its own, as the PROXY header tells it."""
        places = [(HOST, public.stomp)]
        connection = stomp.Connection12(places, heartbeats=(10_000, 10_000))
        connection.set_ssl(places, ca_certs=str(public.authority))
        connection.connect("ada", "engine", wait=True)
        try:
            own = connection.transport.socket.getsockname()[1]
            assert f'"{HOST}:{own}"' in gateway.log
        finally:
            connection.disconnect()


class TestText:
    PAGES = (DEPLOY / "nginx.conf").read_text()
    WORKERS = (DEPLOY / "nginx-stream.conf").read_text()

    def test_scrapers_are_of_this_machine(self) -> None:
        (block,) = re.findall(r"location = /metrics \{(.*?)\}", self.PAGES, re.DOTALL)
        assert re.findall(r"(?:allow|deny) .*?;", block) == ["allow 127.0.0.1;", "allow ::1;", "deny all;"]

    def test_pings_come_in_time(self) -> None:
        """And the comment line of a stream of frames."""
        ping = Settings.model_fields["websocket_ping"].default
        found = [int(word) for word in re.findall(r"proxy_read_timeout (\d+)s;", self.PAGES)]
        assert len(found) == 2
        assert min(found) > 2 * ping

    @pytest.mark.parametrize("text", [PAGES, WORKERS], ids=["pages", "workers"])
    def test_the_settings_that_believe_it(self, text: str) -> None:
        shown = re.findall(r"^#   ((?:trusted_proxies|tcp_proxy_protocol) = \S+)", text, re.MULTILINE)
        assert Settings.model_validate(tomllib.loads("\n".join(shown))).trusted_proxies == [HOST]
