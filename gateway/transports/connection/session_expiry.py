"""How long a session lasts: as long as the token, the cookie or the certificate that its client has shown.

    token_warning before the end    a MESSAGE on `/session/events`, and a line in the log
    SEND to `/session/renew`        a new token; the session goes on, as long as that one lasts
    the end                         ERROR, and the connection is closed
    files were read again           ERROR, where what let the client in is good no more; else the groups of now

A `Lifetime` stands on the wheel, as a pulse does, and only where there is an end.  It looks at the epoch's clock at
least once a minute, for the wheel's clock stands still while a machine sleeps.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

import structlog
import trio

from gateway.broker import Session
from gateway.broker.core import authorization
from gateway.broker.errors import NOT_A_USER, LoginRefused, RenewalRefused, SessionEnded
from gateway.broker.model.destinations import RENEW
from gateway.broker.model.identity import Credentials, Identity, Renewal
from gateway.broker.session import renewal

from ..server import Server
from ..wire.link import Link
from .authenticate import identify, tell_of_login

log = structlog.get_logger("gateway.expiry")

# Seconds between looks at the clock.
_LONGEST_LOOK = 60.0
# Seconds between attempts to warn a client that has not subscribed to its events yet.
_NEXT_ATTEMPT = 1.0
# Seconds from one renewal to the next, which waits: each leaves something on the wheel for a minute.
_NEXT_RENEWAL = 1.0
# Sessions that end in one turn, or whose subscriptions are looked at: each may wake a task, and all these run before
# anybody else.
_FOLLOWS_PER_TURN = 8

# Instead of what is said of login and passcode, which are not what renews a session.
_NO_TOKEN = "what it shows is no token that this server accepts, and does not look like one"

_SHOWN = {"certificate": "certificate", "cookie": "cookie"}


class Lifetime:
    """Stands on the wheel until a session's time is over."""

    __slots__ = ("_identity", "_logged", "_server", "_session", "_told")

    def __init__(self, server: Server, session: Session, identity: Identity) -> None:
        self._server = server
        self._session: Session | None = session
        self._identity = identity
        self._told = self._logged = False
        server.timers.add(self, trio.current_time())

    def stop(self) -> None:
        """The session has ended, or lasts longer."""
        self._session = None

    def tick(self, now: float) -> float:
        """Warn, or end the session, if it is time; see `Timed`."""
        session, server = self._session, self._server
        if session is None:
            return math.inf
        left = self._identity.expires - server.broker.scheduler.epoch()
        if left <= 0:
            self._end(session)
            return math.inf
        until_warning = left - server.options.token_warning
        if until_warning > 0:
            return now + min(until_warning, _LONGEST_LOOK)
        if not self._told:
            self._warn(session, left)
        return now + min(left, _LONGEST_LOOK if self._told else _NEXT_ATTEMPT)

    def _warn(self, session: Session, left: float) -> None:
        what = self._what
        if not self._logged:
            self._logged = True
            log.info(f"{what} expires soon", session=session.id, login=session.login, seconds=round(left, 1))
        self._told = renewal.tell(
            session,
            f"{what}-expiring",
            {"expires-in": str(math.ceil(left))},
            f"the {what} expires in {math.ceil(left)} s, and the session with it; SEND a new token to {RENEW}",
        )

    def _end(self, session: Session) -> None:
        what = self._what
        log.info(f"{what} expired", session=session.id, login=session.login, peer=session.peer)
        detail = (
            f"the {what} that the session began with, or was renewed with, was good until now; log in with a new one"
        )
        session.end(SessionEnded(f"{what} expired", detail))

    @property
    def _what(self) -> str:
        return _SHOWN.get(self._identity.method, "token")


