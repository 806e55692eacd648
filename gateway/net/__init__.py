"""Net: addresses of clients, as limits count them (logins, refusals, connections, rates), and origins of pages.

An IPv6 client owns a network of 64 bits and can use each of its addresses, so the network counts as one client.
"""

from __future__ import annotations

from ipaddress import IPv6Address


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
