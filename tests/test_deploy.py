"""The units in deploy/, and the section of docs/operations.md that installs it: what they name is there.

Whether systemd understands the unit is for `systemd-analyze verify` to say, by hand: not every machine has it.  What
the gateway does when it is started and stopped like that is in tests/app.
"""

from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from gateway.cli import main
from gateway.runtime import _LONGEST_WRITE
from gateway.serve import SHUTDOWN_MARGIN
from gateway.settings import Settings, load

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "deploy" / "stomp-gateway.service"
PAGE = (ROOT / "docs" / "operations.md").read_text()
INSTALL = PAGE[PAGE.index("\n## Install for production") : PAGE.index("\n## TLS")]
"""The section alone."""


def unit(path: Path = UNIT) -> dict[str, str]:
    """The unit's keys, each of which it has once."""
    lines = [line for line in path.read_text().splitlines() if line and line[0] not in "#["]
    keys = dict(line.split("=", 1) for line in lines)
    assert len(keys) == len(lines), "a key stands there twice"
    return keys


def test_the_command_is_there() -> None:
    path, *arguments = unit()["ExecStart"].split()
    (command,) = entry_points(group="console_scripts", name=Path(path).name)
    assert command.load() is main
    assert [each in main.commands for each in arguments] == [True]
    assert f"python3 -m venv {Path(path).parent.parent}\n" in INSTALL, "the page makes that environment"


def test_every_variable_is_a_setting() -> None:
    names = re.findall(r"GATEWAY_(\w+)=", UNIT.read_text() + INSTALL)
    assert "CONFIG" in names
    assert {name.lower() for name in names} <= {"config", *Settings.model_fields}


def test_the_settings_file_is_where_the_page_puts_it() -> None:
    file = unit()["Environment"].removeprefix("GATEWAY_CONFIG=")
    assert f" gateway.toml {file}\n" in INSTALL
    assert unit()["WorkingDirectory"] == str(Path(file).parent)


def test_the_settings_of_the_page_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", INSTALL, re.DOTALL | re.MULTILINE)
    for name in [each for each in os.environ if each.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    Path("gateway.toml").write_text(shown)
    settings = load()
    assert settings.model_fields_set == tomllib.loads(shown).keys()
    assert settings.users_file is not None
    assert settings.users_file.parent == Path("/var/lib", unit()["StateDirectory"])
    assert Path(settings.store.removeprefix("sqlite:")).parent == settings.users_file.parent
    assert f"cd {settings.users_file.parent}\n" in INSTALL, "`gateway passwd` writes it there"


def test_the_user_is_the_one_that_the_page_adds() -> None:
    user = unit()["User"]
    assert re.search(rf"^    useradd .* {user}$", INSTALL, re.MULTILINE)
    assert f"runuser -u {user} -- {unit()['ExecStart'].split()[0]} passwd" in INSTALL


def test_it_is_started_again_after_a_failure_only() -> None:
    assert unit()["Restart"] == "on-failure"
    starts, seconds = int(unit()["StartLimitBurst"]), int(unit()["StartLimitIntervalSec"])
    assert starts * int(unit()["RestartSec"]) < seconds, "or it would never give up"


def test_there_is_time_to_drain() -> None:
    assert unit()["KillMode"] == "mixed"
    longest = Settings.model_fields["drain_timeout"].default + _LONGEST_WRITE + SHUTDOWN_MARGIN
    assert int(unit()["TimeoutStopSec"]) > longest


class TestNginx:
    """What `tests/clients` does not see, for nginx on loopback lets itself in everywhere."""

    TEXT = (ROOT / "deploy" / "nginx.conf").read_text()

    def test_tickets_are_for_everybody(self) -> None:
        (block,) = re.findall(r"location = /api/v1/tickets \{(.*?)\}", self.TEXT, re.DOTALL)
        assert block.split() == ["proxy_pass", "http://gateway_http;"]

    def test_a_clients_own_word_on_who_it_is_does_not_pass(self) -> None:
        """A block that sets a header inherits none."""
        assert self.TEXT.count("proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;") == 2
        assert self.TEXT.count('proxy_set_header Forwarded "";') == 2

    def test_it_names_the_setting_that_believes_it(self) -> None:
        (shown,) = re.findall(r"#   trusted_proxies = (\S+)", self.TEXT)
        assert Settings.model_validate(tomllib.loads(f"trusted_proxies = {shown}")).trusted_proxies == ["127.0.0.1"]


@pytest.mark.parametrize("name", ["stomp-gateway-archive.service", "stomp-gateway-compact.service"])
class TestBeside:
    """What becomes of the journal."""

    def test_the_command_is_there(self, name: str) -> None:
        path, *arguments = unit(ROOT / "deploy" / name)["ExecStart"].split()
        assert path == unit()["ExecStart"].split()[0]
        command: click.Command | None = main
        for word in arguments:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word)
        assert command is not None
        assert not isinstance(command, click.Group)

    def test_it_is_the_same_service(self, name: str) -> None:
        """As for the files: it reads what the gateway writes."""
        same = ("User", "Environment", "WorkingDirectory", "StateDirectory", "StateDirectoryMode", "ProtectSystem")
        assert {key: unit(ROOT / "deploy" / name)[key] for key in same} == {key: unit()[key] for key in same}


def test_the_page_installs_what_is_beside() -> None:
    installed = re.findall(r"^    install -m 644 (.*) /etc/systemd/system/$", INSTALL, re.MULTILINE)
    units = {f"deploy/{path.name}" for path in (ROOT / "deploy").glob("stomp-gateway*")}
    assert set(" ".join(installed).split()) == units
    assert "systemctl enable --now stomp-gateway-archive stomp-gateway-compact.timer\n" in INSTALL
    for name in ("journal", "archive", "tables"):
        assert f'    {name} = "/var/lib/{unit()["StateDirectory"]}/{name}"\n' in INSTALL
        assert name in Settings.model_fields
