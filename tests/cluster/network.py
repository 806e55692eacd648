"""A network of machines for tests, which can be cut: each machine is a network namespace, and a router joins them.

    router   198.18.N.254 for each machine N; what it is told to lose, it loses without a word
    machine  198.18.N.1, and a loopback of its own: what is open there stays reachable for the test when all is cut

Nothing of it is seen outside these namespaces.  A rule `blackhole` of the router drops packets of one direction, as
`tc netem loss 100%` does where the kernel has that.  Names carry the process id: a killed test leaves namespaces, with
NATS servers in them, and the next network removes both.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

_NAMES = re.compile(r"^gateway-test-(\d+)-\d+-\w+$")
_FOLDER = Path("/run/netns")
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_TIMEOUT = 30.0

_numbers = itertools.count(1)
_libc = ctypes.CDLL(None, use_errno=True)


class NoNetwork(Exception):
    """Network namespaces do not work here; `str()` is a sentence."""


@dataclass(frozen=True)
class Namespace:
    """A network namespace.  `address`: of the machine in it."""

    name: str
    address: str

    @property
    def command(self) -> list[str]:
        """What comes before a command that is to run there; it is the same process then."""
        return ["ip", "netns", "exec", self.name]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread makes in the block belong to the namespace, for good."""
        with Path("/proc/thread-self/ns/net").open() as ours, (_FOLDER / self.name).open() as theirs:
            _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(ours.fileno())

    async def connect(self, port: int) -> trio.SocketStream:
        """Connect to its loopback, which no cut of the network concerns.  Raises OSError."""
        with self.inside():
            made = trio.socket.socket()
        try:
            await made.connect(("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return trio.SocketStream(made)


class Network:
    """Machines, and the router between them."""

    def __init__(self, machines: Sequence[Namespace], router: Namespace) -> None:
        self.machines = list(machines)
        self.router = router
        self._losses: list[str] = []  # as rules

    def lose(self, source: Namespace | None, target: Namespace | None) -> None:
        """Lose what one machine sends to the other, until `mend`; None: any."""
        ends = "".join(f" {word} {end.address}" for word, end in (("from", source), ("to", target)) if end is not None)
        self._losses.append(f"{ends} priority 1 blackhole")
        _ip(f"rule add{self._losses[-1]}", inside=self.router)

    def cut(self, machine: Namespace, way: str = "", other: Namespace | None = None) -> None:
        """Cut a machine from another one, or from all, also from the router.

        `way`: `out`: what it sends is lost; `in`: what is sent to it; empty: both.
        """
        if way != "in":
            self.lose(machine, other)
        if way != "out":
            self.lose(other, machine)

    def mend(self) -> None:
        """Lose nothing any more."""
        _ip(*[f"rule delete{each}" for each in self._losses], inside=self.router)
        self._losses.clear()


@contextmanager
def network(count: int) -> Iterator[Network]:
    """So many machines for the block.  Raises NoNetwork."""
    _sweep()
    prefix = f"gateway-test-{os.getpid()}-{next(_numbers)}"
    router = Namespace(f"{prefix}-router", "")
    machines = [Namespace(f"{prefix}-{number}", f"198.18.{number}.1") for number in range(count)]
    try:
        _ip(*[f"netns add {each.name}" for each in [router, *machines]])
        _ip(
            # The table of local addresses comes first, where no rule can be in front of it.
            "rule add priority 2 lookup local",
            "rule delete priority 0 lookup local",
            "link set lo up",
            *[command for number, each in enumerate(machines) for command in _port(number, each)],
            inside=router,
        )
        for number, each in enumerate(machines):
            _ip(
                f"address add {each.address}/24 dev eth0",
                "link set lo up",
                "link set eth0 up",
                f"route add default via 198.18.{number}.254",
                inside=each,
            )
        _route(router)
        yield Network(machines, router)
    finally:
        for each in [router, *machines]:
            _remove(each.name)


def _port(number: int, machine: Namespace) -> Sequence[str]:
    """The router's link to a machine."""
    return (
        f"link add port{number} type veth peer name eth0 netns {machine.name}",
        f"address add 198.18.{number}.254/24 dev port{number}",
        f"link set port{number} up",
    )


def _route(router: Namespace) -> None:
    """Let it pass on what is for another machine."""
    with router.inside():  # where this file is one of its own
        try:
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        except OSError as error:
            raise NoNetwork(_sentence(f"{error.filename}: {error.strerror}")) from None


def _sweep() -> None:
    """Remove what killed tests have left."""
    names = [each.name for each in _FOLDER.iterdir()] if _FOLDER.is_dir() else []
    for name in names:
        found = _NAMES.match(name)
        if found and not Path(f"/proc/{found[1]}").exists():
            _remove(name)


def _remove(name: str) -> None:
    """End what runs in a namespace, and remove it."""
    if not (_FOLDER / name).exists():
        return
    with suppress(NoNetwork):  # another test does the same
        for process in _run(["ip", "netns", "pids", name]).split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        _run(["ip", "netns", "delete", name])


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _NEW_NETWORK):
        raise NoNetwork(_sentence(os.strerror(ctypes.get_errno())))


def _ip(*commands: str, inside: Namespace | None = None) -> None:
    where = ["-netns", inside.name] if inside is not None else []
    _run(["ip", *where, "-batch", "-"], "\n".join(commands))


def _run(arguments: Sequence[str], text: str = "") -> str:
    """The output of a command.  Raises NoNetwork: it has failed."""
    try:
        done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True, timeout=_TIMEOUT)
    except OSError as error:
        raise NoNetwork(_sentence(f"{arguments[0]}: {error.strerror}")) from None
    except subprocess.CalledProcessError as error:
        raise NoNetwork(_sentence(" ".join(error.stderr.split()))) from None
    return done.stdout


def _sentence(reason: str) -> str:
    return f"network namespaces do not work here: {reason}: this test needs root, Linux and iproute2"
