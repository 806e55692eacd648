"""PROXY headers: a header within the octets, one that is not whole yet, or a refusal in words; the same in pieces."""

from __future__ import annotations

from gateway.transports.wire.forwarded import Header, ProxyError, parse


def run(octets: bytes) -> None:
    """All of them are what the connection begins with."""
    whole = _parsed(octets)
    if isinstance(whole, Header):
        assert 0 < whole.size <= len(octets)
        assert _parsed(octets[: whole.size]) == whole
        assert _parsed(octets[: whole.size - 1]) is None
    elif whole is not None:
        assert whole


def _parsed(octets: bytes) -> Header | str | None:
    try:
        return parse(octets)
    except ProxyError as error:
        return str(error)
