"""The gateways that the tests of the doctor share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.scene import users
from tests.gateway_process import HOST, GatewayProcess, start_gateway


@pytest.fixture(autouse=True)
def _no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the developer, nor of the test before."""
    for name in list(os.environ):
        if name.upper().startswith("GATEWAY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_CONFIG", "")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="package")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway() as process:
        yield process


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway behind a proxy, as in docs/operations.md: with users, an admin token, and the proxy's address."""
    file = users(tmp_path_factory.mktemp("doctor"))
    with start_gateway(users_file=file, admin_token="a-token", trusted_proxies=HOST, login_delay=0) as process:
        yield process
