"""Client addresses as limits count them."""

from __future__ import annotations

import pytest

from gateway.net import network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::9", "2001:db8::/64"),
        ("2001:db8:0:1::", "2001:db8:0:1::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no:address", "no:address"),
    ],
)
def test_an_ipv6_network_counts_as_one_client(address: str, network: str) -> None:
    assert network_of(address) == network
