"""The C library's allocator: what is freed is kept for what comes next, up to a measure, and given back when asked.

By itself glibc gives back the end of its heap whenever more than a few hundred KiB of it are free, and large bodies
come and go there: each of 1 MiB was mapped anew, zeroed page by page, and unmapped again.  To join one and to copy it
took 1.7 ms on a virtual machine, and takes 0.07 ms in memory that is there already.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_MOST_KEPT = 64 * 1024 * 1024
# A block as large as this is mapped by itself, and unmapped when it is freed.  The library raises its own value up to
# this when large blocks are freed; a fixed 8 MiB doubles what a passcode costs, for which argon2 takes 19 (42 ms).
_LARGE = 32 * 1024 * 1024
_PART = 16


def keep(mark: int) -> None:
    """Keep what is freed, where the C library can: 64 MiB, or less of a small mark.

    Args:
        mark: bytes that the process may take; 0: unknown.
    """
    most = min(_MOST_KEPT, mark // _PART) if mark else _MOST_KEPT
    with suppress(OSError, AttributeError):  # not every library has it
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, most)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


def trim() -> None:
    """Give back to the system what was freed, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
