"""What proxies say of a client: an address or a refusal, and never more than the trusted part of it."""

from __future__ import annotations

from ipaddress import ip_address

from gateway.transports.wire.forwarded import ForwardedError, Trusted

TRUSTED = Trusted(["10.0.0.0/8", "unix"])
PROXY = "10.0.0.1"


def run(octets: bytes) -> None:
    """The values of the fields, with NUL between them."""
    names = ("x-forwarded-for", "forwarded", "x-forwarded-proto", "x-forwarded-host")
    fields = dict(zip(names, octets.decode("latin-1").split("\0"), strict=False))
    try:
        client = TRUSTED.client_of(PROXY, fields)
    except ForwardedError:
        return
    assert not client.address or ip_address(client.address)
    # What the last proxy itself added decides, whatever the client had put in front.
    behind = {"x-forwarded-for": f"{fields['x-forwarded-for']}, 203.0.113.7"}
    assert TRUSTED.client_of(PROXY, behind).address == "203.0.113.7"
    assert TRUSTED.client_of("203.0.113.7", fields).address == "203.0.113.7"
