"""The console's login: `POST /login`, `POST /logout`, `GET /me`.

A page shows the admin token, or login and passcode of a user in one of `admin_groups`, and gets a cookie that no script
can read and no other site's page can send, and beside it the word for the header `X-CSRF-Token`.

Failures are slow, counted and limited: of the token here, of passcodes by the authenticator, as at CONNECT.  Who has
shown a right passcode, and is in none of the groups, is told so, for he is one of the gateway's users.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import asked, models
from gateway.admin.access import ADMIN, CHALLENGE, LOOPBACK_ONLY, Guard, Visitor, check_site, is_local, too_many
from gateway.admin.audit import entry_of
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import Refused
from gateway.admin.visits import COOKIE, LIFETIME, Visit
from gateway.auth.failed_logins import TooManyFailedLogins
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway

NO_STORE = {"cache-control": "no-store"}


class Login:
    """Lets operators in, and out."""

    def __init__(self, gateway: Gateway, settings: Settings, guard: Guard) -> None:
        self._gateway = gateway
        self._settings = settings
        self._guard = guard

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table."""
        return [
            Endpoint(
                "POST",
                "/api/v1/login",
                self.log_in,
                "Log in at the console: with the admin token, or with login and passcode of a user in admin_groups.",
                "login",
                models.LoggedIn,
                body=models.LogIn,
                errors=(401, 403, 409, 429, 503),
                guarded=False,
                action="log in",
            ),
            Endpoint(
                "POST",
                "/api/v1/logout",
                self.log_out,
                "Log out: the cookie is worth nothing any more.",
                "login",
                None,
                status=204,
                action="log out",
            ),
            Endpoint(
                "GET",
                "/api/v1/me",
                self.me,
                "Who asks, and the word for the header X-CSRF-Token; or how one can log in.",
                "login",
                models.Me,
                errors=(401, 403, 429),
                guarded=False,
                example={"-H": '"Authorization: Bearer $ADMIN_TOKEN"'},
            ),
        ]

    async def me(self, request: Request) -> Response:
        """Who asks."""
        try:
            visitor = await self._guard.admit(request)
        except Refused as reason:
            if reason.status != 401:
                raise
            answer = {"error": str(reason), "methods": self._guard.methods}
            return JSONResponse(answer, 401, NO_STORE | reason.headers)
        csrf = None if visitor.visit is None else visitor.visit.csrf
        return JSONResponse({"user": visitor.user, "via": visitor.via, "csrf": csrf}, headers=NO_STORE)

    async def log_in(self, request: Request) -> Response:
        """A cookie, and the word that goes with it."""
        check_site(request)
        shown = asked.body(request, models.LogIn)
        way = _way_of(shown)
        entry = entry_of(request)
        entry.login("", way)
        self._check_way(request, way)
        if shown.token is not None:
            await self._guard.check_token(request, shown.token, self._guard.admin_token)
            user, seconds, identity = ADMIN, LIFETIME, None
        else:
            identity = await self._identity(request, shown)
            user, seconds = identity.user, identity.expires - time.time()
        entry.login(user, way)
        return self._welcome(request, user, seconds, identity)

    async def log_out(self, request: Request) -> Response:
        """The visit ends."""
        visitor: Visitor = request.state.visitor
        if visitor.visit is not None:
            self._guard.visits.end(visitor.visit)
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", secure=self._is_secure(request), httponly=True, samesite="strict")
        return response

    def _check_way(self, request: Request, way: str) -> None:
        """Refuse a way to log in that is none here."""
        if not self._guard.methods:
            if is_local(request):
                raise Refused(409, "nobody has to log in here: programs on this machine are let in")
            raise Refused(403, LOOPBACK_ONLY)
        if way not in self._guard.methods:
            setting = {"token": "admin_token", "passcode": "admin_groups"}[way]
            raise Refused(401, f"nobody logs in by {way} here ({setting} is not set)", CHALLENGE)

    def _welcome(self, request: Request, user: str, seconds: float, identity: Identity | None) -> Response:
        visits = self._guard.visits
        earlier = visits.find(request.cookies.get(COOKIE, ""))
        if earlier is not None:
            visits.end(earlier)
        visit = visits.begin(user, seconds, identity)
        response = JSONResponse({"user": user, "csrf": visit.csrf}, headers=NO_STORE)
        self._set(request, response, visit, seconds)
        return response

    def _set(self, request: Request, response: Response, visit: Visit, seconds: float) -> None:
        response.set_cookie(
            COOKIE,
            self._guard.visits.cookie_of(visit),
            max_age=int(min(seconds, LIFETIME)),
            path="/",
            secure=self._is_secure(request),
            httponly=True,
            samesite="strict",
        )

    def _is_secure(self, request: Request) -> bool:
        """Whether the page came through TLS: ours, or a trusted proxy's."""
        return request.url.scheme == "https" or bool(self._guard.client_of(request).secure)

    async def _identity(self, request: Request, shown: models.LogIn) -> Identity:
        """The user of a login and passcode, who is in one of `admin_groups`.

        Raises:
            Refused: there is none.
        """
        client = self._guard.client_of(request)
        credentials = Credentials(
            login=shown.login,
            passcode=shown.passcode,
            transport="websocket",  # what a page comes by, for rules and authenticators that ask
            address=client.address,
            secure=bool(client.secure) or request.url.scheme == "https",
        )
        try:
            with trio.fail_after(self._settings.connect_timeout):
                identity = await self._gateway.identify(credentials)
        except TooManyFailedLogins as refusal:
            raise too_many(refusal) from None
        except LoginRefused as refusal:
            entry_of(request).login(refusal.user, "passcode")
            raise Refused(401, f"{refusal}: {refusal.detail}", CHALLENGE) from None
        except trio.TooSlowError:
            sentence = f"nobody said who you are within {self._settings.connect_timeout:g} s (connect_timeout)"
            raise Refused(503, sentence) from None
        entry_of(request).login(identity.user, "passcode")
        if identity.method == "ticket":
            raise Refused(403, "a ticket is good for a session, and not for the console")
        if identity.groups.isdisjoint(self._settings.admin_groups):
            raise Refused(403, "this user is in none of the groups that may use the admin API (admin_groups)")
        return identity


def _way_of(shown: models.LogIn) -> str:
    """Whether it is a token that is shown, or a passcode."""
    given = [name for name in ("token", "login", "passcode") if getattr(shown, name) is not None]
    if given == ["token"]:
        return "token"
    if given == ["login", "passcode"]:
        return "passcode"
    raise Refused(400, "body: it must have either token, or login and passcode")
