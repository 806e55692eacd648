"""Addresses that a push may connect to: those of the internet, unless `allow_private` is set.

An IPv6 address may carry an IPv4 address that a router connects to (mapped, 6to4, Teredo, NAT64): that must be public
too.
"""

from __future__ import annotations

import ipaddress

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: IPAddress) -> bool:
    """True if an address is of the internet: not private, loopback, link-local, shared, reserved or multicast."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.scope_id is not None or address.is_site_local:
            return False
        carried = [address.sixtofour, *(address.teredo or ())]
        if not all(is_public(each) for each in carried if each is not None):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def literal(host: str) -> IPAddress | None:
    """The address that a host of a URL is; None: it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
