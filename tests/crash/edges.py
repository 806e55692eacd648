"""Edges of a gateway, seen from outside: which clients they have, and what happens to them.

The log of the gateway says which processes they are.  Which client is at which edge, the kernel says.  A link is cut by
shutting down its socket, of which the kernel gives us a copy; it does so to root, and to those who may trace the edge.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

_PIDFD_GETFD = 438
_ESTABLISHED = "01"
_libc = ctypes.CDLL(None, use_errno=True)


class EdgeProcess:
    """The process of an edge, which the gateway started."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self._pid = pid
        # Unlike its number, this never stands for another process.
        self._handle = os.pidfd_open(pid)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    @property
    def has_ended(self) -> bool:
        return bool(select.select([self._handle], [], [], 0)[0])

    def clients(self) -> set[int]:
        """The ports of its clients."""
        inodes = {inode for _, inode in self._sockets()}
        found = set()
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _ESTABLISHED and fields[9] in inodes:
                found.add(int(fields[2].rpartition(":")[2], 16))
        return found

    def cut_link(self, gateway: int) -> bool:
        """Shut down its socket to the gateway, which has that pid; False: the system does not allow it."""
        for descriptor, _ in self._sockets():
            copy = _libc.syscall(_PIDFD_GETFD, self._handle, descriptor, 0)
            if copy < 0:
                continue
            with closing(socket.socket(fileno=copy)) as found:
                # What the gateway made before the edge was there.
                if found.family == socket.AF_UNIX and _maker(found) == gateway:
                    found.shutdown(socket.SHUT_RDWR)
                    return True
        return False

    def _sockets(self) -> Iterator[tuple[int, str]]:
        """Descriptors, and the inodes that the kernel's tables name them by."""
        with suppress(FileNotFoundError):
            for each in Path(f"/proc/{self._pid}/fd").iterdir():
                with suppress(FileNotFoundError):
                    kind, _, inode = os.readlink(each).partition(":")
                    if kind == "socket":
                        yield int(each.name), inode.strip("[]")

    def close(self) -> None:
        """Kill it, if it is still there."""
        self.signal(signal.SIGKILL)
        os.close(self._handle)


def _maker(found: socket.socket) -> int:
    """The process that made a pair of sockets."""
    pid, _, _ = struct.unpack("3i", found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)
