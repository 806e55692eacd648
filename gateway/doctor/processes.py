"""Who listens on this machine, as far as /proc tells: the user always, the program to root and to its own user only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from gateway.config.address import Address

from .rights import user_name

_PROC = Path("/proc")
_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class Process:
    """A program that listens.

    Attributes:
        pid: 0: /proc does not tell.
        name: of its program; empty where `pid` is 0.
        user: its name, or number.
    """

    pid: int
    name: str
    user: str

    def __str__(self) -> str:
        if not self.pid:
            return f"a program of {self.user}, which {' or '.join(sorted({'root', self.user}))} can name"
        return f"{self.name} (process {self.pid} of {self.user})"


def listeners(address: Address) -> list[Process]:
    """Whoever listens at an address; several: they share it."""
    sockets = dict(_of_path(address.path) if address.path else _of_port(address))
    named = list(_owners(set(sockets)))
    if named or not sockets:
        return named
    return [Process(0, "", user_name(uid)) for uid in sorted(set(sockets.values()))]


def _rows(name: str) -> Iterator[list[str]]:
    with suppress(OSError):
        for line in (_PROC / "net" / name).read_text().splitlines()[1:]:
            yield line.split()


def _of_port(address: Address) -> Iterator[tuple[str, int]]:
    """Inode and user of each socket that has a connection to that address."""
    for name in ("tcp", "tcp6"):
        for row in _rows(name):
            host, _, port = row[1].rpartition(":")
            if row[3] == _LISTENING and int(port, 16) == address.port and _covers(host, address.host):
                yield row[9], int(row[7])


def _of_path(path: str) -> Iterator[tuple[str, int]]:
    for row in _rows("unix"):
        if row[7:] == [path]:
            with suppress(OSError):
                yield row[6], os.stat(path).st_uid


def _covers(shown: str, wanted: str) -> bool:
    """Whether a socket bound to one address takes connections to another, or stands in the way of it."""
    octets = b"".join([bytes.fromhex(shown[i : i + 8])[::-1] for i in range(0, len(shown), 8)])
    bound = ip_address(octets)
    mapped = getattr(bound, "ipv4_mapped", None) or bound
    try:
        asked = ip_address("127.0.0.1" if wanted == "localhost" else wanted)
    except ValueError:
        return True  # a name: the port decides
    return mapped.is_unspecified or asked.is_unspecified or mapped == asked


def _owners(inodes: set[str]) -> Iterator[Process]:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    if not wanted:
        return
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended, or is somebody else's
                if any(os.readlink(each) in wanted for each in (folder / "fd").iterdir()):
                    name = (folder / "comm").read_text().strip()
                    yield Process(int(folder.name), name, user_name(folder.stat().st_uid))


def most_files(pid: int) -> tuple[int, int] | None:
    """How many files a process may open, now and if it asks for more; None: nobody says."""
    try:
        lines = (_PROC / str(pid) / "limits").read_text().splitlines()
    except OSError:
        return None
    words = next(line.split() for line in lines if line.startswith("Max open files"))
    soft, hard = [1 << 62 if each == "unlimited" else int(each) for each in words[3:5]]
    return soft, hard
