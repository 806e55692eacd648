"""Origins of web pages: which of them a list names, in the form of RFC 6454, section 6.2.

    https://app.example.org           pages of that scheme, host and port; 443 is the port of https where none stands
    https://*.example.org:8443        pages of every name below example.org, however deep, and not of example.org
    *                                 every page, also one that has no origin to tell (`null`)

Browsers write an origin in one form only: small letters, no port that the scheme has anyway, an address as short as it
can be.  People do not, and neither do clients that are no browsers.  So both sides are brought into that form, and then
compared as texts.  In front of a host `*.` stands for whole words of it: each name above the page's host is tried with
it, so there is nothing that `evil-example.org` or `example.org.evil` could fit.

What a browser would never send is refused when it is listed, for it would silently let nobody in.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import AddressValueError, IPv4Address, IPv6Address

ANY = "*"

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]{2,45}\]|[^\[\]:/?#@\s]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
# Browsers take a host for an address when its last word is a number, also one like 0x7f.
_NUMBER = re.compile(r"(?:[0-9a-z_-]+\.)*(?:[0-9]+|0x[0-9a-f]*)\.?")
_LONGEST_HOST = 253  # of DNS (RFC 1035); also what bounds the names that are tried with `*.`
_LARGEST_PORT = 65535


class OriginError(ValueError):
    """A text is no origin; `str()` says why."""


def listed(text: str) -> str:
    """One entry of a list of origins, in the form in which `is_listed` knows it.

    Raises:
        OriginError: no page has that origin.
    """
    if text == ANY:
        return text
    scheme, mark, rest = text.partition("://*.")
    try:
        return _listed(f"{scheme}://{rest}", below="*.") if mark else _listed(text)
    except OriginError as error:
        raise OriginError(f"{text!r} {error}") from None


def is_listed(origin: str, allowed: Collection[str]) -> bool:
    """Whether a list names the origin that a request shows.

    Args:
        allowed: entries as `listed` gives them.
    """
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
    """Whether an entry could name that origin alone: none can where a page has none to tell (`null`)."""
    try:
        _parsed(origin)
    except OriginError:
        return False
    return True


def is_of(origin: str, host: str) -> bool:
    """Whether a page of that origin is one of that `Host`: the header field, with a port or without."""
    try:
        ours = _parsed(f"{origin.partition('://')[0]}://{host}")
        return _parsed(origin) == ours
    except OriginError:
        return False


def _listed(text: str, *, below: str = "") -> str:
    if "*" in text:
        raise OriginError(
            "can match no page; * stands alone, or for the first words of a host, like https://*.example.org"
        )
    found = _parsed(text)
    if below and _is_address(found[1]):
        raise OriginError("can match no page; an address has no names below it")
    return _written(*found, below=below)


def _parsed(text: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; no port where the scheme has it anyway.

    Raises:
        OriginError: the text is no origin; the sentence goes on behind it.
    """
    if not text.isascii():  # before letters are made small: there are others that become ASCII by it
        raise OriginError("is not what browsers send: they write a host in ASCII, like xn--bcher-kva.example")
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        raise OriginError(f"is not an origin; {_instead(text)}")
    scheme, host, port = match[1], match[2], match[3]
    if scheme in ("ws", "wss"):
        raise OriginError("is no origin of a page; pages come by http or https, whatever they open then")
    number = None if port is None else int(port)
    if number is not None and number > _LARGEST_PORT:
        raise OriginError(f"is not an origin; a port is {_LARGEST_PORT} at most")
    return scheme, _canonical(host), None if number == _PORTS.get(scheme) else number


def _instead(text: str) -> str:
    """What to write in place of what is no origin."""
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
        raise OriginError("is not an origin; its host is no address as browsers write them") from None
    if len(host) > _LONGEST_HOST or not _HOST.fullmatch(host):
        raise OriginError("is not an origin; its host is none that browsers send")
    return host


def _is_address(host: str) -> bool:
    return host.startswith("[") or _NUMBER.fullmatch(host) is not None


def _written(scheme: str, host: str, port: int | None, *, below: str = "") -> str:
    return f"{scheme}://{below}{host}" if port is None else f"{scheme}://{below}{host}:{port}"
