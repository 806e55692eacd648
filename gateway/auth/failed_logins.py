"""Failed logins: their count for each address, and the queue in which guesses wait.

Failures count twice, each for a minute from the first one on: an address may have `login_attempts`, and each login at
an address as many.  A success forgets no failure: a client with one right passcode could otherwise guess all others at
full speed.  A client owns all addresses of an IPv6 network of 64 bits, so they count as one.

A whole cluster may share one address, or a proxy that is not in trusted_proxies.  So that a few workers with an old
passcode do not lock out the others, a login that succeeded there within a day is still checked while its address is
refused, until its own count is used up.  A guesser gains nothing: one login has no more guesses than an address.

A gateway with edges has counts in each process.  Each tells the others of its failures and successes, so many processes
give a client no more guesses than one; only those that are checked at the same moment are more.  One that starts gets
what the primary knows.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import structlog
import trio

from gateway.broker.errors import LoginRefused
from gateway.net import network_of

MAX_COUNTED = 100_000
"""Addresses, and logins at an address, that are counted, at some 250 bytes each: 50 MB when a botnet guesses.  The
entry with the oldest first failure goes first."""

MAX_SUCCEEDED = 10_000
"""Logins at an address that are remembered as good, at some 200 bytes each: 2 MB.  The oldest success goes first."""

PLACES = 4  # guesses of one address that are checked at the same time

_MINUTE = 60.0
_DAY = 86_400.0
# Entries of each table that a process gets at its start, the newest: what a flood leaves is no longer than 2 MB.
_MOST_TOLD = 10_000

log = structlog.get_logger("gateway.auth")


class TooManyFailedLogins(LoginRefused):
    """Too many logins of an address, or with one login there, have failed; the credentials were not checked.
    `seconds`: until logins are checked again."""

    def __init__(self, attempts: int, seconds: float, which: str = "of this address") -> None:
        super().__init__(
            f"{attempts} logins {which} failed in a minute (login_attempts); try again in {seconds:.0f} s",
            message="too many failed logins",
            is_guess=False,
        )
        self.seconds = seconds


Entry: TypeAlias = "tuple[bytes, float, int]"
"""A key, seconds until it does not count any more, failures."""


class KnownLogins(NamedTuple):
    """What a process knows of logins: failures of addresses and of logins there, and logins that were right.

    `key`: by which a login at an address was made a key of the tables.
    """

    key: bytes
    of_addresses: Sequence[Entry]
    of_logins: Sequence[Entry]
    succeeded: Sequence[Entry]


class FailedLogins:
    """The failed logins of the last minute: an address, and a login there, may have `attempts` each.

    Attributes:
        on_failed, on_succeeded: called with address and login, for the other processes of the gateway.
        is_told: False: another process writes the lines of the log.
    """

    def __init__(
        self, attempts: int = 10, *, max_counted: int = MAX_COUNTED, max_succeeded: int = MAX_SUCCEEDED
    ) -> None:
        self.on_failed: Callable[[str, str], None] = lambda address, login: None
        self.on_succeeded: Callable[[str, str], None] = lambda address, login: None
        self.is_told = True
        self._attempts = attempts
        self._of_addresses = _Counts(attempts, max_counted)
        self._of_logins = _Counts(attempts, max_counted)
        self._max_succeeded = max_succeeded
        self._succeeded: dict[bytes, float] = {}  # until when the success counts; the latest stands last
        self._key = os.urandom(16)

    def check(self, address: str, login: str = "") -> None:
        """Refuse an address, or a login there, that has failed too often.  Raises TooManyFailedLogins: it has."""
        network, now = network_of(address), trio.current_time()
        pair = self._pair(network, login)
        left = self._of_addresses.left(network.encode(), now)
        if left > 0 and self._succeeded.get(pair, 0.0) <= now:
            raise TooManyFailedLogins(self._attempts, left + 0.5)
        left = self._of_logins.left(pair, now)
        if left > 0:
            raise TooManyFailedLogins(self._attempts, left + 0.5, "with this name at this address")

    def count(self, address: str, login: str = "") -> None:
        """Count a login that has failed in this process."""
        self.on_failed(address, login)
        self.take_failure(address, login)

    def take_failure(self, address: str, login: str) -> None:
        """Count a login that has failed in any process."""
        network, now = network_of(address), trio.current_time()
        is_login_refused = self._of_logins.count(self._pair(network, login), now)
        is_refused = self._of_addresses.count(network.encode(), now)
        if not self.is_told:
            return
        # Without the login: some people type their passcode there.
        if is_refused:
            log.warning(
                "too many failed logins, the address is refused", address=network, login_attempts=self._attempts
            )
        elif is_login_refused:
            log.warning(
                "too many failed logins with one name, it is refused there",
                address=network,
                login_attempts=self._attempts,
            )

    def succeed(self, address: str, login: str) -> None:
        """Remember that the passcode of a login was right in this process."""
        if self._succeeded.get(self._pair(network_of(address), login), 0.0) <= trio.current_time():
            self.on_succeeded(address, login)
        self.take_success(address, login)

    def take_success(self, address: str, login: str) -> None:
        """Remember that the passcode of a login was right in any process."""
        pair = self._pair(network_of(address), login)
        self._succeeded.pop(pair, None)
        self._succeeded[pair] = trio.current_time() + _DAY
        if len(self._succeeded) > self._max_succeeded:
            del self._succeeded[next(iter(self._succeeded))]

    def known(self) -> KnownLogins:
        """What another process has to know at its start, the newest."""
        now = trio.current_time()
        latest = list(islice(reversed(self._succeeded.items()), _MOST_TOLD))[::-1]
        succeeded = [(pair, until - now, 0) for pair, until in latest if until > now]
        return KnownLogins(self._key, self._of_addresses.known(now), self._of_logins.known(now), succeeded)

    def take_known(self, known: KnownLogins) -> None:
        """Take what another process knows, beside what this one knows."""
        now = trio.current_time()
        if known.key != self._key:  # its keys, from now on: what has others is forgotten
            self._key = known.key
            self._of_logins.clear()
            self._succeeded.clear()
        self._of_addresses.take(known.of_addresses, now)
        self._of_logins.take(known.of_logins, now)
        self._succeeded |= {pair: now + left for pair, left, _ in known.succeeded}

    def _pair(self, network: str, login: str) -> bytes:
        """A key for a login at an address, of 16 bytes for a login of any length."""
        text = f"{network}\n{login}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()


class _Counts:
    def __init__(self, attempts: int, limit: int) -> None:
        self._attempts = attempts
        self._limit = limit
        self._counted: dict[bytes, _Count] = {}

    def left(self, key: bytes, now: float) -> float:
        """Seconds for which the key is refused; 0 or less: it is not."""
        found = self._counted.get(key)
        return found.until - now if found is not None and found.failures >= self._attempts else 0.0

    def count(self, key: bytes, now: float) -> bool:
        """Count a failure.  Returns True if the key is refused from now on."""
        found = self._counted.get(key)
        if found is None or found.until <= now:
            self._counted.pop(key, None)  # a new minute stands at the end
            self._drop_old(now)
            found = self._counted[key] = _Count(now + _MINUTE)
        found.failures += 1
        if found.failures == self._attempts:
            found.until = now + _MINUTE
        return found.failures == self._attempts

    def known(self, now: float) -> list[Entry]:
        """The newest keys that count."""
        latest = list(islice(reversed(self._counted.items()), _MOST_TOLD))[::-1]
        return [(key, each.until - now, each.failures) for key, each in latest if each.until > now]

    def take(self, known: Sequence[Entry], now: float) -> None:
        """Take what another process knows: the more failures count."""
        for key, left, failures in known:
            found = self._counted.get(key)
            if found is None or found.until <= now or found.failures < failures:
                self._counted.pop(key, None)
                self._drop_old(now)
                self._counted[key] = _Count(now + left, failures)

    def clear(self) -> None:
        self._counted.clear()

    def _drop_old(self, now: float) -> None:
        while self._counted:
            oldest = next(iter(self._counted))
            if self._counted[oldest].until > now and len(self._counted) < self._limit:
                return
            del self._counted[oldest]


@dataclass(slots=True)
class _Count:
    until: float
    failures: int = 0


class LoginQueue:
    """A queue of guesses for each address, so that a thousand guesses of one address delay no other address.

    An address that fails too often meanwhile is refused in the queue, unchecked: a thousand guesses at once learn no
    more than a thousand one after the other.  `places` guesses of one address are checked at a time.
    """

    def __init__(self, failed: FailedLogins, places: int = PLACES) -> None:
        self.check = failed.check
        self._places = places
        self._queues: dict[str, _Queue] = {}  # an empty queue is removed

    @asynccontextmanager
    async def place(self, address: str, login: str = "") -> AsyncIterator[None]:
        """Wait for a place, and hold it for the block; raises TooManyFailedLogins, perhaps after the wait."""
        self.check(address, login)
        network = network_of(address)
        queue = self._queues.get(network)
        if queue is None:
            queue = self._queues[network] = _Queue(trio.Semaphore(self._places))
        queue.length += 1
        try:
            async with queue.places:
                self.check(address, login)
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[network]


@dataclass(slots=True)
class _Queue:
    """The guesses of one address that wait, or hold a place."""

    places: trio.Semaphore
    length: int = 0
