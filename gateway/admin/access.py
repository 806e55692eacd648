"""Access: which clients may use the admin API and the metrics.

    token    `Authorization: Bearer` with the setting `admin_token`, from any address; for /metrics also `metrics_token`
    cookie   of the console, which a login gives (`login.py`)
    local    a program on this machine, as long as neither `admin_token` nor `admin_groups` is set

The first that a client shows decides.  "On this machine" is three questions: is the peer's address loopback, or the
socket a unix socket; did no proxy forward the request (behind one every client has a loopback address); and does `Host`
name this machine (a web page can rebind its own host name to 127.0.0.1).

A change is refused when a page of another site asks for it.  A browser sends the cookie by itself, so with the cookie a
change needs the header `X-CSRF-Token` besides.  A wrong token is answered late and counted: operators choose their
tokens, and a chosen one can be guessed.

The console's sessions are a table in memory; the signed cookie names one of its entries.  It holds a random key and
nothing else, so a logout is final.  The signature keeps made-up keys away from the table; its key lives as long as the
process, like the table.  A session of a user of the users file ends when that file has been read again, and the user is
gone, has another passcode, or is in none of the groups any more.
"""

import hmac
import math
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import structlog
import trio
from itsdangerous import BadSignature, Signer
from starlette.requests import Request

from gateway.admin.audit import RefusalLimiter
from gateway.admin.endpoint import ApiError
from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.broker.errors import LoginRefused, SessionEnded
from gateway.broker.model.identity import Credentials, Identity
from gateway.config.settings import Settings
from gateway.config.values import Address
from gateway.net import is_of
from gateway.runtime.gateway import Gateway
from gateway.transports.wire.forwarded import ForwardedClient, ForwardedError

FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers by which a proxy makes itself known."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF = "X-CSRF-Token"
ADMIN = "admin"  # the user's name in the audit log where the client shows the admin token
LOCAL = "local"  # the user's name in the audit log of a program on this machine

