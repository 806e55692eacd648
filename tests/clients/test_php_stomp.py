"""PHP's stomp extension (Debian's `php-stomp`) over TCP: each check of php_stomp.php in a process of its own."""

from __future__ import annotations

import subprocess

import pytest

from tests.clients.driver import HERE, JOB_TIMEOUT, tool
from tests.gateway_process import GatewayProcess

CHECKS = (
    "connect send receipt ack nack individual redelivery commit abort order large_body binary_body time_out waiting "
    "unsubscribe error"
).split()


@pytest.mark.parametrize("check", CHECKS)
def test_check(check: str, gateway: GatewayProcess, name: str) -> None:
    command = [tool("php"), str(HERE / "php_stomp.php"), str(gateway.tcp_port), check, name]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JOB_TIMEOUT)
    assert not done.returncode, f"{done.stdout}{done.stderr}"
