"""Process memory: how much the process takes and may take, and how much of what is freed the C library keeps.

By itself glibc gives back the end of its heap whenever more than a few hundred KiB of it are free.  Large bodies come
and go there: to join one of 1 MiB and to copy it took 1.7 ms, and takes 0.07 ms in memory that is there already.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog

from gateway.broker import Quotas

from .memory_guard import MemoryGuard

log = structlog.get_logger("gateway.memory")

# Bytes that messages may take however small the mark is.
_LEAST_LIMIT = 1024 * 1024

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_MOST_KEPT = 64 * 1024 * 1024
# A block as large as this is mapped by itself, and unmapped when it is freed.  The library raises its own value up to
# this when large blocks are freed; a fixed 8 MiB doubles what a passcode costs, for which argon2 takes 19 (42 ms).
_LARGE = 32 * 1024 * 1024
_KEPT_PART = 16


def mark_of(wanted: int) -> tuple[int, str]:
    """The mark in force by the setting, in bytes, and where it comes from, in words; 0: the system does not tell."""
    most, owner = available()
    return wanted or most * 3 // 4, "memory_mark" if wanted else f"memory_mark, 3/4 of what {owner} has"


def within_mark(quotas: Quotas, wanted: int, processes: int = 1) -> Quotas:
    """The quotas, with a `memory_limit` that the mark has room for beside so many processes like this one.

    The process is looked at some times a second, messages are counted as they come: only a limit of theirs keeps many
    publishers that begin at once from passing the mark between two looks.
    """
    mark, name = mark_of(wanted)
    left = max(mark - processes * resident(), _LEAST_LIMIT)
    if not mark or quotas.memory_limit <= left:
        return quotas
    log.info(f"memory_limit is taken as {left} and not {quotas.memory_limit} bytes: {mark} may be taken ({name})")
    return replace(quotas, memory_limit=left)


def watch_process(guard: MemoryGuard, wanted: int, *, is_told: bool = True) -> None:
    """Have the guard look at the memory of this process, by the setting `memory_mark`; `is_told`: the log says what is
    wrong with that."""
    most, owner = available()
    mark, name = mark_of(wanted)
    keep_freed(mark)
    if not mark or not resident():
        if is_told:
            log.info("memory is not watched: this system does not tell how much there is, or is taken")
        return
    if is_told and most and wanted > most:
        log.warning(f"memory_mark is {wanted} bytes and {owner} has {most}: the system ends the process before that")
    guard.watch(mark, name, resident, trim)


def resident(root: Path = Path("/")) -> int:
    """Bytes of memory that this process takes; 0 where the system does not tell."""
    try:
        return int((root / "proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def available(root: Path = Path("/")) -> tuple[int, str]:
    """Bytes of memory that this process may ever take, and their owner in words; 0 where the system does not tell."""
    found = [(size, "the container") for size in _of_groups(root)]
    if total := physical():
        found.append((total, "the machine"))
    return min(found, default=(0, ""))


def physical() -> int:
    """Bytes of memory that the machine has, also where /proc shows processes alone; 0 where it does not tell."""
    try:
        return max(0, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return 0


def _of_groups(root: Path) -> Iterator[int]:
    """The limits of the control groups that this process is in, and of those around them (versions 1 and 2)."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = ("memory", "memory.limit_in_bytes") if controllers else (".", "memory.max")
        folder = root / "sys/fs/cgroup" / base
        group = folder / path.lstrip("/")
        # The names are those of the host where the container does not see its own alone: then only the root is there.
        for place in [group, *[each for each in group.parents if each.is_relative_to(folder)]]:
            with suppress(OSError, ValueError):  # not there, or "max"
                yield int((place / name).read_text())


def keep_freed(mark: int) -> None:
    """Have the C library keep freed memory, where it can: 64 MiB, or less of a small mark; 0: the mark is unknown."""
    most = min(_MOST_KEPT, mark // _KEPT_PART) if mark else _MOST_KEPT
    with suppress(OSError, AttributeError):  # not every library has it
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, most)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


def trim() -> None:
    """Give freed memory back to the system, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
