"""@stomp/stompjs in headless Chromium, in the demo page, through a real nginx that runs deploy/nginx.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.driver import Driver
from tests.clients.forwarder import Forwarder
from tests.clients.nginx import start_nginx
from tests.clients.test_stompjs_node import SCENARIOS
from tests.gateway_process import HOST, GatewayProcess, start_gateway

WRONG = {"destination": "/queue/", "message": "destination without a name"}


@pytest.mark.parametrize("scenario", [*SCENARIOS, "heartbeat"])
def test_stompjs_in_chromium(scenario: str, chromium: Driver, nginx: int, ws_relay: Forwarder, name: str) -> None:
    chromium.run(
        scenario,
        {"cut": ws_relay.cut, "freeze": ws_relay.freeze},
        origin=f"http://{HOST}:{nginx}/",
        url=f"ws://{HOST}:{nginx}/ws",
        version=None,
        name=name,
    )


def test_the_demo_page_behind_nginx(chromium: Driver) -> None:
    with start_gateway() as gateway, start_nginx(gateway.ws_port, gateway.http_port) as port:
        chromium.run(
            "walk",
            {"stop": gateway.stop, "start": gateway.start},
            origin=f"http://{HOST}:{port}/",
            address=f"ws://{HOST}:{port}/ws",
            wrong=WRONG,
        )


def test_logging_in_on_the_demo_page(chromium: Driver, users: Path) -> None:
    with start_gateway(users_file=users) as gateway:
        chromium.run("login", origin=f"{gateway.http_url}/", login="ada", passcode="engine", refusal="login refused")


def test_the_demo_page_without_its_library(chromium: Driver, gateway: GatewayProcess) -> None:
    chromium.run("incomplete", origin=f"{gateway.http_url}/")
