"""The console's login: `POST /login`, `POST /logout`, `GET /me`.

A page sends the admin token, or login and passcode of a user in one of `admin_groups`.  It gets a cookie that no script
can read and no other site's page can send, and the word for the header `X-CSRF-Token`.  Failed logins are slow, counted
and limited.  A user with a right passcode and in none of the groups is told that: it is no secret.
"""

from __future__ import annotations

import time
from typing import Literal

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.access import (
    ADMIN,
    CHALLENGE,
    COOKIE,
    LIFETIME,
    LOOPBACK_ONLY,
    AccessControl,
    Caller,
    check_site,
    is_local,
)
from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint
from gateway.broker.model.identity import Credentials, Identity
from gateway.config.settings import Settings

NO_STORE = {"cache-control": "no-store"}
# Of the examples.
BEARER = {"-H": '"Authorization: Bearer $ADMIN_TOKEN"'}


class LogIn(ApiModel):
    """A login at the console: the token, or login and passcode."""

    model_config = ConfigDict(json_schema_extra={"example": {"token": "$ADMIN_TOKEN"}})

    token: str | None = None
    login: str | None = None
    passcode: str | None = None


class LoggedIn(ApiModel):
    """The login is right; the cookie is in the headers of the answer."""

    user: str
    csrf: str = Field(description="for the header X-CSRF-Token of every change")


class Me(ApiModel):
    """The user of the request."""

    user: str
    via: Literal["token", "cookie", "local"]
    csrf: str | None


class LoginApi(Api):
    def __init__(self, settings: Settings, access: AccessControl) -> None:
        self._settings = settings
        self._access = access

    @Endpoint(
        "POST", "/api/v1/login", "login", LoggedIn, errors=(401, 403, 409, 429, 503), guarded=False, action="log in"
    )
    async def log_in(self, request: Request, body: LogIn, audit: AuditEntry) -> Response:
        """Log in at the console: with the admin token, or with login and passcode of a user in admin_groups."""
        check_site(request)
        way = _way_of(body)
        audit.login("", way)
        self._check_way(request, way)
        if body.token is not None:
            await self._access.check_token(request, body.token, self._access.admin_token)
            user, seconds, identity = ADMIN, LIFETIME, None
        else:
            identity = await self._identify(request, body, audit)
            user, seconds = identity.user, identity.expires - time.time()
        audit.login(user, way)
        return self._begin_session(request, user, seconds, identity)

    @Endpoint("POST", "/api/v1/logout", "login", action="log out")
    async def log_out(self, request: Request, caller: Caller) -> Response:
        """Log out: the cookie is not valid any more."""
        if caller.session is not None:
            self._access.sessions.end(caller.session)
        response = Response(status_code=204)
        secure = self._access.is_secure(request)
        response.delete_cookie(COOKIE, path="/", secure=secure, httponly=True, samesite="strict")
        return response

    @Endpoint("GET", "/api/v1/me", "login", Me, errors=(401, 403, 429), guarded=False, example=BEARER)
    async def me(self, request: Request) -> Response:
        """The user of the request, and the word for the header X-CSRF-Token; or the ways to log in."""
        try:
            caller = await self._access.admit(request)
        except ApiError as reason:
            if reason.status != 401:
                raise
            answer = {"error": str(reason), "methods": self._access.methods}
            return JSONResponse(answer, 401, NO_STORE | reason.headers)
        csrf = None if caller.session is None else caller.session.csrf
        return JSONResponse({"user": caller.user, "via": caller.via, "csrf": csrf}, headers=NO_STORE)

    def _check_way(self, request: Request, way: str) -> None:
        """Refuse a way to log in that is not set up here."""
        if not self._access.methods:
            if is_local(request):
                raise ApiError(409, "no login is needed here: programs on this machine may use the API without one")
            raise ApiError(403, LOOPBACK_ONLY)
        if way not in self._access.methods:
            setting = {"token": "admin_token", "passcode": "admin_groups"}[way]
            raise ApiError(401, f"a login by {way} is not possible here ({setting} is not set)", CHALLENGE)

    def _begin_session(self, request: Request, user: str, seconds: float, identity: Identity | None) -> Response:
        sessions = self._access.sessions
        earlier = sessions.find(request.cookies.get(COOKIE, ""))
        if earlier is not None:
            sessions.end(earlier)
        session = sessions.begin(user, seconds, identity)
        response = JSONResponse({"user": user, "csrf": session.csrf}, headers=NO_STORE)
        response.set_cookie(
            COOKIE,
            sessions.cookie_of(session),
            max_age=int(min(seconds, LIFETIME)),
            path="/",
            secure=self._access.is_secure(request),
            httponly=True,
            samesite="strict",
        )
        return response

    async def _identify(self, request: Request, shown: LogIn, audit: AuditEntry) -> Identity:
        """The user of a login and passcode, in one of `admin_groups`.  Raises ApiError: there is no such user."""
        credentials = Credentials(
            login=shown.login,
            passcode=shown.passcode,
            transport="websocket",  # that of pages, for rules and authenticators that ask
            address=self._access.client_of(request).address,
            secure=self._access.is_secure(request),
        )
        identity = await self._access.identify(credentials, lambda refusal: audit.login(refusal.user, "passcode"))
        audit.login(identity.user, "passcode")
        if identity.method == "ticket":
            raise ApiError(403, "a ticket opens a session, not the console: log in with a passcode")
        if identity.groups.isdisjoint(self._settings.admin_groups):
            raise ApiError(403, "this user is in none of the groups that may use the admin API (admin_groups)")
        return identity


def _way_of(shown: LogIn) -> str:
    given = [name for name in ("token", "login", "passcode") if getattr(shown, name) is not None]
    if given == ["token"]:
        return "token"
    if given == ["login", "passcode"]:
        return "passcode"
    raise ApiError(400, "body: it must have either token, or login and passcode")
