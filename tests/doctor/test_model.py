"""Targets, options and results."""

from __future__ import annotations

import pytest

from gateway.config.settings import Settings
from gateway.doctor.model import HTTP, TCP, WEBSOCKET, CheckOptions, Target, own_targets, printable


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (HTTP, "https://a.example:8443/", "https://a.example:8443"),
        (HTTP, "http://[::1]:8000", "http://[::1]:8000"),
        (HTTP, "http://bücher.example", "http://xn--bcher-kva.example"),
        (WEBSOCKET, "ws://a.example:15674/ws", "ws://a.example:15674/ws"),
        (TCP, "stomps://a.example", "stomps://a.example:61614"),
    ],
)
def test_a_target_is_read_and_written(kind: str, text: str, shown: str) -> None:
    assert str(Target.parse(kind, text)) == shown


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (HTTP, "a.example"),
        (HTTP, "https://a.example/page"),
        (HTTP, "http://a..example"),
        (WEBSOCKET, "https://a.example/ws"),
        (WEBSOCKET, "wss://a.example/ws?ticket=1"),
        (TCP, "tcp://a.example:1"),
        (TCP, "a.example:0"),
    ],
)
def test_another_form_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"is no address of {kind}: write "):
        Target.parse(kind, text)


def test_the_gateway_s_own_listeners_are_targets() -> None:
    settings = Settings(tcp=["[::]:61613"], tcp_tls=["0.0.0.0:61614"], websocket=["unix:/run/a", "127.0.0.1:1"])
    found = own_targets(settings, ("*.a.example", "b.example"))
    secured = Target(TCP, "127.0.0.1", 61614, tls=True, certificate_name="doctor.a.example")
    assert found[TCP] == (Target(TCP, "::1", 61613), secured)
    assert found[WEBSOCKET] == (Target(WEBSOCKET, "127.0.0.1", 1, path="/ws"),)


def test_a_port_of_the_settings_has_no_proxy() -> None:
    options = CheckOptions(settings=Settings(websocket_tls=["0.0.0.0:15673"], http=["127.0.0.1:8000"]))
    assert options.is_direct(Target(WEBSOCKET, "a.example", 15673, tls=True))
    assert not options.is_direct(Target(WEBSOCKET, "a.example", 443, tls=True))
    assert options.is_direct(Target(HTTP, "127.0.0.1", 8000))
    assert CheckOptions().is_direct(Target(HTTP, "127.0.0.1", 80))
    assert not CheckOptions().is_direct(Target(HTTP, "a.example", 8000))


def test_the_text_of_a_peer_is_cut_and_cleaned() -> None:
    assert printable("a\x1b[2J\n\n b" + "c" * 200).startswith("a [2J bccc")
    assert len(printable("c" * 200)) == 160
    assert printable(b"\xff") == "\ufffd"
