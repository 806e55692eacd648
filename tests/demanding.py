"""A gateway that demands certificates of its clients, and clients' certificates as files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from gateway.client import StompServer
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.transports import tls_files


@dataclass(frozen=True)
class Demanding:
    """What a client needs there."""

    process: GatewayProcess  # its port `tcp` speaks no TLS
    port: int  # of STOMP over TLS, which asks for a certificate
    websocket: int  # the same over WebSocket
    ca: Path
    cert: Path
    key: Path
    stranger: Path  # a certificate with its key in one file, of an authority that is not known there

    @property
    def url(self) -> str:
        return f"stomps://{HOST}:{self.port}"

    @property
    def server(self) -> StompServer:
        """For a client that shows what is wanted."""
        return StompServer(HOST, self.port, tls=True, ca=str(self.ca), cert=str(self.cert), key=str(self.key))


@contextmanager
def demanding(folder: Path) -> Iterator[Demanding]:
    files = tls_files.write(folder)
    assert files.client_ca is not None
    cert, key, stranger = folder / "client.pem", folder / "client.key", folder / "stranger.pem"
    leaf = tls_files.authority().issue_cert("worker.example", common_name="worker")
    cert.write_bytes(_chain(leaf))
    key.write_bytes(leaf.private_key_pem.bytes())
    other = tls_files.stranger().issue_cert("worker.example", common_name="worker")
    stranger.write_bytes(other.private_key_pem.bytes() + _chain(other))
    port, websocket = free_ports(2)
    settings = {
        "tcp_tls": f"{HOST}:{port}",
        "websocket_tls": f"{HOST}:{websocket}",
        "tls_certificate": files.certificate,
        "tls_key": files.key,
        "tls_client_ca": files.client_ca,
        "tls_client_certificates": "required",
    }
    with GatewayProcess(folder, settings).running() as process:
        yield Demanding(process, port, websocket, files.client_ca, cert, key, stranger)


def _chain(leaf: trustme.LeafCert) -> bytes:
    return b"".join([blob.bytes() for blob in leaf.cert_chain_pems])
