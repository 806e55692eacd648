"""A disk that is full, and has room again: a small file system in memory, or a limit for the gateway's files.

A file system of its own needs root and the right to mount; the limit works for everybody, but what SQLite hears is not
the same: of a full file system it hears ENOSPC, of the limit EFBIG.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SIZE = 48 * 1024 * 1024
# What the store may still grow by when the disk is made small.
_LITTLE = 400 * 1024
_MOUNT = 10.0


class FileSystem:
    """A small one, mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, process: int) -> None:
        system = os.statvfs(self.folder)
        self._filler.write_bytes(bytes(max(system.f_bavail * system.f_frsize - _LITTLE, 0)))

    def free(self, process: int) -> None:
        self._filler.unlink()


class Limit:
    """The size that files of a process may have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, process: int) -> None:
        """No file of that process may become much larger than the largest."""
        largest = max(path.stat().st_size for path in self.folder.iterdir())
        self._limit(process, largest + _LITTLE)

    def free(self, process: int) -> None:
        self._limit(process, resource.RLIM_INFINITY)

    def _limit(self, process: int, octets: int) -> None:
        hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process, resource.RLIMIT_FSIZE, (octets, hard))


Disk = FileSystem | Limit


@contextmanager
def file_system() -> Iterator[FileSystem | None]:
    """A small file system; None: it cannot be had here."""
    with tempfile.TemporaryDirectory(prefix="crash-disk-") as folder:
        if not _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "none", folder):
            yield None
            return
        try:
            yield FileSystem(Path(folder))
        finally:
            _run("umount", "--lazy", folder)


def _run(*command: str) -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run(command, capture_output=True, timeout=_MOUNT, check=False).returncode == 0
    except OSError:
        return False
