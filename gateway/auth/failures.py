"""Failed logins by address: who guesses passcodes too often is refused unheard for a while.

An address has `login_attempts` in a minute, from its first failure on.  A success forgets none of them: who has one
right passcode could else guess all others at full speed.  IPv6 clients own a network of 64 bits each, so that counts.

Behind a proxy that is not among trusted_proxies all clients have one address, and share what it may.
"""

from __future__ import annotations

from ipaddress import IPv6Address

import structlog
import trio

from gateway.broker.errors import LoginRefused

MAX_ADDRESSES = 100_000
"""Addresses remembered, at some 200 octets each; then those go whose first failure is oldest."""

_MINUTE = 60.0

log = structlog.get_logger("gateway.auth")


class TooManyFailures(LoginRefused):
    """The address failed too often: nobody looks at what it shows.

    Attributes:
        seconds: after which it is heard again.
    """

    def __init__(self, attempts: int, seconds: float) -> None:
        super().__init__(
            f"{attempts} logins of this address failed in a minute (login_attempts); try again in {seconds:.0f} s",
            message="too many failed logins",
            is_guess=False,
        )
        self.seconds = seconds


def network_of(address: str) -> str:
    """What counts as one client: the address, of IPv6 its network; empty: the unix sockets."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"


class Failures:
    """Those of the last minute.

    Args:
        attempts: how many an address may have.
    """

    def __init__(self, attempts: int = 10) -> None:
        self._attempts = attempts
        self._known: dict[str, _Failed] = {}

    def check(self, address: str) -> None:
        """Refuse an address that has failed too often.

        Raises:
            TooManyFailures: it has.
        """
        failed = self._known.get(network_of(address))
        if failed is not None and failed.count >= self._attempts:
            left = failed.until - trio.current_time()
            if left > 0:
                raise TooManyFailures(self._attempts, left + 0.5)

    def count(self, address: str) -> None:
        """A login of that address has failed."""
        now, network = trio.current_time(), network_of(address)
        failed = self._known.get(network)
        if failed is None or failed.until <= now:
            self._known.pop(network, None)  # a new minute stands at the end
            self._drop_old(now)
            failed = self._known[network] = _Failed(now + _MINUTE)
        failed.count += 1
        if failed.count == self._attempts:
            failed.until = now + _MINUTE
            log.warning(
                "too many failed logins, the address is refused", address=network, login_attempts=self._attempts
            )

    def _drop_old(self, now: float) -> None:
        while self._known:
            oldest = next(iter(self._known))
            if self._known[oldest].until > now and len(self._known) < MAX_ADDRESSES:
                return
            del self._known[oldest]


class _Failed:
    """Failures of one address, and until when they count."""

    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.count = 0
        self.until = until
