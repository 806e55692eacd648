"""@stomp/stompjs: in node, straight to the WebSocket listener, in every version that it speaks (scenarios.mjs); in the
demo page, in headless Chromium, through a real nginx that runs deploy/nginx.conf."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.driver import Driver
from tests.clients.forwarder import Forwarder
from tests.clients.nginx import start_nginx
from tests.gateway_process import HOST, GatewayProcess, start_gateway

SCENARIOS = ["pubsub", "binary", "utf8", "receipts", "redelivery", "transaction", "large", "reconnect"]
CASES = [(scenario, version) for version in (None, "1.2", "1.1", "1.0") for scenario in SCENARIOS]
CASES += [("heartbeat", None), ("heartbeat", "1.1")]


@pytest.mark.parametrize(("scenario", "version"), CASES, ids=lambda value: value or "default")
def test_in_node(scenario: str, version: str | None, node: Driver, ws_relay: Forwarder, name: str) -> None:
    node.run(
        scenario,
        {"cut": ws_relay.cut, "freeze": ws_relay.freeze},
        url=f"ws://{HOST}:{ws_relay.port}/ws",
        version=version,
        name=name,
    )


@pytest.mark.parametrize("scenario", [*SCENARIOS, "heartbeat"])
def test_in_chromium(scenario: str, chromium: Driver, nginx: int, ws_relay: Forwarder, name: str) -> None:
    chromium.run(
        scenario,
        {"cut": ws_relay.cut, "freeze": ws_relay.freeze},
        origin=f"http://{HOST}:{nginx}/",
        url=f"ws://{HOST}:{nginx}/ws",
        version=None,
        name=name,
    )


@pytest.mark.long
def test_the_demo_page_behind_nginx(chromium: Driver) -> None:
    """The program that it shows finds the same gateway, and does the same."""
    with start_gateway() as gateway, start_nginx(gateway.ws_port, gateway.http_port) as port:
        origin = f"http://{HOST}:{port}/"
        program = chromium.run(
            "walk",
            {"stop": gateway.stop, "start": gateway.start},
            origin=origin,
            wrong={"destination": "/queue/", "message": "destination without a name"},
        )
        assert f'"ws://{HOST}:{port}/ws"' in program
        assert len([line for line in program.splitlines() if line]) == 10
        said = chromium.run("example", origin=origin, source=program, context={"bypassCSP": True})
        assert re.fullmatch(r"5[01]\.\d\d", said)


def test_logging_in_on_the_demo_page(chromium: Driver, users: Path) -> None:
    with start_gateway(users_file=users) as gateway:
        chromium.run("login", origin=f"{gateway.http_url}/", login="ada", passcode="engine", refusal="login refused")


@pytest.mark.parametrize("action", ["send", "subscribe"])
def test_the_demo_page_where_a_rule_forbids_its_topic(chromium: Driver, tmp_path: Path, action: str) -> None:
    rules = f'[[rule]]\ndestination = "/topic/demo"\ndeny = ["{action}"]\n'
    (tmp_path / "gateway.toml").write_text(f'{rules}[[rule]]\ndestination = "**"\nallow = ["send", "subscribe"]\n')
    with GatewayProcess(tmp_path, {}).running() as gateway:
        chromium.run("forbidden", origin=f"{gateway.http_url}/", message="/topic/demo")


def test_the_demo_page_without_its_library(chromium: Driver, gateway: GatewayProcess) -> None:
    chromium.run("incomplete", origin=f"{gateway.http_url}/")
