"""A service manager for tests: it hears what the gateway says of itself, and gives it open sockets."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.app.process import DEADLINE, Server
from tests.clients.driver import tool
from tests.gateway_process import HOST

_LONGEST = 4096
# Puts descriptors where systemd has them, and becomes the command: LISTEN_PID must be its own.
_BECOME = """
import fcntl, os, sys
spread = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 100) for word in sys.argv[1].split(",")]
for place, descriptor in enumerate(spread, 3):
    os.dup2(descriptor, place, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """Hears what services say; its place is the value of NOTIFY_SOCKET."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.place)
        self._socket.settimeout(DEADLINE)

    def heard(self) -> dict[str, str]:
        """The next thing that was said, and is no sign of life; it is waited for."""
        while (words := self.next()) == {"WATCHDOG": "1"}:
            pass
        return words

    def next(self) -> dict[str, str]:
        """The next thing that was said; it is waited for."""
        text = self._socket.recv(_LONGEST).decode()
        return dict(line.split("=", 1) for line in text.split("\n"))

    def close(self) -> None:
        self._socket.close()


@contextmanager
def manager(folder: Path) -> Iterator[Manager]:
    """One for the time of the block."""
    made = Manager(folder)
    try:
        yield made
    finally:
        made.close()


def activated(command: Iterable[str], places: Mapping[str, str]) -> list[str]:
    """The command that starts another one with open sockets, by name, at the first connection."""
    listen = [word for place in places.values() for word in ("-l", place)]
    # It passes on what is named, and nothing else.
    names = ["PATH", "NOTIFY_SOCKET", "WATCHDOG_USEC", *[f"GATEWAY_{name.upper()}" for name in (*places, "log_format")]]
    kept = [word for name in names for word in ("-E", name)]
    return [tool("systemd-socket-activate"), *listen, f"--fdname={':'.join(places)}", *kept, *command]


class Kept:
    """Listening sockets, by name, that outlive the gateways which they are given to."""

    def __init__(self, sockets: dict[str, socket.socket]) -> None:
        self._sockets = sockets
        self.ports = {name: int(sock.getsockname()[1]) for name, sock in sockets.items()}

    def start(self, command: list[str], folder: Path, **variables: str) -> Server:
        """Start a command with them; settings named like a socket are that socket."""
        descriptors = [sock.fileno() for sock in self._sockets.values()]
        settings = {name: f"systemd:{name}" for name in self._sockets}
        listening = {"LISTEN_FDS": str(len(descriptors)), "LISTEN_FDNAMES": ":".join(self._sockets)}
        become = [sys.executable, "-c", _BECOME, ",".join(map(str, descriptors)), *command]
        variables = {"log_format": "json", **settings, **variables}
        return Server(become, folder, variables, descriptors=descriptors, environment=listening)


@contextmanager
def kept(*names: str) -> Iterator[Kept]:
    """Sockets on free ports of loopback, for the time of the block."""
    with ExitStack() as stack:
        yield Kept({name: stack.enter_context(socket.create_server((HOST, 0))) for name in names})
