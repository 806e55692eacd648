"""Tickets: one-time credentials that a page gets for its login, and shows in the upgrade of its WebSocket.

A page can put nothing of its own into an upgrade but the URL, and logs hold URLs.  So a ticket is good once, for some
seconds, and stands for a user that has logged in.  The process that issues tickets keeps them in memory; an edge asks
it.
"""

import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

import trio

from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

PREFIX = "ticket-"  # the start of every ticket, by which a ticket in a passcode is known
_SHARE = 4  # one user may have at most this part of all tickets (1/4), so that other users still get theirs


class TooManyTickets(Exception):
    """No more tickets can be issued now; `str()` is a sentence that names the limit."""


class Tickets:
    """The unused tickets: `most` at once, each good for `lifetime` seconds.

    Attributes:
        ask: redeems a ticket in the process that issues them; None: it is this one.
    """

    def __init__(self, lifetime: float = 30.0, most: int = 10_000) -> None:
        self.lifetime = lifetime
        self.ask: Callable[[str], Awaitable[Identity]] | None = None
        self._most = most
        self._most_of_user = max(most // _SHARE, 1)
        self._waiting: dict[str, Identity] = {}
        self._of_user: Counter[str] = Counter()
        self._ends: deque[tuple[float, str]] = deque()  # in order of age: all have one lifetime

    def __len__(self) -> int:
        self._drop_old()
        return len(self._waiting)

    def issue(self, identity: Identity) -> str:
        """A new ticket for a user that has logged in.  Raises TooManyTickets: too many are unused."""
        self._drop_old()
        if len(self._waiting) >= self._most:
            raise TooManyTickets(f"{self._most} tickets are unused (max_tickets); try again in a moment")
        if self._of_user[identity.user] >= self._most_of_user:
            raise TooManyTickets(
                f"{self._most_of_user} tickets of this user are unused, a quarter of max_tickets; use those first"
            )
        ticket = PREFIX + secrets.token_urlsafe(24)
        self._waiting[ticket] = identity
        self._of_user[identity.user] += 1
        self._ends.append((trio.current_time() + self.lifetime, ticket))
        return ticket

    async def identify(self, ticket: str) -> Identity:
        """As `redeem`, in the process that has the ticket."""
        return self.redeem(ticket) if self.ask is None else await self.ask(ticket)

    def redeem(self, ticket: str) -> Identity:
        """The user of a ticket, which is used up; raises LoginRefused, which does not tell why."""
        self._drop_old()
        identity = self._take(ticket)
        if identity is None:
            detail = f"the ticket is unknown, was used before, or is older than {self.lifetime:g} s (ticket_lifetime)"
            # A ticket cannot be guessed, and a page that retries with an old one must not lock out its whole office.
            raise LoginRefused(detail, is_guess=False, method="ticket", why=detail)
        return replace(identity, method="ticket")

    def _take(self, ticket: str) -> Identity | None:
        identity = self._waiting.pop(ticket, None)
        if identity is not None:
            self._of_user[identity.user] -= 1
            if not self._of_user[identity.user]:
                del self._of_user[identity.user]
        return identity

    def _drop_old(self) -> None:
        now = trio.current_time()
        while self._ends and self._ends[0][0] <= now:
            self._take(self._ends.popleft()[1])
