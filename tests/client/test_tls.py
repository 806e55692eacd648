"""TLS: files that cannot be used, and servers that want to see a certificate."""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.client import Client, ConnectionLost, StompServer
from gateway.client import blocking as module
from gateway.client.errors import CertificateRefused
from gateway.client.server import FileError, context_of
from tests.demanding import Demanding, demanding
from tests.gateway_process import HOST
from tests.transports import tls_files


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demanding]:
    with demanding(tmp_path_factory.mktemp("demanding")) as found:
        yield found


def test_nothing_is_shown(there: Demanding) -> None:
    with pytest.raises(CertificateRefused) as told:
        Client(replace(there.server, cert="", key=""))
    place = f"{HOST}:{there.port}"
    assert str(told.value) == (
        f"cannot connect to {place}: it demands a client certificate, and none was shown (cert, key)"
    )


def test_an_authority_that_the_system_does_not_know(there: Demanding) -> None:
    with pytest.raises(ConnectionLost, match="the system does not vouch for its certificate: "):
        Client(replace(there.server, ca=""))


def test_the_alert_is_read_though_nothing_can_be_written(there: Demanding, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has closed before CONNECT is there."""
    dial = module._dial

    def slow(where: StompServer) -> socket.socket:
        found = dial(where)
        for sign in (select.POLLRDHUP, 0):  # the server has closed; and it has said so to who writes there
            waiting = select.poll()
            waiting.register(found, sign)
            waiting.poll(10_000)
            with suppress(OSError):
                found.send(b"\n")
        return found

    monkeypatch.setattr(module, "_dial", slow)
    with pytest.raises(CertificateRefused, match="it demands a client certificate, and none was shown"):
        Client(replace(there.server, cert="", key=""))


@contextmanager
def old_server() -> Iterator[StompServer]:
    """One that speaks TLS 1.2 and demands a certificate."""
    context = tls_files.client_demanding()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    listener = socket.create_server((HOST, 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection, suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield StompServer(HOST, int(listener.getsockname()[1]), tls=True)
    finally:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("is_shown", "words"),
    [
        (False, r"it refuses the TLS handshake, perhaps for it demands a client certificate \(cert, key\)"),
        (True, "it does not take the certificate in .*: tlsv1 alert unknown ca"),
    ],
)
def test_tls_1_2(there: Demanding, is_shown: bool, words: str) -> None:
    with old_server() as where, pytest.raises(ConnectionLost, match=words):
        Client(replace(where, ca=str(there.ca), cert=str(there.stranger) if is_shown else ""))


def test_a_server_that_closes_without_a_word(there: Demanding, tmp_path: Path) -> None:
    """nginx does so where it demands one and gets none."""

    def serve() -> None:
        with listener, tls_files.of_server().wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.recv(65_536)

    listener = socket.create_server((HOST, 0))
    thread = threading.Thread(target=serve)
    thread.start()
    where = StompServer(HOST, int(listener.getsockname()[1]), tls=True, ca=str(there.ca))
    with pytest.raises(
        ConnectionLost, match="does it expect a client certificate, another protocol, or a PROXY header"
    ):
        Client(where)
    thread.join(10)


class TestFiles:
    @pytest.mark.parametrize(
        ("files", "sentence"),
        [
            (("/no/such.pem", "cert", "key"), r"/no/such\.pem cannot be read: No such file or directory$"),
            (("key", "", ""), "cannot be used: it has no certificate in PEM"),
            (("", "", "key"), "needs its certificate"),
            (("", "cert", ""), r"client\.pem has no certificate with its key in PEM; the key may have a"),
            (("", "key", "key"), r"client\.key and .*client\.key have no certificate with its key in PEM$"),
            (("", "stranger", "key"), r"client\.key is not that of the certificate in .*stranger\.pem"),
        ],
    )
    def test_what_is_wrong(self, there: Demanding, files: tuple[str, ...], sentence: str) -> None:
        with pytest.raises(FileError, match=sentence):
            context_of(*[str(getattr(there, each, each)) for each in files])

    def test_a_passphrase(self, there: Demanding, tmp_path: Path) -> None:
        """The terminal is not asked."""
        locked = tmp_path / "locked.key"
        command = ["openssl", "pkey", "-aes256", "-passout", "pass:planted", "-in", str(there.key), "-out", str(locked)]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        with pytest.raises(FileError, match=r"the key in .*locked\.key has a passphrase: give one without"):
            context_of(cert=str(there.cert), key=str(locked))
