"""docs/presence.md: its programs run as they stand, but for the ports."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.model.access import Action
from gateway.client import Client
from gateway.client.server import StompServer
from gateway.config.rules import read_tables
from tests.clients.driver import ROOT
from tests.docs.page import blocks
from tests.gateway_process import HOST, GatewayProcess

POLICY, PROGRAM, PAGE, RULES = blocks("docs/presence.md")
SHOWING = """
import * as Stomp from "@stomp/stompjs";
import { WebSocket } from "ws";
import { GatewayClient } from "./client/index.js";
import { watch } from "./watch.mjs";
globalThis.WebSocket = WebSocket;
const gateway = new GatewayClient(new Stomp.Client({ brokerURL: process.argv[2] }));
watch(gateway, "/topic/room.8", (users) => console.log(JSON.stringify(users.map((user) => user.id))));
gateway.activate();
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("presence")
    (folder / "gateway.toml").write_text(POLICY.text)
    with GatewayProcess(folder, {}).running() as process:
        yield process


def started(*command: str | Path, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_program(gateway: GatewayProcess, tmp_path: Path) -> None:
    file = tmp_path / "who.py"
    file.write_text(PROGRAM.text.replace("61613", str(gateway.tcp_port)))
    with started(sys.executable, "-u", file, cwd=tmp_path) as process:
        seen = [line_of(process)]
        while "leave" not in seen[-1]:
            assert seen[-1], seen
            seen.append(line_of(process))
        process.kill()
    # Another test may have used presence before, and the gateway has settled.
    assert [each.split()[0] for each in seen[-3:]] == ["list", "join", "leave"]
    assert "'info': 'Ada Lovelace', 'sessions': 1," in seen[-2]


def test_the_page(gateway: GatewayProcess, tmp_path: Path) -> None:
    (tmp_path / "watch.mjs").write_text(PAGE.text)
    (tmp_path / "show.mjs").write_text(SHOWING)
    (tmp_path / "client").symlink_to(ROOT / "static" / "client")
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    with started("node", "show.mjs", gateway.ws_url, cwd=tmp_path) as process:
        shown: list[Any] = [json.loads(line_of(process))]
        client = Client(StompServer(HOST, gateway.tcp_port, login="ada"))
        client.request("SUBSCRIBE", {"id": "0", "destination": "/topic/room.8"})
        while not shown[-1]:
            shown.append(json.loads(line_of(process)))
        client.close()
        while shown[-1]:
            shown.append(json.loads(line_of(process)))
        process.kill()
    assert ["user:ada"] in shown


def test_the_rules() -> None:
    (rule,) = read_tables(tomllib.loads(RULES.text)["rule"])
    assert rule.actions == {Action.SEND, Action.SUBSCRIBE, Action.PRESENCE}
