"""Subscriptions over reconnects: headers of each server, and positions in streams."""

from __future__ import annotations

import pytest

from gateway.client.session import ClientSession
from gateway.client.subscriptions import SubscriptionState

from .fake_server import FakeServer, cut, opened

OURS = "stomp-gateway/1"


@pytest.mark.parametrize(
    ("server", "count", "expected"),
    [
        (OURS, 10, {"prefetch-count": "10"}),
        ("RabbitMQ/4.1.0", 10, {"prefetch-count": "10"}),
        ("", 1, {"prefetch-count": "1"}),
        ("ActiveMQ/5.18.3", 10, {"activemq.prefetchSize": "10"}),
        ("ActiveMQ-Artemis/2.40.0 ActiveMQ Artemis Messaging Engine", 1, {"consumer-window-size": "0"}),
        ("ActiveMQ-Artemis/2.40.0", 10, {}),
    ],
)
def test_prefetch_in_the_words_of_the_server(server: str, count: int, expected: dict[str, str]) -> None:
    state = SubscriptionState("s", "/queue/a", "client", count, {}, None)
    assert state.headers(server) == {"id": "s", "destination": "/queue/a", "ack": "client", **expected}


def test_mode_auto_has_no_prefetch() -> None:
    state = SubscriptionState("s", "/topic/a", "auto", 10, {"selector": "a = 1"}, None)
    assert state.headers(OURS) == {"id": "s", "destination": "/topic/a", "ack": "auto", "selector": "a = 1"}


def again(session: ClientSession, server: FakeServer) -> dict[str, str]:
    """The SUBSCRIBE of the next connection."""
    cut(session)
    server.connect(session)
    server.work(session)
    return server.frames[0].headers


@pytest.mark.parametrize("ack", ["auto", "client-individual"])
def test_a_stream_goes_on_behind_the_last_message(ack: str) -> None:
    session, server = opened(FakeServer(OURS))
    state = SubscriptionState("s", "/topic/a", ack, 10, {}, None)
    session.subscribe(state)
    assert "from-seq" not in again(session, server)
    server.message(session, "s", b"1", seq="17")
    assert again(session, server)["from-seq"] == "18"
    assert len(state.unread) == 1  # it does not come again


def test_a_given_position_stays_until_a_message_comes() -> None:
    session, server = opened(FakeServer(OURS))
    session.subscribe(SubscriptionState("s", "/topic/a", "auto", 10, {}, 0))
    assert again(session, server)["from-seq"] == "0"
    assert again(session, server)["from-seq"] == "0"
    server.message(session, "s", b"1", seq="17")
    assert again(session, server)["from-seq"] == "18"


@pytest.mark.parametrize(
    ("server", "destination", "headers"),
    [
        ("RabbitMQ/4.1.0", "/topic/a", {}),
        (OURS, "/topic/a.*", {}),
        (OURS, "/topic/a", {"resume": "x"}),
        (OURS, "/topic/a", {"durable": "true"}),
    ],
)
def test_where_the_number_of_another_cannot_be_asked_for(
    server: str, destination: str, headers: dict[str, str]
) -> None:
    session, fake = opened(FakeServer(server))
    session.subscribe(SubscriptionState("s", destination, "client-individual", 10, headers, None))
    again(session, fake)
    fake.message(session, "s", b"1", seq="17")
    assert "from-seq" not in again(session, fake)
    assert session.unread == 0  # the server delivers it again


def test_gaps_are_told_by_gateways_alone() -> None:
    for name, is_gap in ((OURS, True), ("RabbitMQ/4.1.0", False)):
        session, server = opened(FakeServer(name))
        state = SubscriptionState("s", "/topic/a", "auto", 10, {}, None)
        session.subscribe(state)
        server.message(session, "s", b"1", gap="true")
        assert session.next_of(state).gap is is_gap
