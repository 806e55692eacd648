"""Addresses as people write them."""

from __future__ import annotations

import pytest

from gateway.config.settings import Settings
from gateway.doctor.orders import Orders, own_places
from gateway.doctor.places import HTTP, TCP, WEBSOCKET, Place


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (HTTP, "http://a.example", "http://a.example"),
        (HTTP, "https://a.example:8443/", "https://a.example:8443"),
        (HTTP, "http://[::1]:8000", "http://[::1]:8000"),
        (WEBSOCKET, "wss://a.example/ws", "wss://a.example/ws"),
        (WEBSOCKET, "ws://a.example:15674/ws", "ws://a.example:15674/ws"),
        (TCP, "a.example:61613", "stomp://a.example:61613"),
        (TCP, "stomps://a.example", "stomps://a.example:61614"),
        (TCP, "a.example", "stomp://a.example:61613"),
    ],
)
def test_forms(kind: str, text: str, shown: str) -> None:
    assert str(Place.of(kind, text)) == shown


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (HTTP, "a.example"),
        (HTTP, "https://a.example/page"),
        (HTTP, "https://"),
        (HTTP, "http://a.example:99999"),
        (WEBSOCKET, "https://a.example/ws"),
        (WEBSOCKET, "wss://a.example/ws?ticket=1"),
        (TCP, "a.example:port"),
        (TCP, "tcp://a.example:1"),
        (TCP, "stomp://[::1"),
        (TCP, "a.example:0"),
        (HTTP, "http://a..example"),
    ],
)
def test_what_is_none(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"is no address of {kind}: write "):
        Place.of(kind, text)


def test_who_can_reach_it() -> None:
    near = {"localhost": True, "127.0.0.9": True, "::1": True, "10.0.0.1": False, "a.example": False}
    assert {host: Place(TCP, host, 1).is_loopback for host in near} == near


def test_what_a_browser_calls_it() -> None:
    assert Place(WEBSOCKET, "a.example", 443, tls=True, path="/ws").origin == "https://a.example"
    assert Place(WEBSOCKET, "a.example", 15674, path="/ws").origin == "http://a.example:15674"


def test_the_gateway_s_own() -> None:
    settings = Settings(tcp=["[::]:61613"], tcp_tls=["0.0.0.0:61614"], websocket=["unix:/run/a", "127.0.0.1:1"])
    found = own_places(settings, ("*.a.example", "b.example"))
    assert found[TCP] == (Place(TCP, "::1", 61613), Place(TCP, "127.0.0.1", 61614, tls=True, name="doctor.a.example"))
    assert found[WEBSOCKET] == (Place(WEBSOCKET, "127.0.0.1", 1, path="/ws"),)


def test_whether_a_proxy_is_between() -> None:
    settings = Settings(websocket_tls=["0.0.0.0:15673"], http=["127.0.0.1:8000"])
    orders = Orders(settings=settings)
    assert orders.is_direct(Place(WEBSOCKET, "a.example", 15673, tls=True))
    assert not orders.is_direct(Place(WEBSOCKET, "a.example", 443, tls=True))
    assert orders.is_direct(Place(HTTP, "127.0.0.1", 8000))
    assert Orders().is_direct(Place(HTTP, "127.0.0.1", 80))
    assert not Orders().is_direct(Place(HTTP, "a.example", 8000))
