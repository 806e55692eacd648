"""Values as settings and options of commands write them: bytes, seconds, addresses to listen on."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

import click

from gateway.process import systemd

_BYTES: dict[str, int] = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"(-?[0-9][0-9_]*)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(ms|[smhd]?)")
SHORTEST_INTERVAL = 0.1  # seconds between two rounds of work


def parse_size(text: str) -> int:
    """Bytes: `1073741824`, `1_048_576`, `1GiB` or `64 kB`, in any letter case; ValueError says which are right."""
    found = _SIZE.fullmatch(text.strip())
    unit = _BYTES.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError(
            f"{text[:80]!r} is no number of bytes; write one like 1073741824, or with a unit, like 1GiB, 64KiB or 8MB"
        )
    return int(found[1]) * unit


def duration_like(examples: str, least: float = 0.0) -> Callable[[str], float]:
    """The type of an option in seconds: `60s`, `1.5m`, `2h`, `7d`, or a number; click.BadParameter has the examples."""

    def duration(text: str) -> float:  # the help shows this name
        found = _DURATION.fullmatch(text.strip().lower())
        if found is None:
            raise click.BadParameter(f"{text[:80]!r} is no duration; write one like {examples}")
        seconds = float(found[1]) * _SECONDS[found[2]]
        if seconds < least:
            raise click.BadParameter(f"{text[:80]!r} is too short; it must be {least:g}s or longer")
        return seconds

    return duration


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
