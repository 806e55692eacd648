"""De-duplication: the `dedup-id`s of messages that were routed lately, by destination.

An id counts for `window` seconds from the first message that had it, and the oldest are forgotten before that where
there are more than `most`.  Only digests are kept, so that the length of an id costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b


class DedupIds:
    """What was seen.

    Args:
        window: seconds; 0: nothing is remembered.
        most: ids.
    """

    __slots__ = ("_most", "_seen", "_window")

    def __init__(self, window: float, most: int) -> None:
        self._window = window
        self._most = most
        self._seen: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def is_new(self, destination: str, dedup_id: str, now: float) -> bool:
        """Whether that id was not seen at that destination; from now on it was."""
        seen = self._seen
        while seen and next(iter(seen.values())) <= now - self._window:
            seen.popitem(last=False)
        key = blake2b(f"{destination}\0{dedup_id}".encode(), digest_size=16).digest()
        if key in seen:
            return False
        if self._window:
            seen[key] = now
            if len(seen) > self._most:
                seen.popitem(last=False)
        return True
