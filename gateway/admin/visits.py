"""Who has logged in at the console: a table in memory, and the signed cookie that names a line of it.

The cookie holds a random word and nothing else.  So a logout is one for good, nothing of a user can be read from it,
and the signature keeps whoever makes words up from the table.  The key lives and dies with the process, as the table
does: after a restart everybody logs in once more.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import trio
from itsdangerous import BadSignature, Signer

COOKIE = "gateway_console"
LIFETIME = 12 * 3600.0
"""Seconds: a working day, so that nobody has to log in twice in one."""

MOST = 1_000
"""Visits at once, some 300 octets each; then the oldest goes."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody who has logged in.

    Attributes:
        word: that the cookie holds.
        user: the name.
        csrf: what the page must show with every change.
        until: it ends, by trio's clock.
    """

    word: str
    user: str
    csrf: str
    until: float


class Visits:
    """All of them."""

    def __init__(self) -> None:
        self._signer = Signer(secrets.token_bytes(32), salt=COOKIE)
        self._known: dict[str, Visit] = {}

    def begin(self, user: str, seconds: float = LIFETIME) -> Visit:
        """Somebody has logged in.

        Args:
            seconds: for which that is good; more than `LIFETIME` is not.
        """
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        until = trio.current_time() + min(seconds, LIFETIME)
        visit = Visit(secrets.token_urlsafe(24), user, secrets.token_urlsafe(24), until)
        self._known[visit.word] = visit
        return visit

    def cookie_of(self, visit: Visit) -> str:
        """The value of its cookie."""
        return self._signer.sign(visit.word).decode()

    def find(self, cookie: str) -> Visit | None:
        """The visit of a cookie's value; None: there is none, or it has ended."""
        try:
            visit = self._known.get(self._signer.unsign(cookie).decode())
        except (BadSignature, ValueError):
            return None
        if visit is not None and visit.until <= trio.current_time():
            self.end(visit)
            return None
        return visit

    def end(self, visit: Visit) -> None:
        """Somebody has logged out."""
        self._known.pop(visit.word, None)
