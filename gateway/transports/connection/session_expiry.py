"""Authentication of a client, and the expiry of its session.

A client is authenticated by its first frame and by what its connection has shown; that may take long.  A session lasts
as long as the token, the cookie or the certificate that its client has shown:

token_warning before the end    a MESSAGE on `/session/events`, and a line in the log
SEND to `/session/renew`        a new token; the session goes on, as long as that one lasts
the end                         ERROR, and the connection is closed
files were read again           ERROR, where the client's login is valid no more; else its groups of now
"""

import math
from collections.abc import Callable, Iterator, Sequence

import structlog
import trio

from gateway.broker import Session
from gateway.broker.errors import NOT_A_USER, LoginRefused, RenewalRefused, SessionEnded
from gateway.broker.headers.connect import Opening, read_opening
from gateway.broker.model.destinations import RENEW
from gateway.broker.model.identity import Credentials, Identity, Renewal
from gateway.codec import Frame

from ..flow.connected import Reviewable, log_fields
from ..server import Server
from ..wire.link import Link

log = structlog.get_logger("gateway.expiry")
connection_log = structlog.get_logger("gateway.connection")

# Seconds between looks at the clock.
_LONGEST_LOOK = 60.0
# Seconds between attempts to warn a client that has not subscribed to its events yet.
_NEXT_ATTEMPT = 1.0
# Seconds from one renewal to the next, which waits: each leaves a timer on the wheel for a minute.
_NEXT_RENEWAL = 1.0
# Sessions that end in one turn, or have their subscriptions checked: each may wake a task, and all these run before
# other connections do.
_FOLLOWS_PER_TURN = 8

# In place of the text about login and passcode, which cannot renew a session.
_NO_TOKEN = "what it shows is no token that this server accepts, and does not look like one"


async def log_in(server: Server, link: Link, frame: Frame) -> tuple[Opening, Identity]:
    """Read the first frame, and have its sender authenticated; raises `ProtocolError`."""
    server.turn_time = trio.current_time()
    opening = read_opening(frame)
    if server.draining:
        raise server.shutting_down()
    return opening, await identify(server, credentials_of(link, opening))


async def identify(server: Server, credentials: Credentials) -> Identity:
    """Ask the authenticator; counts refusals, and raises them: `LoginRefused`."""
    try:
        identity = await server.authenticator.authenticate(credentials)
        if identity is None:
            raise LoginRefused
    except LoginRefused as error:
        server.broker.counters.fail_login(error.method)
        raise
    return identity


def tell_of_login(event: str, link: Link, session: Session, identity: Identity) -> None:
    """Log a login; of anonymous clients only at level debug."""
    say = connection_log.debug if identity.method == "anonymous" else connection_log.info
    say(event, **log_fields(session), method=identity.method, transport=link.transport)


def credentials_of(link: Link, opening: Opening) -> Credentials:
    """The credentials in CONNECT, and those that the connection has shown before."""
    remote = link.remote
    return Credentials(
        login=opening.login,
        passcode=opening.passcode,
        authorization=opening.authorization,
        transport=link.transport,
        address=remote.address,
        secure=remote.secure,
        upgrade=remote.upgrade,
        certificate=remote.certificate,
    )


class Lifetime:
    """Stands on the timer wheel until a session's time is over.

    It looks at the epoch's clock at least once a minute: the wheel's clock stands still while a machine sleeps.
    """

    __slots__ = ("_expires", "_kind", "_logged", "_server", "_session", "_told")

    def __init__(self, server: Server, session: Session, identity: Identity) -> None:
        self._server = server
        self._session: Session | None = session
        self._expires = identity.expires
        self._kind = identity.method if identity.method in ("certificate", "cookie") else "token"
        self._told = self._logged = False
        server.timers.add(self, trio.current_time())

    def stop(self) -> None:
        """The session has ended, or lasts longer."""
        self._session = None

    def tick(self, now: float) -> float:
        """Warn, or end the session, if it is time."""
        session, server = self._session, self._server
        if session is None:
            return math.inf
        left = self._expires - server.broker.scheduler.epoch()
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
        kind = self._kind
        if not self._logged:
            self._logged = True
            log.info(f"{kind} expires soon", session=session.id, login=session.login, seconds=round(left, 1))
        self._told = session.tell(
            f"{kind}-expiring",
            {"expires-in": str(math.ceil(left))},
            f"the {kind} expires in {math.ceil(left)} s, and the session with it; SEND a new token to {RENEW}",
        )

    def _end(self, session: Session) -> None:
        kind = self._kind
        log.info(f"{kind} expired", **log_fields(session))
        detail = (
            f"the {kind} that the session began with, or was renewed with, was valid until now; log in with a new one"
        )
        session.end(SessionEnded(f"{kind} expired", detail))


