"""A real nginx on loopback, running the project's own deploy/nginx.conf.

Only the words that the file names as differing between machines are replaced; a word that is no longer in the
file fails the test, so that the file and this list cannot drift apart.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.driver import ROOT, tool
from tests.gateway_process import HOST, free_ports

CONFIGURATION = ROOT / "deploy" / "nginx.conf"
START_TIMEOUT = 10.0


def configuration(folder: Path, port: int, ws_port: int, http_port: int) -> str:
    """deploy/nginx.conf for these ports, with nginx's own places below `folder`."""
    text = CONFIGURATION.read_text()
    for word, replacement in {
        "listen 80;": f"listen {HOST}:{port};",
        "server 127.0.0.1:15674;": f"server {HOST}:{ws_port};",
        "server 127.0.0.1:8000;": f"server {HOST}:{http_port};",
        "/run/nginx.pid": f"{folder}/nginx.pid",
        "/var/log/nginx": f"{folder}",
        "/var/lib/nginx": f"{folder}",
    }.items():
        assert word in text, f"deploy/nginx.conf no longer has {word!r}"
        text = text.replace(word, replacement)
    return text


@contextmanager
def start_nginx(ws_port: int, http_port: int) -> Iterator[int]:
    """nginx for the time of the block; gives its public port."""
    with tempfile.TemporaryDirectory(prefix="nginx-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # started by root, nginx works as another user
        (port,) = free_ports(1)
        file = folder / "nginx.conf"
        file.write_text(configuration(folder, port, ws_port, http_port))
        errors = folder / "error.log"
        command = [tool("nginx"), "-p", name, "-c", str(file), "-e", str(errors), "-g", "daemon off;"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, process, errors)
            yield port
        finally:
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
