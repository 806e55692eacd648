"""Addresses to listen on, as settings write them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from gateway.process import systemd

# "systemd:8000" is port 8000 of a host named systemd.
_INHERITED = re.compile(r"systemd:([A-Za-z_][\w.@-]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A listen address: `host:port`, `[v6]:port`, `unix:/path`, or `systemd:NAME` for sockets that systemd opened."""

    host: str
    port: int
    path: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read one address.  Raises ValueError: the text has none of these forms; the message lists them."""
        if inherited := _INHERITED.fullmatch(text):
            return cls("", 0, name=inherited[1])
        if text.startswith("unix:"):
            if len(text) == 5:
                raise ValueError("'unix:' needs a path behind it, like unix:/run/gateway/stomp.sock")
            return cls("", 0, text[5:])
        host, colon, port = text.rpartition(":")
        is_port = colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not is_port or set(host) & set("[]/@ ") or (":" in host and not _is_ipv6(host)):
            raise ValueError(f"{text!r} is not an address; write host:port, [::1]:port, unix:/path or systemd:NAME")
        return cls(host or "127.0.0.1", int(port))

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the address (loopback, or a unix socket)."""
        if self.name:
            return systemd.inherited().are_local(self.name)
        if self.path or self.host == "localhost":
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1, a v4 peer on a v6 socket
        return (mapped or address).is_loopback

    def __str__(self) -> str:
        if self.path or self.name:
            return f"unix:{self.path}" if self.path else f"systemd:{self.name}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
