"""The machine: which core runs what, what the generator's process needs, and what the kernel alone takes.

Affinity is inherited, so the server is started while this process stands on the server's core.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

SERVER_CORE, GENERATOR_CORE = 0, 1
# 2,000 idle connections and some air; the server inherits it.
DESCRIPTORS = 8192
# From <malloc.h> and <sys/prctl.h>.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _PR_SET_TIMERSLACK = -1, -3, 29
_SOCKETS, _ROUNDS, _MESSAGE = 100, 100, bytes(222)
_SYNCS, _PAGE = 100, bytes(8192)
# File systems that lose everything with the power: waiting for them costs nothing.
IN_MEMORY = ("tmpfs", "ramfs")


def prepare() -> str:
    """Make this process a good generator, and say in words where everything runs.

    Large reads must not map and unmap memory each time (9 us a read), and a pause of 50 us must not take 120.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_TIMERSLACK, 1_000, 0, 0, 0)
    if hasattr(library, "mallopt"):  # glibc has it; elsewhere the generator is a little dearer
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
    if not _two_cores():
        return "server and generator share a core, so rates are low; CPU figures hold"
    os.sched_setaffinity(0, {GENERATOR_CORE})
    return f"server on core {SERVER_CORE}, generator on core {GENERATOR_CORE}"


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Stand on this core inside the block, and on the generator's after it; nothing happens on a single core."""
    if not _two_cores():
        yield
        return
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, {GENERATOR_CORE})


@contextmanager
def on_any_core() -> Iterator[None]:
    """Stand on all cores inside the block, for what is neither server nor generator."""
    os.sched_setaffinity(0, _allowed)
    try:
        yield
    finally:
        if _two_cores():
            os.sched_setaffinity(0, {GENERATOR_CORE})


@dataclass(frozen=True)
class Bare:
    """What the kernel alone takes, in microseconds; no server can do with less, so it says what machine it was.

    Attributes:
        send: see `bare_send`.
        sync: see `bare_sync`; None: no row is about a disk.
        disk: the type of file system that it was measured on.
    """

    send: float
    sync: float | None
    disk: str

    @classmethod
    def measured(cls, disk: Path | None) -> Bare:
        """Measure both, or only the first where there is no folder."""
        if disk is None:
            return cls(bare_send(), None, "")
        return cls(bare_send(), bare_sync(disk), file_system(disk))

    def __str__(self) -> str:
        sync = "" if self.sync is None else f", a bare fdatasync() of 8 KiB {self.sync:,.0f} us on {self.disk}"
        return f"a bare send() of one message to each of 100 sockets took {self.send:.1f} us{sync}"


def bare_send() -> float:
    """Microseconds of one `send()` of one message to one of 100 loopback sockets, read from the other core.

    No server can deliver a message alone for less, so it says what machine the row `fan100x1` ran on.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        pairs = []
        for _ in range(_SOCKETS):
            near = stack.enter_context(socket.create_connection(listener.getsockname()))
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pairs.append((near, stack.enter_context(listener.accept()[0])))
        spent = []
        for _ in range(_ROUNDS):
            with on_core(SERVER_CORE):
                start = time.perf_counter()
                for near, _ in pairs:
                    near.send(_MESSAGE)
                spent.append(time.perf_counter() - start)
            for _, far in pairs:
                far.recv(len(_MESSAGE))
    return median(spent) / _SOCKETS * 1e6


def bare_sync(folder: Path) -> float:
    """Microseconds of writing 8 KiB behind the end of a file and waiting until the disk has it.

    No store can make one lone message durable in less.
    """
    spent = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(_SYNCS):
            start = time.perf_counter()
            file.write(_PAGE)
            os.fdatasync(file.fileno())
            spent.append(time.perf_counter() - start)
    return median(spent) * 1e6


def file_system(folder: Path) -> str:
    """The type of the file system that a folder is on, as Linux calls it: `ext4`, `tmpfs`."""
    found = ("", "unknown")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, behind = line.partition(" - ")
        mounted = before.split()[4]
        if len(mounted) >= len(found[0]) and folder.resolve().is_relative_to(mounted):
            found = (mounted, behind.split()[0])
    return found[1]


def disk_folder() -> Path:
    """A folder for temporary files that, as a rule, is on a disk also where that of short-lived ones is in memory."""
    lasting = Path("/var/tmp")
    return lasting if os.access(lasting, os.W_OK) else Path(tempfile.gettempdir())


def _two_cores() -> bool:
    return {SERVER_CORE, GENERATOR_CORE} <= _allowed


_allowed = os.sched_getaffinity(0)
