"""TlsCertificates for the tests: an authority, a server that it vouches for, and clients."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

import trustme

from gateway.transports.wire.certificates import CertificateFiles, TlsCertificates

HOST = "gateway.example"


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def stranger() -> trustme.CA:
    """An authority that nobody knows."""
    return trustme.CA()


@cache
def server() -> trustme.LeafCert:
    return authority().issue_cert(HOST, "127.0.0.1")


@cache
def of_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server().configure_cert(context)
    return context


def client_demanding() -> ssl.SSLContext:
    """Of a server that demands a certificate of its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server().configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority().configure_trust(context)
    return context


@cache
def of_clients() -> ssl.SSLContext:
    """Of clients that know the authority, and show nothing themselves."""
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def client_with(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)
    certificate.configure_cert(context)
    return context


def write(folder: Path, certificate: trustme.LeafCert | None = None) -> CertificateFiles:
    """Certificate and key of the server, and the authority, as files."""
    shown = certificate or server()
    files = CertificateFiles(folder / "server.pem", folder / "server.key", folder / "clients.pem")
    files.certificate.write_bytes(b"".join([blob.bytes() for blob in shown.cert_chain_pems]))
    assert files.key is not None
    assert files.client_ca is not None
    files.key.write_bytes(shown.private_key_pem.bytes())
    files.client_ca.write_bytes(authority().cert_pem.bytes())
    return files


def certificates(folder: Path, certificate: trustme.LeafCert | None = None) -> TlsCertificates:
    """Those of a listener that asks no client for one."""
    files = write(folder, certificate)
    return TlsCertificates(CertificateFiles(files.certificate, files.key))
