"""What systemd and the gateway tell each other: the protocol of sd_notify(3) and sd_listen_fds(3).

To the manager go datagrams of `NAME=value` lines, to the unix socket that `NOTIFY_SOCKET` names.  They are words to
somebody who may have gone: they never wait, and never fail.

    start    READY=1                                    clients are served
    SIGHUP   RELOADING=1, MONOTONIC_USEC=...; READY=1   what lies in files was read again
    stop     STOPPING=1                                 it drains
    always   WATCHDOG=1                                 twice in WATCHDOG_USEC: the loop does not stand still

From the manager come open sockets, descriptors 3 and up: `LISTEN_FDS` says how many, `LISTEN_FDNAMES` their names, and
`LISTEN_PID` for whom they are.  An address `systemd:NAME` stands for those of that name.  The manager keeps them open
while the gateway is started again, so whoever connects meanwhile waits and is not refused.

By hand, because it is a hundred lines, and the packages that have them ask for a compiler or have no upkeep.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from collections.abc import Iterable, Mapping
from functools import cache

_FIRST = 3
# Of a socket that came without one.
_NAMELESS = "unknown"


class Sockets:
    """Sockets that somebody else opened for this process, by name.

    Each can be taken once: two listeners on one socket would share its clients by chance.
    """

    def __init__(self, pairs: Iterable[tuple[str, socket.socket]] = ()) -> None:
        self._here: dict[str, list[socket.socket]] = {}
        for name, sock in pairs:
            self._here.setdefault(name, []).append(sock)
        self._local = {name: all(map(_is_local, found)) for name, found in self._here.items()}

    @property
    def names(self) -> list[str]:
        """Of all that came, whether they were taken or not."""
        return list(self._local)

    def take(self, name: str) -> list[socket.socket]:
        """Those of that name, which are the caller's from now on."""
        return self._here.pop(name, [])

    def are_local(self, name: str) -> bool:
        """Whether only this machine reaches them; nobody reaches what did not come."""
        return self._local.get(name, True)

    def __reduce__(self) -> tuple[object, ...]:
        """multiprocessing hands sockets over, with their descriptors, to a process that it starts."""
        return _hand_over, ([(name, sock) for name, found in self._here.items() for sock in found],)


def _is_local(sock: socket.socket) -> bool:
    if sock.family == socket.AF_UNIX:
        return True
    is_ip = sock.family in (socket.AF_INET, socket.AF_INET6)
    return is_ip and ipaddress.ip_address(sock.getsockname()[0]).is_loopback


# What a parent process handed over is worth more than what this one found.
_handed: list[Sockets] = []


def _hand_over(pairs: list[tuple[str, socket.socket]]) -> Sockets:
    _handed[:] = [Sockets(pairs)]
    return _handed[0]


def inherited() -> Sockets:
    """The sockets of this process."""
    return _handed[0] if _handed else _found()


@cache
def _found() -> Sockets:
    """They are looked for once: whoever takes one closes it, and its number may mean another file then."""
    return Sockets(listed(os.environ, os.getpid()))


def listed(environ: Mapping[str, str], pid: int) -> list[tuple[str, socket.socket]]:
    """The sockets that variables name, with their names; none where they are meant for another process."""
    try:
        meant = int(environ.get("LISTEN_PID", "")) == pid
        count = int(environ.get("LISTEN_FDS", ""))
    except ValueError:
        return []
    if not meant:
        return []
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    names += [_NAMELESS] * (count - len(names))
    found = []
    for descriptor, name in zip(range(_FIRST, _FIRST + count), names, strict=False):
        os.set_inheritable(descriptor, False)
        found.append((name or _NAMELESS, socket.socket(fileno=descriptor)))
    return found


def notify(**words: object) -> None:
    """Tell the service manager, if there is one and it listens."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place.startswith(("/", "@")):
        return
    text = "\n".join(f"{name}={value}" for name, value in words.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            sock.connect("\0" + place[1:] if place.startswith("@") else place)
            sock.send(text.encode())
    except OSError:
        pass


def ready(status: str) -> None:
    """Clients are served; or what was to be read again was read.

    Args:
        status: for `systemctl status`, one line.
    """
    notify(READY=1, STATUS=status)


def reloading() -> None:
    """Files are being read again; `ready` is the end of it."""
    notify(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)


def stopping() -> None:
    """The end has begun."""
    notify(STOPPING=1, STATUS="draining")


def watchdog() -> float:
    """Seconds between two signs of life; 0: nobody waits for any."""
    try:
        asked = int(os.environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return 0.0
    # Under hypercorn the variable is meant for the parent, and the worker is what lives.
    return max(asked, 0) / 2e6


def alive() -> None:
    """The loop turns."""
    notify(WATCHDOG=1)
