"""What the subscriptions of one session may cost others, and that it is given back."""

from __future__ import annotations

import pytest

from gateway.broker.allowance import MOST_BROWSERS, MOST_SELECTORS
from gateway.codec import Version

from .client import Client, Scene


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


def test_browsers_are_counted_apart(client: Client) -> None:
    """Each is a list of all that waits."""
    headers = {"browser": "true", "browser-end": "false"}
    for id in range(MOST_BROWSERS):
        client.subscribe("/queue/a", str(id), **headers)
    client.unsubscribe("0")
    client.subscribe("/queue/a", "0", **headers)
    client.subscribe("/queue/a", "x")
    client.subscribe("/queue/a", "y", **headers)
    assert client.error().headers["message"] == "too many browsers"


def test_selectors_are_bounded_together(client: Client) -> None:
    """They are asked about each message that others send."""
    selector = " OR ".join(["color = 'red'"] * 200)
    most = MOST_SELECTORS // len(selector)
    for id in range(most):
        client.subscribe("/topic/a", str(id), selector=selector)
    client.unsubscribe("0")
    client.subscribe("/topic/a", "0", selector=selector)
    client.subscribe("/topic/a", "x")
    client.subscribe("/topic/a", "y", selector=selector)
    assert client.error().headers["message"] == "too many selectors"
