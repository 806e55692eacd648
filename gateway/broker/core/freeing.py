"""Freeing in steps: a client may leave so much memory behind that freeing it at once takes long.

To give 1 MiB back to the system takes 0.1 ms, so a transaction or an outbox of 16 MiB would hold up all others for
2 ms in one turn; an outbox of small frames has some hundred thousand parts, and takes longer.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice

_BYTES_PER_STEP = 2 * 1024 * 1024
_BUFFERS_PER_STEP = 2048


def freeing(lists: Iterable[list[bytes] | list[bytes | memoryview]]) -> Iterator[None]:
    """Empty all of them in steps; others may have their turn between two.

    `lists`: of bytes that have hardly any other reference.
    """
    # Emptied as they are: to copy such a list takes as long as to free it.
    for buffers in lists:
        while buffers:
            # Of small ones there are so many that a loop over them would take twice as long.
            sizes = list(accumulate(map(len, islice(reversed(buffers), _BUFFERS_PER_STEP))))
            del buffers[-1 - bisect_right(sizes, _BYTES_PER_STEP, 0, len(sizes) - 1) :]
            if buffers:
                yield
