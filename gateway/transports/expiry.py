"""How long a session lasts: as long as the token, the cookie or the certificate that its client has shown.

    token_warning before the end    a MESSAGE on `/session/events`, and a line in the log
    SEND to `/session/renew`        a new token; the session goes on, as long as that one lasts
    the end                         ERROR, and the connection is closed

A `Lifetime` stands on the wheel, as a pulse does, and only where there is an end.  It looks at the epoch's clock at
least once a minute, for the wheel's clock stands still while a machine sleeps.
"""

from __future__ import annotations

import math

import structlog
import trio

from gateway.broker import Session, renewal, rights
from gateway.broker.errors import NOT_A_USER, LoginRefused, RenewalRefused, SessionEnded
from gateway.broker.identity import Credentials, Identity
from gateway.broker.renewal import RENEW, Renewal

from .hub import Hub
from .link import Link
from .login import identify, tell_of_login

log = structlog.get_logger("gateway.expiry")

# Seconds between looks at the clock.
_LONGEST_LOOK = 60.0
# Seconds between attempts to warn a client that has not subscribed to its events yet.
_NEXT_ATTEMPT = 1.0
# Seconds from one renewal to the next, which waits: each leaves something on the wheel for a minute.
_NEXT_RENEWAL = 1.0

# Instead of what is said of login and passcode, which are not what renews a session.
_NO_TOKEN = "what it shows is no token that this server accepts, and does not look like one"

_SHOWN = {"certificate": "certificate", "cookie": "cookie"}


class Lifetime:
    """Stands on the wheel until a session's time is over."""

    __slots__ = ("_hub", "_identity", "_logged", "_session", "_told")

    def __init__(self, hub: Hub, session: Session, identity: Identity) -> None:
        self._hub = hub
        self._session: Session | None = session
        self._identity = identity
        self._told = self._logged = False
        hub.wheel.add(self, trio.current_time())

    def stop(self) -> None:
        """The session has ended, or lasts longer."""
        self._session = None

    def tick(self, now: float) -> float:
        """Warn, or end the session, if it is time; see `Timed`."""
        session, hub = self._session, self._hub
        if session is None:
            return math.inf
        left = self._identity.expires - hub.broker.agenda.epoch()
        if left <= 0:
            self._end(session)
            return math.inf
        until_warning = left - hub.options.token_warning
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


class Lease:
    """The time of one session: who its client is, for how long, and what it takes to stay.

    Attributes:
        identity: as it was last found out.
    """

    __slots__ = ("_hub", "_lifetime", "_link", "_renewable", "_session", "identity")

    def __init__(self, hub: Hub, link: Link, session: Session, identity: Identity) -> None:
        self._hub = hub
        self._link = link
        self._session = session
        self._lifetime: Lifetime | None = None
        self._renewable = -math.inf  # from then on, by trio's clock
        self._begin(identity)

    def _begin(self, identity: Identity) -> None:
        self.stop()
        self.identity = identity
        if identity.expires != math.inf:
            self._lifetime = Lifetime(self._hub, self._session, identity)

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
            with trio.fail_after(self._hub.options.connect_timeout):
                identity = await identify(self._hub, self._shown(asked))
        except LoginRefused as error:
            is_vague = error.method == "none" or error.detail.startswith(NOT_A_USER)
            self._refuse(_NO_TOKEN if is_vague else error.detail, asked, why=error.why)
        except trio.TooSlowError:
            self._refuse(f"nobody said so within {self._hub.options.connect_timeout:g} s (connect_timeout)", asked)
        except Exception:
            log.exception("a renewal failed", session=session.id)
            self._refuse("the server failed to find out who it is; its log says more", asked)
        else:
            if identity.user != session.login:
                self._refuse("what it shows is somebody else's; connect anew to be another user", asked)
            else:
                self._go_on(identity)

    def _go_on(self, identity: Identity) -> None:
        session, groups = self._session, self.identity.groups
        self._begin(identity)
        if identity.groups != groups:
            session.access = self._hub.access_of(identity, self._link.transport)
            if not rights.recheck_session(session):
                return
        tell_of_login("renewed", self._link, session, identity)
        renewal.accepted(session)
        if session.outbound.carrier is not None:
            session.outbound.carrier.flush()

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
