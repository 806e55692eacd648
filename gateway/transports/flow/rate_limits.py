"""Rate limits: frames and bytes in a second, on average; of one session, of all of a user, of all of an address.

A token bucket holds what may be sent at once, a second's worth; it fills as time goes by, and each chunk takes out what
it had.  A chunk is handled whole, so a bucket may go into debt; then the client is not read until that is paid.

Sessions of one user share a bucket, and so do those of one address.  A session that has taken out of a shared bucket
waits until all debts are paid: so they take turns, and all together come to the limit and no further.  A shared bucket
lasts as long as the sessions that refer to it, and the latest ones some longer: a client that ends its sessions and
comes again owes still, and waits before its first frame.

Anonymous clients share no bucket of a user.  A unix socket has no address, and a trusted proxy stands for many clients
that it does not name: neither has a limit of an address.
"""

from collections import OrderedDict
from collections.abc import Iterator
from weakref import WeakValueDictionary

from gateway.broker.core.ports import ANONYMOUS

from ..wire.forwarded import NO_PROXIES, Trusted
from .connected import TransportOptions
from .connection_limits import network_key

FRAMES, BYTES = "max_frames_per_second", "max_bytes_per_second"
_PER_USER, _PER_ADDRESS = "_per_user", "_per_address"
LIMITS = tuple(limit + sharing for sharing in ("", _PER_USER, _PER_ADDRESS) for limit in (FRAMES, BYTES))
"""The settings, which are also the reasons that clients are blocked for."""

# Bytes of one read, at most and at least: a large one would be a debt of many seconds where little may be sent.
_LARGEST_READ = 64 * 1024
_SMALLEST_READ = 4 * 1024
# Bytes of a small frame.  A debt is one of all sessions that share a bucket, so they are read in chunks that hold no
# more than a quarter of a second's worth of such frames.
_SMALL_FRAME = 64
# Seconds of the shortest wait: a client at its limit is not woken for each frame.
_SHORTEST = 0.05
# Shared buckets that are kept though none of their sessions is left, some 300 bytes each: to be rid of a debt a client
# would need so many other addresses, or names.
_MOST_RECENT = 4_000


class _Bucket:
    """A token bucket of the setting `limit`: what may be sent at once, by one session or by those of `shared_by`."""

    __slots__ = ("__weakref__", "_at", "_level", "limit", "rate", "shared_by")

    def __init__(self, limit: str, rate: int, now: float, shared_by: str = "") -> None:
        self.limit = limit
        self.shared_by = shared_by
        self.rate = rate
        self._level = float(rate)
        self._at = now

    def take(self, count: int, now: float) -> float:
        """Take tokens out; returns the seconds until the debt is paid, 0 where there is none."""
        level = min(self._level + (now - self._at) * self.rate, self.rate) - count
        self._level, self._at = level, now
        return max(0.0, -level / self.rate)


class RateLimit:
    """The limits of one session: its own, and those that it shares."""

    __slots__ = ("_bytes", "_frames", "_frames_before", "read", "reason", "shared_by", "until")

    def __init__(self, frames: list[_Bucket], nbytes: list[_Bucket]) -> None:
        self._frames = frames
        self._bytes = nbytes
        self._frames_before = 0
        most = [each.rate // 4 for each in nbytes]
        most += [each.rate * _SMALL_FRAME // 4 for each in frames if each.shared_by]
        self.read = max(_SMALLEST_READ, min([_LARGEST_READ, *most]))  # bytes of one read
        self.until = 0.0  # trio's clock when the session may be read again
        # The setting that it waits for, and the user or address that shares it; empty: it is the session's own.
        self.reason = self.shared_by = ""

    def is_over(self, frames: int, nbytes: int, now: float) -> bool:
        """True if the client has to wait behind a chunk of `nbytes`; `frames` counts those of the whole session."""
        longest = 0.0
        for buckets, count in ((self._bytes, nbytes), (self._frames, frames - self._frames_before)):
            for bucket in buckets:
                wait = bucket.take(count, now)
                if wait > longest:
                    longest = wait
                    self.reason, self.shared_by = bucket.limit, bucket.shared_by
        self._frames_before = frames
        if not longest:
            return False
        self.until = now + max(longest, _SHORTEST)
        return True


class RateLimits:
    """The limits of all sessions."""

    def __init__(self, options: TransportOptions, most_recent: int = _MOST_RECENT) -> None:
        self._most_recent = most_recent
        self.trusted: Trusted = NO_PROXIES  # their own addresses have no limit
        rates = {limit: rate for limit in LIMITS if (rate := getattr(options, limit))}
        self._are_any = bool(rates)
        self._of_user = {limit: rate for limit, rate in rates.items() if limit.endswith(_PER_USER)}
        self._of_address = {limit: rate for limit, rate in rates.items() if limit.endswith(_PER_ADDRESS)}
        self._own = {limit: rate for limit, rate in rates.items() if limit in (FRAMES, BYTES)}
        self._shared: WeakValueDictionary[tuple[str, str], _Bucket] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def of_session(self, user: str, address: str, now: float) -> RateLimit | None:
        """The limits of a session that begins; None: it has none.  An empty address is a unix socket."""
        if not self._are_any:
            return None
        buckets = [_Bucket(limit, rate, now) for limit, rate in self._own.items()]
        if self._of_user and user != ANONYMOUS:
            buckets += self._share(self._of_user, user, now)
        if self._of_address and address and address not in self.trusted:
            buckets += self._share(self._of_address, network_key(address), now)
        frames = [each for each in buckets if each.limit.startswith(FRAMES)]
        nbytes = [each for each in buckets if each.limit.startswith(BYTES)]
        return RateLimit(frames, nbytes) if buckets else None

    def _share(self, limits: dict[str, int], shared_by: str, now: float) -> Iterator[_Bucket]:
        for limit, rate in limits.items():
            key = (limit, shared_by)
            bucket = self._shared.get(key)
            if bucket is None:
                bucket = self._shared[key] = _Bucket(limit, rate, now, shared_by)
            self._recent[key] = bucket
            self._recent.move_to_end(key)
            if len(self._recent) > self._most_recent:
                self._recent.popitem(last=False)
            yield bucket
