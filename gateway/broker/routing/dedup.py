"""De-duplication: the `dedup-id`s of messages that were routed lately, by destination.

An id counts for `window` seconds from the first message that had it.  Where there are more than `most`, some are
forgotten before that: destinations are dealt out over a few shares, and the oldest id of the largest share goes.

Known weakness: a client that floods many destinations pushes out all ids, for an id says nothing of its sender.
"""

import math
from collections import OrderedDict
from hashlib import blake2b

# The largest is looked for among all of them, with each id beyond `most`: 2 us.
_SHARES = 64


def digest(destination: str, dedup_id: str) -> bytes:
    """The digest by which an id is remembered."""
    # So the length of an id costs nothing.
    return blake2b(f"{destination}\0{dedup_id}".encode(), digest_size=16).digest()


class DedupIds:
    """The de-duplication ids that were seen.  `window`: seconds; 0: nothing is remembered.  `most`: ids."""

    __slots__ = ("_count", "_most", "_restored", "_shares", "_turn", "_window")

    def __init__(self, window: float, most: int) -> None:
        self._window = window
        self._most = most
        self._shares: list[OrderedDict[bytes, float]] = [OrderedDict() for _ in range(_SHARES)]
        self._count = 0
        self._turn = 0
        self._restored: dict[bytes, float] = {}  # of the last process; all over within one window

    def __len__(self) -> int:
        return self._count

    def restore(self, seen: dict[bytes, float]) -> None:
        """Ids of the last process, and until when they count."""
        self._restored = seen

    def is_new(self, destination: str, dedup_id: str, now: float) -> bool:
        """True if that id was not seen at that destination; from now on it was."""
        if not self._window:
            return True
        # Python's own hash is another in each process: no client can choose a name that shares with a given one.
        seen = self._shares[hash(destination) % _SHARES]
        self._forget(seen, now)
        self._turn = (self._turn + 1) % _SHARES
        self._forget(self._shares[self._turn], now)  # one after the other, so that none is left with what is over
        key = digest(destination, dedup_id)
        if key in seen or self._restored.get(key, -math.inf) > now:
            return False
        if self._count >= self._most:
            # A client that floods one destination pushes out the ids of that one, and of the few in the same share.
            max(self._shares, key=len).popitem(last=False)
            self._count -= 1
        seen[key] = now
        self._count += 1
        return True

    def _forget(self, seen: OrderedDict[bytes, float], now: float) -> None:
        """Forget what is behind the window."""
        over = now - self._window
        while seen and next(iter(seen.values())) <= over:
            seen.popitem(last=False)
            self._count -= 1
