"""The files of gateway push in deploy/: a unit like that of the relay, and a Compose file beside the gateway's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml

from gateway.cli.main import main
from gateway.push.running import LAST_WORDS
from tests.clients.driver import ROOT

from .test_container import BIN, checked
from .test_units import unit

DEPLOY = ROOT / "deploy"
UNIT, RELAY = DEPLOY / "stomp-gateway-push.service", DEPLOY / "stomp-gateway-relay.service"
COMPOSE = DEPLOY / "compose-push.yaml"


def test_the_unit() -> None:
    keys, relay = unit(UNIT), unit(RELAY)
    program, *words = keys["ExecStart"].split()
    assert program == relay["ExecStart"].split()[0]
    command = main.get_command(click.Context(main), words[0])
    assert command is not None
    assert "--config" in {option for each in command.params for option in each.opts}
    assert int(keys["TimeoutStopSec"]) > LAST_WORDS
    differ = {name for name in keys.keys() | relay.keys() if keys.get(name) != relay.get(name)}
    assert differ == {"Description", "ExecStart", "TimeoutStopSec"}


def test_compose() -> None:
    checked(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE))
    ours, theirs = _read(COMPOSE), _read(DEPLOY / "compose.yaml")
    assert ours["name"] == theirs["name"]
    push, gateway = ours["services"]["push"], theirs["services"]["gateway"]
    assert push["image"] == gateway["image"]
    assert push["networks"].keys() <= theirs["networks"].keys()
    assert f"stomp://push@{gateway['networks']['inside']['ipv4_address']}:61613" in COMPOSE.read_text()
    assert int(push["stop_grace_period"].removesuffix("s")) > LAST_WORDS
    assert push["command"][:2] == ["push", "--config"]


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found
