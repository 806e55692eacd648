"""URLs of servers, and the headers of CONNECT."""

from __future__ import annotations

import pytest

from gateway.client import StompServer
from gateway.client.server import read_url


@pytest.mark.parametrize(
    ("url", "server", "destination"),
    [
        ("stomp://localhost/", StompServer("localhost"), ""),
        (
            "stomps://alice@host.example:61614/topic/a",
            StompServer("host.example", 61_614, tls=True, login="alice"),
            "/topic/a",
        ),
        ("stomp://al%40ice@[::1]:7/queue/a%20b", StompServer("::1", 7, login="al@ice"), "/queue/a b"),
    ],
)
def test_urls(url: str, server: StompServer, destination: str) -> None:
    assert read_url(url, "X") == (server, destination)


@pytest.mark.parametrize(
    "url", ["", "host:61613", "http://host", "stomp://", "stomp://host:x", "stomp://host?a=b", "stomp://host:99999"]
)
def test_what_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="names no STOMP server: write stomp://user@host:port"):
        read_url(url, "X")


def test_a_password_has_no_place_in_a_url() -> None:
    with pytest.raises(ValueError, match="put it into GATEWAY_PASSCODE") as caught:
        read_url("stomp://alice:wonderland@host", "GATEWAY_PASSCODE")
    assert "wonderland" not in str(caught.value)


def test_headers_of_connect() -> None:
    plain = {"accept-version": "1.0,1.1,1.2", "host": "localhost", "heart-beat": "0,0"}
    assert StompServer().connect_headers(0) == plain
    named = StompServer(login="alice", passcode="wonderland", vhost="/", versions="1.2", headers={"client-id": "a"})
    assert named.connect_headers(500) == {
        "accept-version": "1.2",
        "host": "/",
        "login": "alice",
        "passcode": "wonderland",
        "heart-beat": "500,500",
        "client-id": "a",
    }
    assert "wonderland" not in repr(named)
