"""A real nginx on loopback, running the project's own deploy/nginx.conf, with the files beside it where wanted.

Only the words that differ between machines are replaced; a word that is no longer in its file fails the test.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clients.driver import ROOT, tool
from tests.gateway_process import HOST, free_ports
from tests.transports import tls_files

DEPLOY = ROOT / "deploy"
CONFIGURATION = DEPLOY / "nginx.conf"
START_TIMEOUT = 10.0


@dataclass(frozen=True)
class Public:
    """The ports of an nginx with TLS."""

    http: int  # leads to `https`
    https: int  # pages and WebSockets
    stomp: int  # STOMP over TCP with TLS
    authority: Path  # file of the authority that vouches for 127.0.0.1, in PEM

    @property
    def url(self) -> str:
        """Where pages are, without a slash at the end."""
        return f"https://{HOST}:{self.https}"

    @property
    def trust(self) -> ssl.SSLContext:
        """Of clients that know the authority."""
        return tls_files.of_clients()


def replaced(path: Path, words: Mapping[str, str]) -> str:
    """The text of a file of deploy/, with other words in it."""
    text = path.read_text()
    for word, replacement in words.items():
        assert word in text, f"{path.name} no longer has {word!r}"
        text = text.replace(word, replacement)
    return text


def configuration(folder: Path, port: int, ws_port: int, http_port: int) -> str:
    """deploy/nginx.conf for these ports, with nginx's own places below `folder`."""
    words = {
        "listen 80;": f"listen {HOST}:{port};",
        "server 127.0.0.1:15674;": f"server {HOST}:{ws_port};",
        "server 127.0.0.1:8000;": f"server {HOST}:{http_port};",
        "/run/nginx.pid": f"{folder}/nginx.pid",
        "/var/log/nginx": f"{folder}",
        "/var/lib/nginx": f"{folder}",
        "/etc/nginx/stomp-gateway": f"{folder}",
    }
    return replaced(CONFIGURATION, words)


def write_beside(folder: Path, https: int, stomp: int, tcp_port: int) -> None:
    """The files for TLS, and a certificate."""
    files = tls_files.write(folder)
    pair = {"/etc/ssl/broker.pem": str(files.certificate), "/etc/ssl/private/broker.key": str(files.key)}
    pages = pair | {"listen 443 ssl;": f"listen {HOST}:{https} ssl;", "https://$host": f"https://$host:{https}"}
    (folder / "tls.conf").write_text(replaced(DEPLOY / "nginx-tls.conf", pages))
    workers = pair | {
        "listen 61614 ssl;": f"listen {HOST}:{stomp} ssl;",
        "proxy_pass 127.0.0.1:61613;": f"proxy_pass {HOST}:{tcp_port};",
    }
    (folder / "stream.conf").write_text(replaced(DEPLOY / "nginx-stream.conf", workers))


@contextmanager
def start_nginx(ws_port: int, http_port: int) -> Iterator[int]:
    """nginx for the time of the block; gives its public port."""
    with tempfile.TemporaryDirectory(prefix="nginx-") as name, _start(Path(name), ws_port, http_port) as port:
        yield port


@contextmanager
def start_nginx_tls(ws_port: int, http_port: int, tcp_port: int) -> Iterator[Public]:
    """nginx with TLS for pages and for workers; the gateway has `tcp_proxy_protocol`, and trusts 127.0.0.1."""
    with tempfile.TemporaryDirectory(prefix="nginx-") as name:
        folder = Path(name)
        https, stomp = free_ports(2)
        write_beside(folder, https, stomp, tcp_port)
        with _start(folder, ws_port, http_port) as port:
            yield Public(port, https, stomp, folder / "clients.pem")


@contextmanager
def _start(folder: Path, ws_port: int, http_port: int) -> Iterator[int]:
    folder.chmod(0o755)  # started by root, nginx works as another user
    (port,) = free_ports(1)
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, port, ws_port, http_port))
    errors = folder / "error.log"
    command = [tool("nginx"), "-c", str(file), "-e", str(errors), "-g", "daemon off;"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process, errors)
        yield port
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server, in order if it does so in time."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], errors: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        status = process.poll()
        assert status is None, f"nginx ended with status {status}:\n{errors.read_text()}"
        assert time.monotonic() < deadline, f"nginx does not listen:\n{errors.read_text()}"
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
