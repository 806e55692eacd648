"""What counts as one client, wherever clients are counted: failed logins, refusals, connections, rates.

A client of IPv6 owns a network of 64 bits, and can come from each of its addresses.
"""

from __future__ import annotations

from ipaddress import IPv6Address


def network_of(address: str) -> str:
    """What counts as one client: the address, of IPv6 its network; empty: the unix sockets."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"
