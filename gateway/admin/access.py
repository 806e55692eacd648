"""Who may use the admin API and the metrics.

Three ways lead in, and the first that is shown decides:

    token    `Authorization: Bearer` with the setting `admin_token`, from wherever; for /metrics also `metrics_token`
    cookie   that of the console, which a login gives (`login.py`, `visits.py`)
    local    a program on this machine, as long as there is neither an `admin_token` nor `admin_groups`

"On this machine" is three questions, each with its reason:

* Is the peer's address loopback, or the socket a unix socket?
* Did no proxy forward the request?  A proxy on this machine makes every stranger a loopback peer; its headers
  betray it.
* Does `Host` name this machine?  A web page can rebind its own host name to 127.0.0.1 and so have a browser
  on this machine ask for it; the name in `Host` is still the page's.

A method that changes something is refused when a browser says that another site's page asked for it: a page may send
such a request even where it may not read the answer.  With the cookie, which a browser sends by itself, it also needs
the header `X-CSRF-Token`, which no other page knows.

A wrong token is answered late, and counts against its address, which is refused unheard when it has failed too often:
operators choose their tokens, and a chosen one can be guessed.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request

from gateway.admin.errors import Refused
from gateway.admin.strangers import Strangers
from gateway.admin.visits import COOKIE, Visit, Visits
from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.net.origins import is_of
from gateway.transports.wire.forwarded import ForwardedClient, ForwardedError

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway

FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers by which a proxy makes itself known."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF = "X-CSRF-Token"
ADMIN = "admin"
"""The user's name in the audit log of whoever shows the token."""
LOCAL = "local"
"""The same of a program on this machine."""

LOOPBACK_ONLY = "this answers to loopback only, unless admin_token (GATEWAY_ADMIN_TOKEN) is set and shown"
CHALLENGE = {"www-authenticate": 'Bearer realm="gateway"'}


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks.

    Attributes:
        user: the name.
        via: `token`, `cookie` or `local`.
        visit: of the cookie; None: it came another way.
        lasts: what a stream ends with that is shown to him; None: nothing of his.
    """

    user: str
    via: str
    visit: Visit | None = None
    lasts: Visit | None = field(default=None, compare=False)


class Guard:
    """Lets requests pass, or not.

    Attributes:
        visits: who has logged in at the console.
        strangers: how many were refused who have not, or show nothing.
    """

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self.visits = Visits(settings.admin_groups)
        self.strangers = Strangers(gateway.broker.scheduler)
        self._gateway = gateway
        self._settings = settings
        self._failures = FailedLogins(settings.login_attempts)
        self._without_cookie = _whoever()

    def take(self, settings: Settings) -> None:
        """Other settings are in force.  With another admin token all are out who came by the one before."""
        is_same = settings.admin_token == self._settings.admin_token
        self._settings = settings
        if not is_same:
            self.visits.end_by_token()
            self._without_cookie.ended.set()
            self._without_cookie = _whoever()

    @property
    def methods(self) -> list[str]:
        """How one can log in; empty: nobody can, and nobody has to."""
        found = {"token": bool(self._settings.admin_token), "passcode": bool(self._settings.admin_groups)}
        return [name for name, there in found.items() if there]

    async def admit(self, request: Request, *, scraper: bool = False) -> Visitor:
        """Who asks.

        Args:
            scraper: whoever shows `metrics_token` will do, too.

        Raises:
            Refused: the request must not be answered.
        """
        check_site(request)
        settings = self._settings
        tokens = [settings.admin_token, settings.metrics_token if scraper else ""]
        shown = _bearer(request)
        if shown is not None and any(tokens):
            await self.check_token(request, shown, *tokens)
            return Visitor(ADMIN, "token", lasts=self._without_cookie)
        visit = self.visits.find(request.cookies.get(COOKIE, ""))
        if visit is not None:
            _check_csrf(request, visit)
            return Visitor(visit.user, "cookie", visit, visit)
        if not self.methods:
            if is_local(request):
                return Visitor(LOCAL, "local", lasts=self._without_cookie)
            if not any(tokens):
                raise Refused(403, LOOPBACK_ONLY)
        raise Refused(401, self._asks(scraper=scraper), CHALLENGE)

    @property
    def admin_token(self) -> str:
        """The one in force; empty: there is none."""
        return self._settings.admin_token

    async def check_token(self, request: Request, shown: str, *tokens: str) -> None:
        """Refuse what is none of these; late, and only so often.

        Raises:
            Refused: 401, it is wrong; 429, the address has shown wrong ones too often.
        """
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
        raise Refused(401, "the token is wrong", CHALLENGE)

    def client_of(self, request: Request) -> ForwardedClient:
        """Who the client is, behind trusted proxies.

        Raises:
            Refused: 400, what the proxies say contradicts itself.
        """
        fields = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
        try:
            return self._gateway.trusted.client_of(_peer(request), fields)
        except ForwardedError as error:
            raise Refused(400, str(error)) from None

    def peer_of(self, request: Request) -> str:
        """The client's address, for a line of the log; what is wrong with it is said elsewhere."""
        try:
            return self.client_of(request).address or "unix"
        except Refused:
            return _peer(request)

    def _asks(self, *, scraper: bool) -> str:
        ways = []
        if self._settings.admin_token:
            ways.append("the header Authorization: Bearer with the admin token")
        if scraper and self._settings.metrics_token:
            ways.append("with the metrics token" if ways else "the header Authorization: Bearer with the metrics token")
        if self.methods:
            ways.append("a login at the console (POST /api/v1/login)")
        return f"this needs {', or '.join(ways)}"


def check_site(request: Request) -> None:
    """Refuse a change that a page of another site asks for.

    Raises:
        Refused: 403.
    """
    if request.method not in SAFE_METHODS and _is_cross_site(request):
        raise Refused(403, "a page of another site must not change anything here")


def too_many(error: TooManyFailedLogins) -> Refused:
    """The refusal of an address that has failed too often."""
    return Refused(429, f"{error}: {error.detail}", {"retry-after": f"{error.seconds:.0f}"})


def came_through_proxy(request: Request) -> bool:
    """True when a proxy says that it forwarded the request."""
    return any(name in request.headers for name in FORWARDING)


def is_local(request: Request) -> bool:
    """True when a program on this machine asks, and asks this machine."""
    if came_through_proxy(request):
        return False
    # A unix socket has no peer address; hypercorn then leaves it out.
    return (request.client is None or _is_loopback(request.client.host)) and _names_loopback(request)


def _whoever() -> Visit:
    """Of all who come without a cookie; it has no end of its own."""
    return Visit("", ADMIN, "", math.inf)


def _peer(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _bearer(request: Request) -> str | None:
    """The token that is shown; None: none is."""
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else None


def _check_csrf(request: Request, visit: Visit) -> None:
    if request.method in SAFE_METHODS:
        return
    if not hmac.compare_digest(request.headers.get(CSRF, "").encode(), visit.csrf.encode()):
        raise Refused(403, f"with the console's cookie this needs the header {CSRF} with the csrf of GET /api/v1/me")


def _names_loopback(request: Request) -> bool:
    host = request.headers.get("host", "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower() in {"", "localhost"} or name.lower().endswith(".localhost") or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1, a v4 peer on a v6 socket
    return (mapped or address).is_loopback


def _is_cross_site(request: Request) -> bool:
    """True when a browser says so.  Programs that are no browsers send neither header."""
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        return True
    origin = request.headers.get("origin")
    return origin is not None and not is_of(origin, request.headers.get("host", ""))
