"""`gateway serve` that fails, in this process; `tests/app/test_processes.py` has the one that serves."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.cli import serve
from gateway.config.settings import load
from gateway.observe import logs
from gateway.runtime.gateway import StartError


@pytest.fixture
def free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    return {"tcp": [f"unix:{tmp_path / 'tcp'}"], "websocket": [f"unix:{tmp_path / 'ws'}"], "http": ["127.0.0.1:0"]}


def test_an_http_server_that_fails(free: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(serve, "serve_http", fail)
    with structlog.testing.capture_logs() as logged:
        assert serve.run(load(**free)) == 70
    assert [line["event"] for line in logged if line["log_level"] == "error"] == ["the HTTP server failed"]


@pytest.mark.parametrize("setting", ["http", "tcp"])
def test_a_port_that_is_taken(free: dict[str, list[str]], tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError) as refusal:
            serve.run(load(**free | {setting: [address]}))
    assert address in str(refusal.value)
    assert f"GATEWAY_{setting.upper()}" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []
