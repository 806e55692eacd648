"""Failed logins: who guesses passcodes too often is refused unheard for a while.

They are counted twice, each time from the first failure on: an address has `login_attempts` in a minute, and so has
each login at an address.  A success forgets none of them: who has one right passcode could else guess all others at
full speed.  IPv6 clients own a network of 64 bits each, so that counts.

Behind one address there may be a whole cluster, and a few workers with an old passcode would lock out the others.  So
a login that has succeeded there within a day is heard when its address is refused, until it has used up its own.  At
one login there are no more guesses than an address has; and at those that nobody uses there, in all no more.

Behind a proxy that is not among trusted_proxies all clients have one address, and share what it may.
"""

from __future__ import annotations

import hashlib
import os

import structlog
import trio

from gateway.broker.errors import LoginRefused
from gateway.net.client_address import network_of

MAX_KNOWN = 100_000
"""Addresses that are remembered, and logins at an address, at some 250 octets each: 50 MB when a botnet guesses.  Then
those go whose first failure is oldest."""

MAX_SUCCEEDED = 10_000
"""Logins at an address that are remembered as good, at some 200 octets each: 2 MB.  Then the oldest success goes."""

_MINUTE = 60.0
_DAY = 86_400.0
_KEY = os.urandom(16)

log = structlog.get_logger("gateway.auth")


class TooManyFailures(LoginRefused):
    """The address, or this login there, failed too often: nobody looks at what it shows.

    Attributes:
        seconds: after which it is heard again.
    """

    def __init__(self, attempts: int, seconds: float, whose: str = "of this address") -> None:
        super().__init__(
            f"{attempts} logins {whose} failed in a minute (login_attempts); try again in {seconds:.0f} s",
            message="too many failed logins",
            is_guess=False,
        )
        self.seconds = seconds


class Failures:
    """Those of the last minute.

    Args:
        attempts: how many an address may have, and a login there.
    """

    def __init__(self, attempts: int = 10) -> None:
        self._attempts = attempts
        self._of_addresses = _Counts(attempts)
        self._of_logins = _Counts(attempts)
        self._succeeded: dict[bytes, float] = {}  # until when that helps; the latest success stands last

    def check(self, address: str, login: str = "") -> None:
        """Refuse an address that has failed too often, and a login that has failed there too often.

        Raises:
            TooManyFailures: it has.
        """
        network, now = network_of(address), trio.current_time()
        pair = _pair(network, login)
        left = self._of_addresses.left(network.encode(), now)
        if left > 0 and self._succeeded.get(pair, 0.0) <= now:
            raise TooManyFailures(self._attempts, left + 0.5)
        left = self._of_logins.left(pair, now)
        if left > 0:
            raise TooManyFailures(self._attempts, left + 0.5, "with this name at this address")

    def count(self, address: str, login: str = "") -> None:
        """That login has failed."""
        network, now = network_of(address), trio.current_time()
        is_login_refused = self._of_logins.count(_pair(network, login), now)
        if self._of_addresses.count(network.encode(), now):
            log.warning(
                "too many failed logins, the address is refused", address=network, login_attempts=self._attempts
            )
        elif is_login_refused:
            # Not with which name: some type their passcode there.
            log.warning(
                "too many failed logins with one name, it is refused there",
                address=network,
                login_attempts=self._attempts,
            )

    def succeed(self, address: str, login: str) -> None:
        """The passcode of that login was right."""
        pair = _pair(network_of(address), login)
        self._succeeded.pop(pair, None)
        self._succeeded[pair] = trio.current_time() + _DAY
        if len(self._succeeded) > MAX_SUCCEEDED:
            del self._succeeded[next(iter(self._succeeded))]


def _pair(network: str, login: str) -> bytes:
    """A login at an address, in as many octets however long the login is."""
    text = f"{network}\n{login}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=16).digest()


class _Counts:
    """Failures of the last minute, by whatever they are counted by."""

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._known: dict[bytes, _Failed] = {}

    def left(self, key: bytes, now: float) -> float:
        """Seconds for which that is refused; 0 or less: it is not."""
        failed = self._known.get(key)
        return failed.until - now if failed is not None and failed.count >= self._attempts else 0.0

    def count(self, key: bytes, now: float) -> bool:
        """One more.

        Returns:
            whether that is refused from now on.
        """
        failed = self._known.get(key)
        if failed is None or failed.until <= now:
            self._known.pop(key, None)  # a new minute stands at the end
            self._drop_old(now)
            failed = self._known[key] = _Failed(now + _MINUTE)
        failed.count += 1
        if failed.count == self._attempts:
            failed.until = now + _MINUTE
        return failed.count == self._attempts

    def _drop_old(self, now: float) -> None:
        while self._known:
            oldest = next(iter(self._known))
            if self._known[oldest].until > now and len(self._known) < MAX_KNOWN:
                return
            del self._known[oldest]


class _Failed:
    """Failures of one address, or of one login there, and until when they count."""

    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.count = 0
        self.until = until
