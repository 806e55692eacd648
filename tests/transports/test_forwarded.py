"""Who the client is: the walk through what proxies say, whom it believes, and where it stops."""

from __future__ import annotations

import pytest
import structlog.testing
from hypothesis import given
from hypothesis import strategies as st

from gateway.transports.wire.forwarded import NO_PROXIES, ForwardedClient, ForwardedError, Trusted

parametrize = pytest.mark.parametrize

TRUSTED = Trusted(["10.0.0.0/8", "2001:db8:1::/48", "unix"])
PROXY, CLIENT = "10.0.0.2", "203.0.113.7"


@parametrize(
    ("value", "address"),
    [
        (f"6.6.6.6, {CLIENT}", CLIENT),
        (f"10.6.6.6, {CLIENT}, 10.9.9.9, 2001:db8:1::9", CLIENT),
        ("10.6.6.6, 10.9.9.9", "10.6.6.6"),  # all of them are proxies: the first speaks for itself
        (f"nonsense, {CLIENT}", CLIENT),
        (f"{CLIENT}, unknown", PROXY),
        ("", PROXY),
        (f"{CLIENT}:4711", CLIENT),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        (f"::ffff:{CLIENT}", CLIENT),
        ("fe80::1%eth0", PROXY),
        (", ".join([CLIENT, *["10.0.0.1"] * 31]), CLIENT),
        (", ".join([CLIENT, *["10.0.0.1"] * 32]), "10.0.0.1"),
    ],
)
def test_x_forwarded_for(value: str, address: str) -> None:
    assert TRUSTED.client_of(PROXY, {"x-forwarded-for": value}).address == address


@parametrize(
    ("value", "client"),
    [
        (f"for={CLIENT};proto=https;by=10.0.0.2", ForwardedClient(CLIENT, True)),
        (f"For={CLIENT} ; Proto=HTTP", ForwardedClient(CLIENT, False)),
        ('for="[2001:db8::7]:4711";host="gateway.example"', ForwardedClient("2001:db8::7", None, "gateway.example")),
        (f"for=6.6.6.6;proto=https;host=evil.example, for={CLIENT};proto=http", ForwardedClient(CLIENT, False)),
        (f"for={CLIENT};proto=https, for=10.9.9.9;proto=http", ForwardedClient(CLIENT, True)),
        (f'for={CLIENT};x="a\\",b;for=6.6.6.6"', ForwardedClient(CLIENT)),
        (f"for={CLIENT}, for=unknown", ForwardedClient(PROXY)),
        ("", ForwardedClient(PROXY)),
    ],
)
def test_forwarded(value: str, client: ForwardedClient) -> None:
    assert TRUSTED.client_of(PROXY, {"forwarded": value}) == client


@parametrize("value", ['for="6.6.6.6, for=203.0.113.7', "for", "for=1.2.3.4 x", '"', 'for=6.6.6.6;a=", for="[::1]"'])
def test_what_cannot_be_read_is_refused(value: str) -> None:
    """A quote that a client left open would hide what the proxy wrote behind it."""
    with pytest.raises(ForwardedError, match="cannot be read"):
        TRUSTED.client_of(PROXY, {"forwarded": value})


class TestBoth:
    @parametrize(("one", "other"), [("http", "https"), ("https", "http")])
    def test_tls_is_believed_of_both_only(self, one: str, other: str) -> None:
        """A client knows its own address, and can invent all the rest of the field that its proxy does not write."""
        fields = {"x-forwarded-for": CLIENT, "x-forwarded-proto": one, "forwarded": f"for={CLIENT};proto={other}"}
        assert TRUSTED.client_of(PROXY, fields) == ForwardedClient(CLIENT, False)

    def test_they_do_not(self) -> None:
        """The proxy writes one of them, and passes on the other as the client invented it."""
        with pytest.raises(ForwardedError, match="name different clients"):
            TRUSTED.client_of(PROXY, {"x-forwarded-for": CLIENT, "forwarded": "for=6.6.6.6"})


class TestBeside:
    @parametrize(
        ("value", "secure"),
        [("https", True), ("HTTPS", True), ("wss", True), ("http", False), ("http, https", True), ("", None)],
    )
    def test_the_protocol(self, value: str, secure: bool | None) -> None:
        fields = {"x-forwarded-for": CLIENT, "x-forwarded-proto": value}
        assert TRUSTED.client_of(PROXY, fields).secure is secure

    def test_the_host(self) -> None:
        fields = {"x-forwarded-host": "gateway.example:443, inner"}
        assert TRUSTED.client_of(PROXY, fields) == ForwardedClient(PROXY, None, "gateway.example:443")


@given(st.text(alphabet='for=;,"\\ 12.3:[]ab%\t', max_size=60))
def test_anything_has_an_answer(value: str) -> None:
    for name in ("x-forwarded-for", "forwarded"):
        try:
            client = TRUSTED.client_of(PROXY, {name: value})
        except ForwardedError:
            continue
        assert client.address is not None


@parametrize(
    ("trusted", "believed", "refused"),
    [
        (TRUSTED, ["10.1.2.3", "2001:db8:1::5", ""], ["11.0.0.1", "2001:db8:2::5", "127.0.0.1"]),
        (NO_PROXIES, [], ["", "127.0.0.1"]),
        (Trusted(["unix"]), [""], ["127.0.0.1"]),
        (Trusted(["127.0.0.1"]), ["127.0.0.1"], [""]),
    ],
)
def test_trusted_addresses(trusted: Trusted, believed: list[str], refused: list[str]) -> None:
    assert bool(trusted) is bool(believed)
    assert all(address in trusted for address in believed)
    assert not any(address in trusted for address in refused)


@parametrize("peer", ["10.0.0.2", "", "8.8.8.8"])
@parametrize("name", ["X-Forwarded-For", "Forwarded", "Host"])
def test_a_forgotten_proxy_is_logged_once(peer: str, name: str) -> None:
    trusted = Trusted(["192.0.2.1"])
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            trusted.client_of(peer, {name.lower(): CLIENT})
    sentence = f"{peer or 'unix'} sends {name} and is not in trusted_proxies: if it is your proxy, name it"
    is_told = name != "Host" and peer != "8.8.8.8"
    assert logs == ([{"event": sentence, "log_level": "warning"}] if is_told else [])
