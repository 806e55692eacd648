"""Forwarded clients: the address of a client behind trusted proxies.

A proxy adds the address of its caller to the end of `X-Forwarded-For`, or of `Forwarded` (RFC 7239).  So the list is
walked from its end, as long as the hop before is one of `trusted_proxies`:

    X-Forwarded-For: made up, 203.0.113.7, 10.0.0.9        the peer, 10.0.0.2, is trusted: 10.0.0.9 called it
                              the client   trusted, too    203.0.113.7 called that, and is not trusted

Values further left were written by untrusted hops, and a value that is no address, like `unknown`, ends the walk.
Without trust the fields are ignored.

A proxy passes on the field that it does not know.  If both fields are there and name different clients, the client may
have made up one of them, and the gateway cannot tell which: that is a mistake in the proxy's set-up, and refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import structlog

log = structlog.get_logger("gateway.listen")

UNIX = "unix"
_SECURE = frozenset(["https", "wss"])
_MOST_HOPS = 32
_MOST_WARNED = 10  # forgotten proxies that the log names
# One `name=value` of an element of Forwarded; the value a token or a quoted string (RFC 7239, section 4).
_PAIR = re.compile(r"""([!#$%&'*+.^_`|~0-9A-Za-z-]++)=("(?:[^"\\]|\\.)*+"|[^\s;,"]*+)""")
# An address with the port that some proxies write behind it.
_NODE = re.compile(r"(?:\[([^\]]*)\]|([0-9.]+))(?::[0-9_A-Za-z.-]+)?|([0-9A-Fa-f:.]+)")


class ForwardedError(Exception):
    """The fields cannot be read, or contradict each other; `str()` is one sentence."""


@dataclass(frozen=True, slots=True)
class ForwardedClient:
    """The client at the other end of all trusted proxies."""

    address: str  # without a port; empty: a unix socket
    secure: bool | None = None  # the client speaks TLS; None: no proxy says
    host: str = ""  # that the client asked for; empty: no proxy says


def plain(address: IPv4Address | IPv6Address) -> str:
    """An address as text; an IPv4 address that is mapped into IPv6 as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class Trusted:
    """Trusted proxies: addresses, networks, or `unix`, as the setting `trusted_proxies` has them."""

    __slots__ = ("_networks", "_unix", "_warned")

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self.replace(networks)

    def replace(self, networks: Iterable[str]) -> None:
        """Trust others from now on."""
        self._warned: set[str] = set()
        listed = list(networks)
        self._unix = UNIX in listed
        self._networks = [ip_network(each) for each in listed if each != UNIX]

    def __bool__(self) -> bool:
        return self._unix or bool(self._networks)

    def __contains__(self, address: str) -> bool:
        """True if the address is a trusted proxy's; empty: a unix socket."""
        if not address:
            return self._unix
        found = ip_address(address)
        return any(found in network for network in self._networks)

    def client_of(self, peer: str, fields: Mapping[str, str]) -> ForwardedClient:
        """The client behind a peer, by the header fields with lower-case names; raises `ForwardedError`."""
        if not self or peer not in self:
            self._warn(peer, fields)
            return ForwardedClient(peer)
        element: Mapping[str, str] = {}
        found: list[str] = []
        if "x-forwarded-for" in fields:
            found.append(self._walk(peer, _last_first(fields["x-forwarded-for"]))[0])
        if "forwarded" in fields:
            elements = _elements(fields["forwarded"])
            address, hops = self._walk(peer, (each.get("for", "") for each in elements))
            element = elements[hops - 1] if hops else {}
            found.append(address)
        if len(set(found)) > 1:
            raise ForwardedError(
                "Forwarded and X-Forwarded-For name different clients; the proxy must set one of them, and remove the "
                "other"
            )
        protocols = [element.get("proto"), next(_last_first(fields.get("x-forwarded-proto", "")), "")]
        # One of the two may be made up: if both are there, both must say TLS.
        secure = [each.lower() in _SECURE for each in protocols if each]
        host = element.get("host") or fields.get("x-forwarded-host", "").partition(",")[0].strip()
        return ForwardedClient(found[0] if found else peer, all(secure) if secure else None, host)

    def _warn(self, peer: str, fields: Mapping[str, str]) -> None:
        """Log, once for each, a proxy that the settings seem to lack; public addresses may write anything."""
        found = [name for name in ("X-Forwarded-For", "Forwarded") if name.lower() in fields]
        if not found or peer in self._warned or len(self._warned) == _MOST_WARNED:
            return
        if not peer or ip_address(peer).is_private:
            self._warned.add(peer)
            log.warning(f"{peer or UNIX} sends {found[0]} and is not in trusted_proxies: if it is your proxy, name it")

    def _walk(self, peer: str, hops: Iterable[str]) -> tuple[str, int]:
        """The first address from the end that is not trusted, or the last that is one, and its place from the end."""
        count = 0
        for hop in hops:
            address = _address(hop)
            if address is None or count == _MOST_HOPS:
                break
            peer, count = address, count + 1
            if address not in self:
                break
        return peer, count


NO_PROXIES = Trusted()


def _last_first(value: str) -> Iterator[str]:
    return (each.strip() for each in reversed(value.split(",")))


def _address(node: str) -> str | None:
    """The address of a hop; None: it is none, like `unknown` or `_hidden`."""
    if node == "unix:":  # as nginx calls the peer on a unix socket
        return ""
    match = _NODE.fullmatch(node)
    if match is None:
        return None
    try:
        return plain(ip_address(next(filter(None, match.groups()), "")))
    except ValueError:
        return None


def _elements(value: str) -> list[dict[str, str]]:
    """The elements of Forwarded, the last first: parameters by lower-case name.  Raises `ForwardedError`."""
    elements: list[dict[str, str]] = [{}]
    place = 0
    while place < len(value):
        match = _PAIR.match(value, place)
        if match is not None:
            text = match[2]
            elements[-1][match[1].lower()] = re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] == '"' else text
            place = match.end()
        if place < len(value):
            if value[place] == ",":
                elements.append({})
            elif value[place] not in "; \t":
                # To guess is no option: a quote that a client left open hides what the proxy wrote behind it.
                raise ForwardedError("the header field Forwarded cannot be read")
            place += 1
    return elements[::-1]
