"""Values as settings and options of commands write them: bytes, durations, addresses to listen on."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.process import systemd

if TYPE_CHECKING:
    import click

_BYTES: dict[str, int] = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"(-?[0-9][0-9_]*)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_DURATION = re.compile(r"(-?(?:[0-9][0-9_]{0,14}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}))\s*([a-z]*)", re.IGNORECASE | re.ASCII)
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


def parse_duration(text: str, unit: str = "s", examples: str = "250ms, 10s, 5 min, 1h or 7 days") -> float:
    """Seconds, or milliseconds where `unit` is `ms`: `10`, `10s`, `1.5 min`, `2h` or `7 days`, in any letter case.

    A number without a unit counts in `unit`.  ValueError has the examples.
    """
    found = _DURATION.fullmatch(text.strip())
    factor = _UNITS.get(found[2].lower() or unit) if found else None
    if found is None or factor is None:
        raise ValueError(f"{text[:80]!r} is no duration; write one like {examples}")
    # Rounded, because 0.3 / 0.001 is not quite 300.
    return round(float(found[1]) * factor / _UNITS[unit], 9)


def size_in_words(count: int) -> str:
    """1536 -> 1.5 KiB; a number that its unit does not divide well stays in bytes."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power and count * 2 % 1024**power == 0:
            return f"{count / 1024**power:g} {unit}"
    return f"{count:,} bytes"


def duration_in_words(seconds: float) -> str:
    """90 -> 1.5 min; a number that its unit does not divide well stays in seconds."""
    for name, unit in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= unit and seconds * 2 % unit == 0:
            return "1 day" if seconds == 86_400 else f"{seconds / unit:,.10g} {name}"
    return f"{seconds * 1000:g} ms" if 0 < seconds < 1 else f"{seconds:,.10g} s"


def duration_like(examples: str, least: float = 0.0, most: float = math.inf) -> Callable[[str], float]:
    """The type of an option in seconds, like `parse_duration`; click.BadParameter has the examples or the bound."""

    def duration(text: str) -> float:  # the help shows this name
        try:
            seconds = parse_duration(text, examples=examples)
        except ValueError as error:
            raise _refused(str(error)) from None
        if seconds < least:
            raise _refused(f"{text[:80]!r} is too short; it must be {duration_in_words(least)} or longer")
        if seconds > most:
            raise _refused(f"{text[:80]!r} is too long; it must be {duration_in_words(most)} or shorter")
        return seconds

    return duration


def size(text: str) -> int:
    """The type of an option in bytes, like `parse_size`; click.BadParameter says which are right."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise _refused(str(error)) from None


def _refused(sentence: str) -> click.BadParameter:
    import click  # the application is no command, and starts without it

    return click.BadParameter(sentence)


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
