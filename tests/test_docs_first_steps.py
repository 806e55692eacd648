"""docs/first-steps.md, done step by step: its commands in a shell, its files, and its restarts.

A block of `console` is a shell's: lines that begin with "$ " are typed, the others are what is shown.  There `...`
stands for anything.  A block of `toml` is gateway.toml from then on, and the gateway is started again; a kill is one.
Only the ports are this test's own.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from pathlib import Path

from tests.gateway_process import HOST, GatewayProcess

PAGE = Path(__file__).parent.parent / "docs" / "first-steps.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DONE = "-- done --"
PATIENCE = 20
"""Seconds that a command may show nothing."""


class Shell:
    """One shell for the whole page, as a reader has it: what is exported stays."""

    def __init__(self, folder: Path, gateway: GatewayProcess) -> None:
        self._ports = {"61613": gateway.tcp_port, "15674": gateway.ws_port, "8000": gateway.http_port}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "STOMP_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        own = {"PATH": path, "STOMP_URL": f"stomp://{HOST}:{gateway.tcp_port}", "COLUMNS": "100"}
        own["GATEWAY_HTTP"] = f"{HOST}:{gateway.http_port}"  # for `top`
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**kept, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )

    def type(self, command: str) -> str:
        """Run a command; all that it shows."""
        for port, own in self._ports.items():
            command = command.replace(f":{port}", f":{own}")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho '{DONE}'\n".encode())
        shown = b""
        while not shown.endswith(f"{DONE}\n".encode()):
            assert select.select([self._process.stdout], [], [], PATIENCE)[0], f"$ {command}\n{shown.decode()}"
            shown += os.read(self._process.stdout.fileno(), 65_536)
        return shown.decode().removesuffix(f"{DONE}\n")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def steps() -> list[tuple[str, str]]:
    """The page's blocks, in order: kind and text."""
    return [(found[1], found[2]) for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def typed(block: str) -> list[tuple[str, str]]:
    """Commands of a console, and what each shows."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def matches(shown: str, expected: str) -> bool:
    words = [re.escape(" ".join(part.split())).replace(r"\ ", r"\s+") for part in expected.split("...")]
    return re.fullmatch(r"\s*" + r"(?:.|\s)*?".join([rf"\s*{word}\s*" for word in words]) + r"\s*", shown) is not None


def test_step_by_step(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, {})
    gateway.start()
    shell = Shell(tmp_path, gateway)
    commands = 0
    try:
        for kind, block in steps():
            if kind == "toml":
                (tmp_path / "gateway.toml").write_text(block)
                gateway.restart()
            elif "pkill" in block:
                gateway.kill()
                gateway.start()
            elif kind == "console":
                for command, expected in typed(block):
                    shown = shell.type(command)
                    assert matches(shown, expected), f"$ {command}\n{shown}\nis not\n{expected}"
                    commands += 1
        assert commands > 15
    finally:
        shell.end()
        gateway.kill()


def test_what_matches() -> None:
    assert matches("one two\n", "one two\n")
    assert matches("one  two three\n", "one ... three")
    assert not matches("one two", "one")
    assert not matches("", "one")
    assert matches("", "")