class SessionExpiry:
    """The time of one session: who its client is, for how long, and what it takes to stay.

    Attributes:
        identity: as it was last found out.
    """

    __slots__ = ("_lifetime", "_link", "_lost", "_renewable", "_server", "_session", "identity")

    def __init__(self, server: Server, link: Link, session: Session, identity: Identity) -> None:
        self._server = server
        self._link = link
        self._session = session
        self._lifetime: Lifetime | None = None
        self._lost: SessionEnded | None = None
        self._renewable = -math.inf  # from then on, by trio's clock
        self._begin(identity)

    def _begin(self, identity: Identity) -> None:
        self.stop()
        self.identity = identity
        if identity.expires != math.inf:
            self._lifetime = Lifetime(self._server, self._session, identity)

    def stop(self) -> None:
        """The session has ended."""
        if self._lifetime is not None:
            self._lifetime.stop()
            self._lifetime = None

    async def renew(self, asked: Renewal) -> None:
        """Have somebody say whether the session may last longer; the end of one that may not."""
        session = self._session
        await trio.sleep_until(self._renewable)
        self._renewable = trio.current_time() + _NEXT_RENEWAL
        try:
            with trio.fail_after(self._server.options.connect_timeout):
                identity = await identify(self._server, self._shown(asked))
        except LoginRefused as error:
            is_vague = error.method == "none" or error.detail.startswith(NOT_A_USER)
            self._refuse(_NO_TOKEN if is_vague else error.detail, asked, why=error.why)
        except trio.TooSlowError:
            self._refuse(f"nobody said so within {self._server.options.connect_timeout:g} s (connect_timeout)", asked)
        except Exception:
            log.exception("a renewal failed", session=session.id)
            self._refuse("the server failed to find out who it is; its log says more", asked)
        else:
            if identity.user != session.login:
                self._refuse("what it shows is somebody else's; connect anew to be another user", asked)
            else:
                self._go_on(identity)

    def review(self) -> bool:
        """Files were read again.  True: the client has other groups by now, which count from here on, or is nobody any
        more; what follows of that is for `follow`."""
        identity = self.identity
        if identity.review is None or self._lost is not None:
            return False
        try:
            self.identity = identity.review(identity)
        except SessionEnded as error:
            self._lost = error
            return True
        if self.identity.groups == identity.groups:
            return False
        self._regroup()
        return True

    def follow(self) -> None:
        """End the session of a client that is nobody any more, or that has lost what it is subscribed to."""
        session, error = self._session, self._lost
        if session.outbox.carrier is None:
            return  # it has ended meanwhile
        if error is not None:
            log.info("login revoked", session=session.id, login=session.login, peer=session.peer, reason=str(error))
            session.end(error)
        else:
            groups = sorted(self.identity.groups)
            log.info("groups changed", session=session.id, login=session.login, peer=session.peer, groups=groups)
            authorization.recheck_session(session)

    def _regroup(self) -> None:
        self._session.access = self._server.access_of(self.identity, self._link)

    def _go_on(self, identity: Identity) -> None:
        session, groups = self._session, self.identity.groups
        self._begin(identity)
        if identity.groups != groups:
            self._regroup()
            if not authorization.recheck_session(session):
                return
        tell_of_login("renewed", self._link, session, identity)
        renewal.accepted(session)
        if session.outbox.carrier is not None:
            session.outbox.carrier.flush()

    def _refuse(self, detail: str, asked: Renewal, why: str = "") -> None:
        session = self._session
        told = {"why": why} if why else {}
        log.info("renewal refused", session=session.id, login=session.login, peer=session.peer, **told)
        session.end(RenewalRefused(detail, asked.receipt))

    def _shown(self, asked: Renewal) -> Credentials:
        """What counts is the new token: neither the upgrade, nor a certificate, which were shown at the start."""
        remote = self._link.remote
        return Credentials(
            login=asked.login or self._session.login,
            passcode=asked.passcode or None,
            authorization=asked.authorization,
            transport=self._link.transport,
            address=remote.address,
            secure=remote.secure,
        )


class ReloadableAuthenticator(Protocol):
    """An authenticator that reads files; see `gateway.runtime.gateway.Reloadable`."""

    name: str

    def reload(self) -> str | None:
        """Read them again; what is wrong with them, as a sentence, or None."""
        ...


class FollowedSession:
    """An authenticator whose sessions follow when it has read its files again.

    Rules are to be read behind it: a session whose groups have changed is then never looked at with its old groups and
    new rules, nor the other way round.

    Attributes:
        name: of the authenticator.
    """

    def __init__(self, entrance: ReloadableAuthenticator, server: Server) -> None:
        self.name = entrance.name
        self._entrance = entrance
        self._server = server

    def reload(self) -> str | None:
        """Read the files again.  All sessions are asked at once, a microsecond each; what follows is done in turns."""
        fault = self._entrance.reload()
        leases = [each.session_expiry for each in self._server.connections.values() if each.session_expiry is not None]
        changed = deque([each for each in leases if each.review()])

        def follow() -> None:
            for _ in range(min(len(changed), _FOLLOWS_PER_TURN)):
                changed.popleft().follow()
            if changed:
                self._server.broker.scheduler.later(follow)

        self._server.broker.scheduler.later(follow)
        return fault