class SessionExpiry:
    """The login of one session, its end, and its renewals; `identity` is by the last authentication, or review."""

    __slots__ = ("_lifetime", "_link", "_lost", "_renewable", "_server", "_session", "identity")

    def __init__(self, server: Server, link: Link, session: Session, identity: Identity) -> None:
        self._server = server
        self._link = link
        self._session = session
        self._lifetime: Lifetime | None = None
        self._lost: SessionEnded | None = None
        self._renewable = -math.inf  # trio's clock from which on it may be renewed
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
        """Authenticate a new token; a session with a refused one ends."""
        session = self._session
        await trio.sleep_until(self._renewable)
        self._renewable = trio.current_time() + _NEXT_RENEWAL
        timeout = self._server.options.connect_timeout
        try:
            with trio.fail_after(timeout):
                identity = await identify(self._server, self._shown(asked))
        except LoginRefused as error:
            is_vague = error.method == "none" or error.detail.startswith(NOT_A_USER)
            self._refuse(_NO_TOKEN if is_vague else error.detail, asked, why=error.why)
        except trio.TooSlowError:
            self._refuse(f"the authenticator did not answer within {timeout:g} s (connect_timeout)", asked)
        except Exception:
            log.exception("a renewal failed", session=session.id)
            self._refuse("the server failed to check the token; its log says more", asked)
        else:
            if identity.user != session.login:
                self._refuse("the token is one of another user; connect anew to be that user", asked)
            else:
                self._go_on(identity)

    def review(self) -> bool:
        """Files were read again.  True if the login has lost its user, or has other groups, which count from now on;
        then `follow` is due."""
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
        """End the session, if its user is gone, or if its groups may not subscribe to what it is subscribed to."""
        session, error = self._session, self._lost
        if session.outbox.carrier is None:
            return  # it has ended meanwhile
        if error is not None:
            log.info("login revoked", **log_fields(session), reason=str(error))
            session.end(error)
        else:
            log.info("groups changed", **log_fields(session), groups=sorted(self.identity.groups))
            self._server.recheck(session)

    def _regroup(self) -> None:
        self._server.regroup(self._session, self.identity, self._link)

    def _go_on(self, identity: Identity) -> None:
        session, groups = self._session, self.identity.groups
        self._begin(identity)
        if identity.groups != groups:
            self._regroup()
            if not self._server.recheck(session):
                return
        tell_of_login("renewed", self._link, session, identity)
        session.renewed()
        if session.outbox.carrier is not None:
            session.outbox.carrier.flush()

    def _refuse(self, detail: str, asked: Renewal, why: str = "") -> None:
        session = self._session
        told = {"why": why} if why else {}
        log.info("renewal refused", **log_fields(session), **told)
        session.end(RenewalRefused(detail, asked.receipt))

    def _shown(self, asked: Renewal) -> Credentials:
        """The new token alone, without the upgrade and the certificate that were shown at the start."""
        remote = self._link.remote
        return Credentials(
            login=asked.login or self._session.login,
            passcode=asked.passcode or None,
            authorization=asked.authorization,
            transport=self._link.transport,
            address=remote.address,
            secure=remote.secure,
        )


class SessionReviewer:
    """An authenticator, by its name and its `reload`; when it has read its files again, the sessions follow.

    Rules are to be read behind it: so a session with new groups is never checked with its old groups and new rules, nor
    the other way round.
    """

    def __init__(
        self, name: str, reload: Callable[[], str | None], server: Server, *, per_turn: int = _FOLLOWS_PER_TURN
    ) -> None:
        self.name = name
        self._reload = reload
        self._server = server
        self._per_turn = per_turn

    def reload(self) -> str | None:
        """Read the files again.  All sessions are reviewed at once, a microsecond each; they follow in slices."""
        fault = self._reload()
        logins = [each.session_expiry for each in self._server.connections.values() if each.session_expiry is not None]
        changed = [each for each in logins if each.review()]
        self._server.broker.scheduler.run(_follow(changed, self._per_turn))
        return fault


def _follow(changed: Sequence[Reviewable], per_turn: int) -> Iterator[None]:
    for count, each in enumerate(changed):
        # Before the first one, too: no session follows before the rules are read.
        if count % per_turn == 0:
            yield
        each.follow()
