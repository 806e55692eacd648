"""Tickets: what a page gets for its login, to show once where it cannot show that.

A browser puts neither headers nor anything else into the upgrade of a WebSocket but its address, and addresses stand in
logs.  A ticket may: it is good once, for some seconds, and stands for somebody who has logged in already.

They are kept in memory, by the one process that gives them out.
"""

from __future__ import annotations

import secrets
from collections import Counter, deque
from dataclasses import replace

import trio

from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Identity

PREFIX = "ticket-"
"""What each starts with, so that one is known in a passcode, too."""

_SHARE = 4
"""No user has more than this part of all: another one's page still gets its own."""


class TooManyTickets(Exception):
    """No more can be given out now; `str()` is a sentence that names the limit."""


class Tickets:
    """Those that wait to be used.

    Attributes:
        lifetime: seconds for which one is good.

    Args:
        most: how many may wait at once.
    """

    def __init__(self, lifetime: float = 30.0, most: int = 10_000) -> None:
        self.lifetime = lifetime
        self._most = most
        self._most_of_user = max(most // _SHARE, 1)
        self._waiting: dict[str, Identity] = {}
        self._of_user: Counter[str] = Counter()
        self._ends: deque[tuple[float, str]] = deque()  # all live equally long: the oldest ends first

    def __len__(self) -> int:
        self._drop_old()
        return len(self._waiting)

    def issue(self, identity: Identity) -> str:
        """A new one, for somebody who has logged in.

        Raises:
            TooManyTickets: too many wait already.
        """
        self._drop_old()
        if len(self._waiting) >= self._most:
            raise TooManyTickets(f"{self._most} tickets wait to be used (max_tickets); try again in a moment")
        if self._of_user[identity.user] >= self._most_of_user:
            raise TooManyTickets(
                f"{self._most_of_user} tickets of this user wait to be used, a quarter of max_tickets; use those first"
            )
        ticket = PREFIX + secrets.token_urlsafe(24)
        self._waiting[ticket] = identity
        self._of_user[identity.user] += 1
        self._ends.append((trio.current_time() + self.lifetime, ticket))
        return ticket

    def redeem(self, ticket: str) -> Identity:
        """Whom a ticket stands for; it is used up by that.

        Raises:
            LoginRefused: it is unknown, used or too old; which one, nobody is told.
        """
        self._drop_old()
        identity = self._take(ticket)
        if identity is None:
            detail = f"the ticket is unknown, was used before, or is older than {self.lifetime:g} s (ticket_lifetime)"
            # Nobody guesses one; but a page that dials again and again with its old one would lock its office out.
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
