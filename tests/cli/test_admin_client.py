"""The admin API behind a proxy that demands certificates of its clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.admin_client import AdminClient, NoAnswer
from tests.cli.conftest import Terminal
from tests.gateway_process import HOST
from tests.transports import tls_files


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"sessions": 7}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Proxy(HTTPServer):
    """One request; who shows no certificate gets none."""

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        return tls_files.client_demanding().wrap_socket(connection, server_side=True), address


@pytest.fixture
def url() -> Iterator[str]:
    with Proxy((HOST, 0), Page) as proxy:
        thread = threading.Thread(target=proxy.handle_request)
        thread.start()
        yield f"https://{HOST}:{proxy.server_port}"
        thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    leaf = tls_files.authority().issue_cert("operator.example")
    tls_files.authority().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    return {"ca": str(tmp_path / "ca.pem"), "cert": str(tmp_path / "both.pem")}


def test_the_right_one(url: str, files: dict[str, str]) -> None:
    source = AdminClient(url, **files)
    assert source.get("overview") == {"sessions": 7}
    source._connection.close()


def test_none(url: str, files: dict[str, str]) -> None:
    with pytest.raises(NoAnswer, match=r"does not answer: it .* client certificate"):  # its alert may be lost
        AdminClient(url, ca=files["ca"]).get("overview")


def test_a_file_that_is_none(terminal: Terminal, files: dict[str, str]) -> None:
    status, _, told = terminal.run("top", "--url", "https://localhost", "--cert", files["ca"])
    assert (status, told.count("\n")) == (1, 1)
    assert told.startswith(f"Error: {files['ca']} has no certificate with its key in PEM")
