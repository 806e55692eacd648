"""The units in deploy/, and the section of docs/operations.md that installs them: what they name is there."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gateway.cli.main import main
from gateway.cli.serve import SHUTDOWN_MARGIN
from gateway.config.settings import Settings
from gateway.runtime.gateway import LONGEST_WRITE
from tests.app.process import SERVE, connect, server
from tests.clients.driver import ROOT, tool
from tests.cluster.servers import program

DEPLOY = ROOT / "deploy"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.socket"), *DEPLOY.glob("*.timer")])
UNIT = ROOT / "deploy" / "stomp-gateway.service"
PAGE = (ROOT / "docs" / "operations.md").read_text()
INSTALL = PAGE[PAGE.index("\n## Install for production") : PAGE.index("\n## TLS")]
"""The section alone."""

# PR_SET_NO_NEW_PRIVS, and PR_SET_MDWE (which kernels before 6.3 do not know), as the unit has it.
BOUND = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
libc.prctl(65, 1, 0, 0, 0)
os.umask(0o077)
os.execv(sys.argv[1], sys.argv[1:])
"""


def unit(path: Path = UNIT) -> dict[str, str]:
    """The unit's keys, each of which it has once; but for the filter, which takes what another line gave."""
    lines = [line for line in path.read_text().splitlines() if line and line[0] not in "#["]
    pairs = [line.split("=", 1) for line in lines]
    keys = dict(pair for pair in pairs if pair[0] != "SystemCallFilter")
    assert len(keys) == len([key for key, _ in pairs if key != "SystemCallFilter"]), "a key stands there twice"
    return keys


def test_the_life_of_the_service() -> None:
    keys = unit()
    assert re.search(rf"^    useradd .* {keys['User']}$", INSTALL, re.MULTILINE)
    assert f"runuser -u {keys['User']} -- {keys['ExecStart'].split()[0]} passwd" in INSTALL
    assert keys["Restart"] == "on-failure"
    starts, seconds = int(keys["StartLimitBurst"]), int(keys["StartLimitIntervalSec"])
    assert starts * int(keys["RestartSec"]) < seconds, "or it would never give up"
    longest = Settings.model_fields["drain_timeout"].default + LONGEST_WRITE + SHUTDOWN_MARGIN
    assert int(keys["TimeoutStopSec"]) > longest, "there is time to drain"
    assert (keys["KillMode"], keys["Type"], keys["ExecReload"]) == ("mixed", "notify", "/bin/kill -HUP $MAINPID")
    assert int(keys["WatchdogSec"]) > 0


class TestSystemd:
    """What systemd itself says of the units."""

    @pytest.fixture
    def placed(self, tmp_path: Path) -> list[str]:
        """Copies whose command is there: systemd wants to see it."""
        for path in UNITS:
            text = path.read_text().replace("/opt/stomp-gateway/bin/gateway", sys.executable)
            text = text.replace("/usr/local/bin/nats-server", program())
            (tmp_path / path.name).write_text(text)
        return [str(tmp_path / path.name) for path in UNITS]

    def test_it_understands_them(self, placed: list[str]) -> None:
        run = subprocess.run([tool("systemd-analyze"), "verify", *placed], capture_output=True, text=True, timeout=60)
        assert (run.returncode, run.stderr) == (0, "")

    @pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.stem)
    def test_they_may_do_little(self, path: Path) -> None:
        """Of ten points; 2 is what systemd calls safe, or nearly so."""
        command = [tool("systemd-analyze"), "security", "--offline=true", "--threshold=15", str(path)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stdout
        text = path.read_text()
        assert "ProcSubset" not in text, "the Prometheus client finds in /proc/stat when the process began"
        assert "ProtectProc=invisible" in text, "what other processes do is hidden all the same"

    def test_what_it_may_not_do_it_does_not_need(self, tmp_path: Path) -> None:
        """A start without new rights, without memory that is written and executed, with files for itself alone."""
        command = [sys.executable, "-c", BOUND, *SERVE]
        with server(command, tmp_path, store=f"sqlite:{tmp_path}/store.db") as running:
            connect(running.tcp_port()).close()
            assert running.get("/readyz")[0] == 200
            running.process.terminate()
            assert running.wait() == 0
        assert stat.S_IMODE((tmp_path / "store.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["tcp", "websocket", "http"])
def test_sockets(name: str) -> None:
    """Each stands for the setting that it is called like, and listens where that does by default."""
    path = DEPLOY / f"stomp-gateway-{name}.socket"
    keys = unit(path)
    assert keys["FileDescriptorName"] == name
    assert keys["Service"] == UNIT.name
    assert [keys["ListenStream"]] == Settings.model_fields[name].default
    assert f'{name} = ["systemd:{name}"]' in path.read_text()


@pytest.mark.parametrize("name", ["stomp-gateway-archive.service", "stomp-gateway-compact.service"])
def test_what_becomes_of_the_journal_is_the_same_service(name: str) -> None:
    """As for the files: it reads what the gateway writes."""
    keys = unit(DEPLOY / name)
    path, *arguments = keys["ExecStart"].split()
    assert path == unit()["ExecStart"].split()[0]
    command: click.Command | None = main
    for word in arguments:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    assert not isinstance(command, click.Group)
    same = "User Environment WorkingDirectory StateDirectory StateDirectoryMode ProtectSystem UMask".split()
    assert {key: keys[key] for key in same} == {key: unit()[key] for key in same}
