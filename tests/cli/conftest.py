"""One gateway for all tests of the commands, a name for each, and the commands as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway_process import HOST, GatewayProcess
from tests.shared import gateway, name

__all__ = ["gateway", "name"]


@pytest.fixture
def queue(name: str) -> str:
    """A queue that no other test has."""
    return f"/queue/{name}"


class Terminal:
    """Runs `gateway` as somebody at a terminal would."""

    def __init__(self, url: str, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "STOMP_"))}
        self.environment = {**kept, "STOMP_URL": url}
        self.folder = folder

    def start(self, *words: str, **options: object) -> subprocess.Popen[bytes]:
        """Start `gateway WORDS`; all three streams are pipes, unless told otherwise."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            [sys.executable, "-m", "gateway", *words], env=self.environment, cwd=self.folder, **{**pipes, **options}
        )

    def run(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """Run it to its end; status, standard output, standard error."""
        with self.start(*words) as process:
            out, err = process.communicate(stdin, timeout=30)
        return process.returncode, out, err.decode()


@pytest.fixture
def terminal(gateway: GatewayProcess, tmp_path: Path) -> Terminal:
    """A terminal where STOMP_URL names the gateway."""
    return Terminal(f"stomp://{HOST}:{gateway.tcp_port}", tmp_path)
