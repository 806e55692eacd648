"""Console sessions: a table in memory, and the signed cookie that names one of its entries.

The cookie holds a random key and nothing else, so a logout is final.  The signature keeps made-up keys away from the
table; its key lives as long as the process, like the table.  A session of a user of the users file ends when that file
has been read again, and the user is gone, has another passcode, or is in none of the groups any more.
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
LIFETIME = 12 * 3600.0  # seconds: a working day, so that operators log in once a day
MAX_SESSIONS = 1_000  # sessions at once, some 300 bytes each; then the oldest ends


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """The time between a login at the console and its end."""

    key: str  # that the cookie holds
    user: str
    csrf: str  # the word that the page must send with each change
    until: float  # by trio's clock
    ended: trio.Event = field(default_factory=trio.Event, compare=False)  # before that time
    identity: Identity | None = field(default=None, compare=False)  # None: the login was by the admin token

    async def over(self) -> str:
        """Wait until it is over; returns why, in words for its user."""
        with trio.move_on_at(self.until):
            await self.ended.wait()
            return "this login has ended, log in again"
        return "this login has expired, log in again"


class ConsoleSessions:
    """All sessions of the console; see `gateway.runtime.reload.Reloadable`."""

    name = "logins at the console"

    def __init__(self, groups: Collection[str] = (), max_sessions: int = MAX_SESSIONS) -> None:
        self._groups = groups
        self._max_sessions = max_sessions
        self._signer = Signer(secrets.token_bytes(32), salt=COOKIE)
        self._known: dict[str, ConsoleSession] = {}

    def begin(self, user: str, seconds: float = LIFETIME, identity: Identity | None = None) -> ConsoleSession:
        """Begin a session of so many seconds, at most `LIFETIME`; `identity` is that of a user."""
        while len(self._known) >= self._max_sessions:
            self.end(next(iter(self._known.values())))
        until = trio.current_time() + min(seconds, LIFETIME)
        session = ConsoleSession(secrets.token_urlsafe(24), user, secrets.token_urlsafe(24), until, identity=identity)
        self._known[session.key] = session
        return session

    def cookie_of(self, session: ConsoleSession) -> str:
        return self._signer.sign(session.key).decode()

    def find(self, cookie: str) -> ConsoleSession | None:
        """The session of a cookie's value; None: there is none, or it has ended."""
        try:
            session = self._known.get(self._signer.unsign(cookie).decode())
        except (BadSignature, ValueError):
            return None
        if session is not None and session.until <= trio.current_time():
            self.end(session)
            return None
        return session

    def end_by_token(self) -> None:
        """There is another admin token: end the sessions that began with the one before."""
        for session in [each for each in self._known.values() if each.identity is None]:
            self.end(session)

    def reload(self) -> str | None:
        """Users were read again: end the sessions of those that could not log in any more."""
        for session in list(self._known.values()):
            why = self._lost(session)
            if why:
                log.info("console login revoked", user=session.user, reason=why)
                self.end(session)
        return None

    def _lost(self, session: ConsoleSession) -> str:
        """Why its user could not log in any more; empty: the user could."""
        identity = session.identity
        if identity is None or identity.review is None:
            return ""
        try:
            now = identity.review(identity)
        except SessionEnded as error:
            return str(error)
        return "" if now.groups & set(self._groups) else "in none of admin_groups"

    def end(self, session: ConsoleSession) -> None:
        self._known.pop(session.key, None)
        session.ended.set()
