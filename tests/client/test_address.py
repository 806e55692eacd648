"""URLs of the async client."""

from __future__ import annotations

import pytest

from gateway.client.address import StompAddress, read_address


@pytest.mark.parametrize(
    ("url", "address", "shown"),
    [
        ("stomp://localhost", StompAddress("stomp", "localhost", 61_613), "localhost:61613"),
        ("stomps://al%40ice@[::1]:7/", StompAddress("stomps", "::1", 7, login="al@ice"), "[::1]:7"),
        ("ws://host:15674/ws", StompAddress("ws", "host", 15_674, "/ws"), "host:15674"),
        ("wss://bob@host/ws?a=b", StompAddress("wss", "host", 443, "/ws?a=b", "bob"), "host:443"),
        ("ws://host", StompAddress("ws", "host", 80, "/"), "host:80"),
        ("unix:/run/a%20b.sock", StompAddress("unix", path="/run/a b.sock"), "unix:/run/a b.sock"),
        ("unix:///run/a.sock", StompAddress("unix", path="/run/a.sock"), "unix:/run/a.sock"),
    ],
)
def test_addresses(url: str, address: StompAddress, shown: str) -> None:
    assert read_address(url) == address
    assert str(address) == shown


@pytest.mark.parametrize(
    "url", ["", "host:61613", "http://host", "stomp://", "stomp://host:x", "stomp://host/queue/a", "unix:relative"]
)
def test_what_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="names no STOMP server: write stomp://user@host:port"):
        read_address(url)


def test_a_password_has_no_place_in_a_url() -> None:
    with pytest.raises(ValueError, match="give it as `passcode`") as caught:
        read_address("stomp://alice:wonderland@host")
    assert "wonderland" not in str(caught.value)
