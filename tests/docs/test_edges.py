"""docs/edges.md: its settings, as they stand, are settings of a gateway."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gateway.config.settings import Settings
from tests.docs.machine import ADDRESS, Machine
from tests.docs.page import blocks, listed
from tests.edges.operating import edges
from tests.gateway_process import GatewayProcess

PAGE = "docs/edges.md"
SETTINGS = [each for each in blocks(PAGE) if each.kind == "toml"]


def test_turning_them_on(tmp_path: Path) -> None:
    (first,) = [each for each in SETTINGS if each.title == "Turning them on"]
    (tmp_path / "gateway.toml").write_text(first.text)
    with GatewayProcess(tmp_path, {}).running() as gateway:
        assert len(edges(gateway)) == 2


@pytest.mark.parametrize("block", SETTINGS, ids=lambda block: block.file)
def test_settings(block: object) -> None:
    assert Settings(**tomllib.loads(block.text))  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.slow
def test_other_machines(machine: Machine) -> None:
    machine.run(f"echo '{ADDRESS} primary.example.org' >> /etc/hosts")
    for block in blocks(PAGE):
        if block.title == "Other machines" and block.kind == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                machine.run(line)
        elif block.title == "Other machines":
            assert block.file is not None
            machine.write(block.file, block.text)
    primary, edge = listed(PAGE, "Other machines")
    machine.serve(f"GATEWAY_TCP=127.0.0.1:61614 {primary}")
    machine.run(f"GATEWAY_WEBSOCKET= GATEWAY_HTTP=127.0.0.1:8001 {edge} > edge.log 2>&1 & edge=$!")
    machine.run("timeout 30 bash -c 'until curl -fs -o ready http://127.0.0.1:8001/readyz; do sleep 0.05; done'")
    machine.run("export STOMP_PASSCODE=wonderland; gateway send /queue/work tea --url stomp://alice@127.0.0.1:61613")
    assert machine.run("gateway subscribe /queue/work --count 1 --url stomp://127.0.0.1:61614").endswith("tea\n")
    assert "edge=edge-1" in machine.run("cat gateway.log") or '"edge": "edge-1"' in machine.run("cat gateway.log")
    machine.run("kill -TERM $edge; wait $edge")
