"""Net: addresses of clients, as limits count them (logins, refusals, connections, rates), and origins of pages.

An IPv6 client owns a network of 64 bits and can use each of its addresses, so the network counts as one client.

Origins, and lists of allowed ones, have the form of RFC 6454, section 6.2:

    https://app.example.org           pages of that scheme, host and port (the default port of https is 443)
    https://*.example.org:8443        pages of every host below example.org, at any depth, but not of example.org
    *                                 every page, also one without an origin (`null`)

Browsers write an origin in one form only: lower case, no default port, the shortest form of an address.  Operators and
other clients do not, so both sides are brought into that form and compared as texts.  `*.` before a host stands for
whole words: each name above the page's host is tried with it, so `evil-example.org` and `example.org.evil` never fit.

An entry that no browser would send is refused when it is listed, because it would allow no page at all.
"""

import re
from collections.abc import Collection
from ipaddress import AddressValueError, IPv4Address, IPv6Address


def network_of(address: str) -> str:
    """The address, or the network of an IPv6 address, that counts as one client; empty: the unix sockets."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"


ANY = "*"

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]{2,45}\]|[^\[\]:/?#@\s]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
# Browsers take a host for an address when its last word is a number, also one like 0x7f.
_NUMBER = re.compile(r"(?:[0-9a-z_-]+\.)*(?:[0-9]+|0x[0-9a-f]*)\.?")
_LONGEST_HOST = 253  # of DNS (RFC 1035); also what bounds the names that are tried with `*.`
_LARGEST_PORT = 65535


class OriginError(ValueError):
    """The text is no origin; `str()` says why."""


def listed(text: str) -> str:
    """An entry of a list of origins, in the form that `is_listed` needs.

    Raises OriginError: no page can have that origin.
    """
    if text == ANY:
        return text
    scheme, mark, rest = text.partition("://*.")
    try:
        return _listed(f"{scheme}://{rest}", below="*.") if mark else _listed(text)
    except OriginError as error:
        raise OriginError(f"{text!r} {error}") from None


def is_listed(origin: str, allowed: Collection[str]) -> bool:
    """True if a list allows the origin of a request.  `allowed`: entries as `listed` gives them."""
    if ANY in allowed:
        return True
    try:
        scheme, host, port = _parsed(origin)
    except OriginError:
        return False
    if _written(scheme, host, port) in allowed:
        return True
    words = host.split(".")
    above = (".".join(words[start:]) for start in range(1, len(words)))
    return any(_written(scheme, name, port, below="*.") in allowed for name in above)


def can_be_listed(origin: str) -> bool:
    """True if an entry can name that origin; none can name `null`."""
    try:
        _parsed(origin)
    except OriginError:
        return False
    return True


def is_of(origin: str, host: str) -> bool:
    """True if the origin is that of the header field `Host`, with or without a port."""
    try:
        ours = _parsed(f"{origin.partition('://')[0]}://{host}")
        return _parsed(origin) == ours
    except OriginError:
        return False


def _listed(text: str, *, below: str = "") -> str:
    if "*" in text:
        raise OriginError(
            "matches no page; * stands alone, or for the first words of a host, like https://*.example.org"
        )
    found = _parsed(text)
    if below and _is_address(found[1]):
        raise OriginError("matches no page; an address has no names below it")
    return _written(*found, below=below)


def _parsed(text: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; None for the default port.

    Raises OriginError: the text is no origin; the message continues a sentence about it.
    """
    if not text.isascii():  # checked before `lower`, which turns some other letters into ASCII
        raise OriginError("is not what browsers send: they write a host in ASCII, like xn--bcher-kva.example")
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        raise OriginError(f"is not an origin; {_instead(text)}")
    scheme, host, port = match[1], match[2], match[3]
    if scheme in ("ws", "wss"):
        raise OriginError("is no origin of a page; write the http or https origin of the page that uses the WebSocket")
    number = None if port is None else int(port)
    if number is not None and number > _LARGEST_PORT:
        raise OriginError(f"is not an origin; a port is {_LARGEST_PORT} at most")
    return scheme, _canonical(host), None if number == _PORTS.get(scheme) else number


def _instead(text: str) -> str:
    """A hint what to write in place of a text that is no origin."""
    longer = re.match(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]+)[/?#]", text)
    if longer:
        return f"it has a path; an origin ends behind host and port: {longer[1]}"
    return "write scheme://host or scheme://host:port, or *"


def _canonical(host: str) -> str:
    """A host as browsers write it."""
    try:
        if host.startswith("["):
            return f"[{IPv6Address(host[1:-1])}]"
        if _NUMBER.fullmatch(host):
            return str(IPv4Address(host))
    except AddressValueError:
        raise OriginError("is not an origin; its host is no address that browsers write") from None
    if len(host) > _LONGEST_HOST or not _HOST.fullmatch(host):
        raise OriginError("is not an origin; browsers send no such host")
    return host


def _is_address(host: str) -> bool:
    return host.startswith("[") or _NUMBER.fullmatch(host) is not None


def _written(scheme: str, host: str, port: int | None, *, below: str = "") -> str:
    return f"{scheme}://{below}{host}" if port is None else f"{scheme}://{below}{host}:{port}"
