"""systemd: the protocols of sd_notify(3) and sd_listen_fds(3), by hand: packages for them need a compiler.

The gateway sends datagrams of `NAME=value` lines to the unix socket `NOTIFY_SOCKET`: READY when clients are served,
RELOADING at SIGHUP, STOPPING when it drains, WATCHDOG twice in WATCHDOG_USEC.  Sending never waits and never fails.

The manager hands over open sockets, descriptors 3 and up: `LISTEN_FDS` has their number, `LISTEN_FDNAMES` their names,
and `LISTEN_PID` the process.  An address `systemd:NAME` stands for the sockets of that name.  The manager keeps them
open while the gateway restarts, so clients that connect meanwhile wait and are not refused.
"""

import ipaddress
import os
import socket
import time
from collections.abc import Iterable, Mapping
from functools import cache

FIRST_DESCRIPTOR = 3
# The name of a socket without one.
_NAMELESS = "unknown"


class InheritedSockets:
    """Sockets that systemd, or a parent process, opened for this process, by name.

    Each can be taken once at a time: two listeners on one socket would share its clients at random.
    """

    def __init__(self, pairs: Iterable[tuple[str, socket.socket]] = ()) -> None:
        self._here: dict[str, list[socket.socket]] = {}
        for name, sock in pairs:
            self._here.setdefault(name, []).append(sock)
        self._taken: dict[str, list[socket.socket]] = {}
        self._local = {name: all(map(_is_local, found)) for name, found in self._here.items()}

    @property
    def names(self) -> list[str]:
        """Names of all sockets, taken or not."""
        return list(self._local)

    def take(self, name: str) -> list[socket.socket]:
        """The sockets of that name, which the caller closes; then they may be taken again."""
        if self._are_taken(name):
            return []
        self._taken[name] = [each.dup() for each in self._here.get(name, [])]
        return list(self._taken[name])

    def _are_taken(self, name: str) -> bool:
        return any(each.fileno() >= 0 for each in self._taken.get(name, []))

    def are_local(self, name: str) -> bool:
        """True if only this machine can reach the sockets of that name; also if there are none."""
        return self._local.get(name, True)

    def __reduce__(self) -> tuple[object, ...]:
        """Lets multiprocessing hand the sockets to a process that it starts."""
        left = {name: found for name, found in self._here.items() if not self._are_taken(name)}
        return _hand_over, ([(name, sock) for name, found in left.items() for sock in found],)


def _is_local(sock: socket.socket) -> bool:
    if sock.family == socket.AF_UNIX:
        return True
    is_ip = sock.family in (socket.AF_INET, socket.AF_INET6)
    return is_ip and ipaddress.ip_address(sock.getsockname()[0]).is_loopback


# Sockets from a parent process take precedence over those from systemd.
_handed: list[InheritedSockets] = []


def _hand_over(pairs: list[tuple[str, socket.socket]]) -> InheritedSockets:
    _handed[:] = [InheritedSockets(pairs)]
    return _handed[0]


def inherited() -> InheritedSockets:
    return _handed[0] if _handed else _found()


@cache
def _found() -> InheritedSockets:
    # Only once: a taken socket is closed some time, and then its descriptor may be another file.
    return InheritedSockets(listed(os.environ, os.getpid()))


def listed(environ: Mapping[str, str], pid: int) -> list[tuple[str, socket.socket]]:
    """The sockets in the variables, with their names; none if they are for another process."""
    try:
        is_ours = int(environ.get("LISTEN_PID", "")) == pid
        count = int(environ.get("LISTEN_FDS", ""))
    except ValueError:
        return []
    if not is_ours:
        return []
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    names += [_NAMELESS] * (count - len(names))
    found = []
    for descriptor, name in zip(range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + count), names, strict=False):
        os.set_inheritable(descriptor, False)
        found.append((name or _NAMELESS, socket.socket(fileno=descriptor)))
    return found


def notify(**words: object) -> None:
    """Send words to the service manager, if there is one and it listens."""
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
    """Clients are served, or the files have been read again.  `status`: for `systemctl status`, one line."""
    notify(READY=1, STATUS=status)


def waiting(status: str, seconds: float) -> None:
    """The start takes longer, so long at least.  `status`: for `systemctl status`."""
    notify(STATUS=status, EXTEND_TIMEOUT_USEC=int(seconds * 1e6))


def reloading() -> None:
    """Files are being read again; `ready` is the end of it."""
    notify(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)


def stopping() -> None:
    notify(STOPPING=1, STATUS="draining")


def watchdog() -> float:
    """Seconds between two calls of `alive`; 0: the service manager expects none."""
    try:
        asked = int(os.environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return 0.0
    # Not checked against WATCHDOG_PID: under hypercorn that is the parent, and the gateway runs in the worker.
    return max(asked, 0) / 2e6


def alive() -> None:
    notify(WATCHDOG=1)
