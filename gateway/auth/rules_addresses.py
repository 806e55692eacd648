"""In which of the networks that rules name an address is.

A client is sorted once, when its session starts; from then on rules go by the networks that it was found to be in, and
all who are in the same ones are the same to them.

Networks stand in tables by their length, each under the bits that all its addresses begin with.  So an address is
looked up once for each length that occurs, of which there are a few, however many networks there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from gateway.config.rules import UNIX

NOWHERE: frozenset[str] = frozenset()


class Networks:
    """The networks of all rules.

    Args:
        texts: as `gateway.config.rules.Table` has them.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._has_unix = False
        # Version, and bits that are the client's own -> the others -> network.
        self._tables: dict[tuple[int, int], dict[int, str]] = {}
        for text in texts:
            if text == UNIX:
                self._has_unix = True
                continue
            network = ip_network(text)
            own = network.max_prefixlen - network.prefixlen
            self._tables.setdefault((network.version, own), {})[int(network.network_address) >> own] = text

    def __bool__(self) -> bool:
        return self._has_unix or bool(self._tables)

    def around(self, address: str) -> frozenset[str]:
        """Those that an address is in.

        Args:
            address: empty: of a unix socket.

        Raises:
            ValueError: it is no address.
        """
        if not self:
            return NOWHERE
        if not address:
            return frozenset([UNIX]) if self._has_unix else NOWHERE
        found = ip_address(address)
        version, bits = found.version, int(found)
        return frozenset(
            [
                table[bits >> own]
                for (kind, own), table in self._tables.items()
                if kind == version and bits >> own in table
            ]
        )