LOOPBACK_ONLY = (
    "programs on this machine alone may use this: to use it from elsewhere, set admin_token (GATEWAY_ADMIN_TOKEN) "
    "and send it as Authorization: Bearer"
)
CHALLENGE = {"www-authenticate": 'Bearer realm="gateway"'}

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

    def __init__(self, groups: Collection[str] = ()) -> None:
        self._groups = groups
        self._signer = Signer(secrets.token_bytes(32), salt=COOKIE)
        self._known: dict[str, ConsoleSession] = {}

    def begin(self, user: str, seconds: float = LIFETIME, identity: Identity | None = None) -> ConsoleSession:
        """Begin a session of so many seconds, at most `LIFETIME`; `identity` is that of a user."""
        while len(self._known) >= MAX_SESSIONS:
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


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request, which was let in."""

    user: str
    via: str  # token, cookie or local
    session: ConsoleSession | None = None  # of the console; None: it came another way
    ends_with: ConsoleSession | None = field(default=None, compare=False)  # a stream that it reads ends with it


class AccessControl:
    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self.sessions = ConsoleSessions(settings.admin_groups)
        self.refusals = RefusalLimiter(gateway.broker.scheduler)
        self._gateway = gateway
        self._settings = settings
        self._failures = FailedLogins(settings.login_attempts)
        self._without_cookie = _endless_session()

    def take(self, settings: Settings) -> None:
        """Other settings are in force.  With another admin token all logins by the one before end."""
        is_same = settings.admin_token == self._settings.admin_token
        self._settings = settings
        if not is_same:
            self.sessions.end_by_token()
            self._without_cookie.ended.set()
            self._without_cookie = _endless_session()

    @property
    def methods(self) -> list[str]:
        """The ways to log in; empty: there are none, and no login is needed."""
        found = {"token": bool(self._settings.admin_token), "passcode": bool(self._settings.admin_groups)}
        return [name for name, is_set in found.items() if is_set]

    async def admit(self, request: Request, *, scraper: bool = False) -> Caller:
        """The client, if it may ask (a scraper with `metrics_token`, too); raises ApiError."""
        check_site(request)
        settings = self._settings
        tokens = [settings.admin_token, settings.metrics_token if scraper else ""]
        shown = _bearer(request)
        if shown is not None and any(tokens):
            await self.check_token(request, shown, *tokens)
            return Caller(ADMIN, "token", ends_with=self._without_cookie)
        session = self.sessions.find(request.cookies.get(COOKIE, ""))
        if session is not None:
            _check_csrf(request, session)
            return Caller(session.user, "cookie", session, session)
        if not self.methods:
            if is_local(request):
                return Caller(LOCAL, "local", ends_with=self._without_cookie)
            if not any(tokens):
                raise ApiError(403, LOOPBACK_ONLY)
        raise ApiError(401, self._needs(scraper=scraper), CHALLENGE)

    @property
    def admin_token(self) -> str:
        """The one in force; empty: there is none."""
        return self._settings.admin_token

    async def check_token(self, request: Request, shown: str, *tokens: str) -> None:
        """Refuse a wrong token: ApiError 401, or 429 where the address has shown too many."""
        address = self.client_of(request).address
        try:
            self._failures.check(address)
        except TooManyFailedLogins as error:
            raise too_many(error) from None
        # Compared in constant time: how long the answer takes does not tell how much of the token was right.
        matches = [hmac.compare_digest(shown.encode(), token.encode()) for token in tokens if token]
        if any(matches):
            return
        self._failures.count(address)
        self._gateway.broker.counters.fail_login("admin")
        await trio.sleep(self._settings.login_delay)
        raise ApiError(401, "the token is wrong", CHALLENGE)

    async def identify(self, credentials: Credentials, refused: Callable[[LoginRefused], None]) -> Identity:
        """The user of a login, as at CONNECT; raises ApiError 401, 429, or 503 where no answer comes in time."""
        seconds = self._settings.connect_timeout
        try:
            with trio.fail_after(seconds):
                return await self._gateway.identify(credentials)
        except LoginRefused as error:
            refused(error)
            if isinstance(error, TooManyFailedLogins):
                raise too_many(error) from None
            raise ApiError(401, f"{error}: {error.detail}", CHALLENGE) from None
        except trio.TooSlowError:
            sentence = f"the login was not checked within {seconds:g} s (connect_timeout): try again"
            raise ApiError(503, sentence) from None

    def client_of(self, request: Request) -> ForwardedClient:
        """The client behind trusted proxies; ApiError 400 where their headers contradict each other."""
        fields = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
        try:
            return self._gateway.trusted.client_of(_peer(request), fields)
        except ForwardedError as error:
            raise ApiError(400, str(error)) from None

    def address_of(self, request: Request) -> str:
        """The client's address for the log; the peer's, where proxies contradict each other."""
        try:
            return self.client_of(request).address or "unix"
        except ApiError:
            return _peer(request)

    def is_secure(self, request: Request) -> bool:
        """True if the client uses TLS: to the gateway, or to a trusted proxy."""
        return request.url.scheme == "https" or bool(self.client_of(request).secure)

    def _needs(self, *, scraper: bool) -> str:
        ways = []
        if self._settings.admin_token:
            ways.append("the header Authorization: Bearer with the admin token")
        if scraper and self._settings.metrics_token:
            ways.append("with the metrics token" if ways else "the header Authorization: Bearer with the metrics token")
        if self.methods:
            ways.append("a login at the console (POST /api/v1/login)")
        return f"this needs {', or '.join(ways)}"


def check_site(request: Request) -> None:
    """Refuse a change that a page of another site asks for.  Raises ApiError: 403."""
    if request.method not in SAFE_METHODS and _is_cross_site(request):
        raise ApiError(403, "a page of another site must not change anything here")


def too_many(error: TooManyFailedLogins) -> ApiError:
    return ApiError(429, f"{error}: {error.detail}", {"retry-after": f"{error.seconds:.0f}"})


def came_through_proxy(request: Request) -> bool:
    return any(name in request.headers for name in FORWARDING)


def is_local(request: Request) -> bool:
    """True if a program on this machine asks, and asks this machine."""
    if came_through_proxy(request):
        return False
    # A unix socket has no peer address; hypercorn then leaves it out.
    return (request.client is None or Address(request.client.host, 0).is_loopback) and _names_loopback(request)


def _endless_session() -> ConsoleSession:
    """The session of clients without a cookie, which ends with the admin token only."""
    return ConsoleSession("", ADMIN, "", math.inf)


def _peer(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _bearer(request: Request) -> str | None:
    """The token that the client shows; None: it shows none."""
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else None


def _check_csrf(request: Request, session: ConsoleSession) -> None:
    if request.method in SAFE_METHODS:
        return
    if not hmac.compare_digest(request.headers.get(CSRF, "").encode(), session.csrf.encode()):
        raise ApiError(403, f"with the console's cookie this needs the header {CSRF} with the csrf of GET /api/v1/me")


def _names_loopback(request: Request) -> bool:
    host = request.headers.get("host", "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return not name or name.lower().endswith(".localhost") or Address(name.lower(), 0).is_loopback


def _is_cross_site(request: Request) -> bool:
    """True if a browser says so.  Programs that are no browsers send neither header."""
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        return True
    origin = request.headers.get("origin")
    return origin is not None and not is_of(origin, request.headers.get("host", ""))
