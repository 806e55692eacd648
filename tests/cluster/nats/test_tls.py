"""TLS with real servers: demanded, from the first byte on, with certificates of both; and what fails, as a sentence."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from gateway.cluster.nats.connection import NatsConnection, NatsOptions, ServerAddress
from gateway.cluster.nats.faults import About, NatsRefused, NatsUnavailable
from tests.cluster.servers import NatsServer, nats_servers
from tests.transports.tls_files import authority, stranger


def settings(folder: Path, more: str = "", names: tuple[str, ...] = ("127.0.0.1", "localhost")) -> str:
    """The settings of a server with a certificate for some names."""
    certificate, key, ca = folder / "server.pem", folder / "server.key", folder / "ca.pem"
    issued = authority().issue_cert(*names)
    certificate.write_bytes(b"".join([blob.bytes() for blob in issued.cert_chain_pems]))
    key.write_bytes(issued.private_key_pem.bytes())
    ca.write_bytes(authority().cert_pem.bytes())
    return f'tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{ca}", timeout: 5, {more} }}'


def trusting(ca: trustme.CA, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


def ask(options: NatsOptions) -> None:
    """Several requests over one connection, also of more than one TLS record."""
    connection = NatsConnection(options)
    try:
        for _ in range(3):
            assert b"account_info" in connection.request("$JS.API.INFO").payload
            with pytest.raises(NatsUnavailable, match="nothing listens at nothing"):
                connection.request("nothing", bytes(500_000))
        assert connection.info["client_id"]
    finally:
        connection.close()


def options(server: NatsServer, ca: trustme.CA, **more: object) -> NatsOptions:
    return NatsOptions([server.address], tls=lambda: trusting(ca), **more)  # type: ignore[arg-type]


def test_a_server_that_demands_it(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, settings(tmp_path)) as (server,):
        ask(options(server, authority()))
        ask(NatsOptions([ServerAddress("localhost", server.port)], tls=lambda: trusting(authority())))
        for wrong, sentence in (
            (NatsOptions([server.address]), "demands TLS"),
            (
                options(server, stranger()),
                "has a certificate that this node does not trust: unable to get local issuer",
            ),
        ):
            with pytest.raises(NatsRefused, match=f"^the NATS server {server.address} {sentence}") as refused:
                ask(wrong)
            assert refused.value.about is About.TLS


def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    wrong = settings(tmp_path, names=("nats.example",))
    with nats_servers(tmp_path, 1, wrong) as (server,), pytest.raises(NatsRefused, match="certificate is not valid"):
        ask(options(server, authority()))


def test_from_the_first_byte_on(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, settings(tmp_path, "handshake_first: true")) as (server,):
        ask(options(server, authority(), tls_first=True))
        with pytest.raises(NatsRefused, match="does not trust"):
            ask(options(server, stranger(), tls_first=True))
        # Each side waits for the other one to begin.
        with pytest.raises(NatsUnavailable, match="does not answer"):
            NatsConnection(options(server, authority())).request("$JS.API.INFO", timeout=1)


@pytest.mark.parametrize("first", [False, True])
def test_certificates_of_both(tmp_path: Path, first: bool) -> None:
    ours, theirs = authority().issue_cert("gateway@example.org"), stranger().issue_cert("gateway@example.org")
    more = f"verify: true, handshake_first: {str(first).lower()}"
    with nats_servers(tmp_path, 1, settings(tmp_path, more)) as (server,):

        def shown(certificate: trustme.LeafCert) -> NatsOptions:
            make = lambda: trusting(authority(), certificate)  # noqa: E731
            return NatsOptions([server.address], tls=make, has_certificate=True, tls_first=first)

        ask(shown(ours))
        with pytest.raises(NatsUnavailable, match=r"refuses TLS: |closed the connection"):
            ask(shown(theirs))
        if not first:  # INFO tells before the handshake
            with pytest.raises(NatsRefused, match="demands a certificate of this client") as refused:
                ask(options(server, authority()))
            assert refused.value.about is About.CERTIFICATE


def test_a_server_without_it(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 1, "debug: false") as (server,):
        with pytest.raises(NatsRefused, match="offers no TLS") as refused:
            ask(options(server, authority()))
        assert refused.value.about is About.TLS
        with pytest.raises(NatsUnavailable, match=r"refuses TLS: wrong version number|closed the connection"):
            ask(options(server, authority(), tls_first=True))
