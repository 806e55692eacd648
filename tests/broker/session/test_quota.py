"""What the subscriptions of one session may cost others, and that it is given back."""

from __future__ import annotations

import pytest

from gateway.broker.session.subscriptions import SessionQuota
from gateway.codec import V10, Version

from ..client import Client, Scene


@pytest.fixture
def client(scene: Scene, version: Version) -> Client:
    return scene.connect(version)


def test_browsers_are_counted_apart(client: Client) -> None:
    """Each is a list of all that waits."""
    headers = {"browser": "true", "browser-end": "false"}
    for id in range(SessionQuota.MOST_BROWSERS):
        client.subscribe("/queue/a", str(id), **headers)
    client.unsubscribe("0")
    client.subscribe("/queue/a", "0", **headers)
    client.subscribe("/queue/a", "x")
    client.subscribe("/queue/a", "y", **headers)
    assert client.error().headers["message"] == "too many browsers"


def test_selectors_are_bounded_together(client: Client) -> None:
    """They are asked about each message that others send."""
    selector = " OR ".join(["color = 'red'"] * 200)
    most = SessionQuota.MOST_SELECTORS // len(selector)
    for id in range(most):
        client.subscribe("/topic/a", str(id), selector=selector)
    client.unsubscribe("0")
    client.subscribe("/topic/a", "0", selector=selector)
    client.subscribe("/topic/a", "x")
    client.subscribe("/topic/a", "y", selector=selector)
    assert client.error().headers["message"] == "too many selectors"


class TestNames:
    """Ids and destinations of subscriptions are in no account of memory."""

    @pytest.fixture(params=["/queue/a", "/topic/a"])
    def name(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
        """Three subscriptions to this may have ids of one character."""
        name: str = request.param
        monkeypatch.setattr(SessionQuota, "MOST_NAMES", 3 * (len(name) + 1))
        return name

    def test_they_are_bounded_together(self, client: Client, name: str) -> None:
        for id in "abc":
            client.subscribe(name, id)
        client.subscribe(name, "d")
        assert client.error().headers["message"] == "too long names of subscriptions"

    def test_both_count(self, client: Client, name: str) -> None:
        client.subscribe(name, "x" * (2 * len(name) + 3))
        client.subscribe(f"{name}x", "")
        assert client.error().headers["message"] == "too long names of subscriptions"

    def test_unsubscribe_gives_them_back(self, client: Client, name: str) -> None:
        for id in "abc":
            client.subscribe(name, id)
        for id in "abc" * 5:
            client.unsubscribe(id)
            client.subscribe(name, id)
        assert not client.closed

    def test_where_there_is_no_id_the_destination_counts(self, scene: Scene, name: str) -> None:
        client = scene.connect(V10)
        names = [f"{name}{number}" for number in range(4)]
        for destination in names[:3]:
            client.send("SUBSCRIBE", {"destination": destination})
        client.send("UNSUBSCRIBE", {"destination": names[0]})
        client.send("SUBSCRIBE", {"destination": names[0]})
        assert not client.closed
        client.send("SUBSCRIBE", {"destination": names[3]})
        assert client.error().headers["message"] == "too long names of subscriptions"

    def test_each_session_has_its_own(self, scene: Scene, client: Client, name: str) -> None:
        other = scene.connect(client.version)
        for each in (client, other):
            for id in "abc":
                each.subscribe(name, id)
        assert not client.closed
        assert not other.closed
