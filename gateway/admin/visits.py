"""Who has logged in at the console: a table in memory, and the signed cookie that names a line of it.

The cookie holds a random word and nothing else.  So a logout is one for good, nothing of a user can be read from it,
and the signature keeps whoever makes words up from the table.  The key lives and dies with the process, as the table
does: after a restart everybody logs in once more.

Who logged in as a user of the users file is looked at again when that has been read again (SIGHUP): whoever is gone,
has another passcode, or is in none of the groups any more, is out.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field

import structlog
import trio
from itsdangerous import BadSignature, Signer

from gateway.broker.errors import SessionEnded
from gateway.broker.model.identity import Identity

log = structlog.get_logger("gateway.admin")

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
        ended: before that time.
        identity: what was found out at the login; None: nothing, it was the admin token.
    """

    word: str
    user: str
    csrf: str
    until: float
    ended: trio.Event = field(default_factory=trio.Event, compare=False)
    identity: Identity | None = field(default=None, compare=False)

    async def over(self) -> str:
        """Wait until it is over; returns why, in words for whoever had logged in."""
        with trio.move_on_at(self.until):
            await self.ended.wait()
            return "this login has ended, log in again"
        return "this login has expired, log in again"


class Visits:
    """All of them; see `gateway.runtime.reload.Reloadable`.

    Attributes:
        name: for the log.

    Args:
        groups: a user must be in one of these.
    """

    name = "logins at the console"

    def __init__(self, groups: Collection[str] = ()) -> None:
        self._groups = groups
        self._signer = Signer(secrets.token_bytes(32), salt=COOKIE)
        self._known: dict[str, Visit] = {}

    def begin(self, user: str, seconds: float = LIFETIME, identity: Identity | None = None) -> Visit:
        """Somebody has logged in.

        Args:
            seconds: for which that is good; more than `LIFETIME` is not.
            identity: of a user.
        """
        while len(self._known) >= MOST:
            self.end(next(iter(self._known.values())))
        until = trio.current_time() + min(seconds, LIFETIME)
        visit = Visit(secrets.token_urlsafe(24), user, secrets.token_urlsafe(24), until, identity=identity)
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

    def end_by_token(self) -> None:
        """There is another admin token: the visits end that began with the one before."""
        for visit in [each for each in self._known.values() if each.identity is None]:
            self.end(visit)

    def reload(self) -> str | None:
        """Others have read their files again: end the visits of who could not log in any more."""
        for visit in list(self._known.values()):
            why = self._lost(visit)
            if why:
                log.info("console login revoked", user=visit.user, reason=why)
                self.end(visit)
        return None

    def _lost(self, visit: Visit) -> str:
        """Why that visit is one no longer; empty: it is."""
        identity = visit.identity
        if identity is None or identity.review is None:
            return ""
        try:
            now = identity.review(identity)
        except SessionEnded as error:
            return str(error)
        return "" if now.groups & set(self._groups) else "in none of admin_groups"

    def end(self, visit: Visit) -> None:
        """Somebody has logged out."""
        self._known.pop(visit.word, None)
        visit.ended.set()
