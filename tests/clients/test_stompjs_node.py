"""@stomp/stompjs in node, straight to the WebSocket listener, in every version that it speaks (scenarios.mjs)."""

from __future__ import annotations

import pytest

from tests.clients.driver import Driver
from tests.clients.forwarder import Forwarder
from tests.gateway_process import HOST

SCENARIOS = ["pubsub", "binary", "utf8", "receipts", "redelivery", "transaction", "large", "reconnect"]
CASES = [(scenario, version) for version in (None, "1.2", "1.1", "1.0") for scenario in SCENARIOS]
CASES += [("heartbeat", None), ("heartbeat", "1.1")]


@pytest.mark.parametrize(("scenario", "version"), CASES, ids=lambda value: value or "default")
def test_stompjs_in_node(scenario: str, version: str | None, node: Driver, ws_relay: Forwarder, name: str) -> None:
    node.run(
        scenario,
        {"cut": ws_relay.cut, "freeze": ws_relay.freeze},
        url=f"ws://{HOST}:{ws_relay.port}/ws",
        version=version,
        name=name,
    )
