"""`gateway serve` in this process: a real server on unix sockets, ended by a real signal."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.typing import EventDict

from gateway.cli import serve
from gateway.config.settings import Settings, load
from gateway.observe import logs
from gateway.runtime.gateway import StartError

DEADLINE = 20.0


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EventDict]]:
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture(autouse=True)
def _late_signals_do_no_harm() -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    http = [f"unix:{tmp_path}/http", "127.0.0.1:0"]
    return load(tcp=[f"unix:{tmp_path}/tcp"], websocket=[f"unix:{tmp_path}/ws"], http=http)


class Client(threading.Thread):
    """Waits until HTTP answers, and sends the signal; also when no answer comes, so that the test ends."""

    def __init__(self, folder: Path, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self._path = folder / "http"
        self._number = number
        self.status = 0
        self.over = threading.Event()

    def run(self) -> None:
        deadline = time.monotonic() + DEADLINE
        while not self.status and time.monotonic() < deadline and not self.over.wait(0.01):
            with suppress(OSError):
                self.status = get(self._path, "/readyz")
        if not self.over.is_set():
            os.kill(os.getpid(), self._number)


def get(path: Path, url: str) -> int:
    with closing(http.client.HTTPConnection("localhost")) as connection, socket.socket(socket.AF_UNIX) as sock:
        connection.sock = sock
        sock.settimeout(DEADLINE)
        sock.connect(str(path))
        connection.request("GET", url)
        with connection.getresponse() as response:
            response.read()
            assert response.getheader("server") is None
            return response.status


def run(settings: Settings, client: Client) -> int:
    client.start()
    try:
        return serve.run(settings)
    finally:
        client.over.set()
        client.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_the_signal(
    settings: Settings, tmp_path: Path, logged: list[EventDict], number: signal.Signals
) -> None:
    client = Client(tmp_path, number=number)
    assert run(settings, client) == 0
    assert client.status == 200
    assert list(tmp_path.iterdir()) == [], "the sockets' files are gone"
    assert {"event": "draining", "signal": number.name, "log_level": "info"} in logged


def test_an_http_server_that_fails(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, logged: list[EventDict]
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(serve, "serve_http", fail)
    assert serve.run(settings) == 70
    assert [line["event"] for line in logged if line["log_level"] == "error"] == ["the HTTP server failed"]


@pytest.mark.parametrize("setting", ["http", "tcp"])
def test_a_port_that_is_taken(tmp_path: Path, setting: str) -> None:
    free = {"tcp": [f"unix:{tmp_path / 'tcp'}"], "websocket": [f"unix:{tmp_path / 'ws'}"], "http": ["127.0.0.1:0"]}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError) as refusal:
            serve.run(load(**free | {setting: [address]}))
    assert address in str(refusal.value)
    assert f"GATEWAY_{setting.upper()}" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []
