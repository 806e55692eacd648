"""Logins of pages: `POST /login`, `POST /logout` and `GET /me` for the console, `POST /tickets` for WebSockets.

A page of the console sends the admin token, or login and passcode of a user in one of `admin_groups`.  It gets a cookie
that no script can read and no other site's page can send, and the word for the header `X-CSRF-Token`.  Failed logins
are slow, counted and limited.  A user with a right passcode and in none of the groups is told that: it is no secret.

For a ticket a page sends its token, `Authorization: Bearer`, or login and passcode as `Basic`, or its cookie, and gets
`{"ticket": "ticket-...", "expires_in": 30}`.  It puts the ticket once into the address of the WebSocket,
`wss://host/ws?ticket=...`, or into `passcode`.  A page of another origin may ask if it could open the WebSocket, too;
the answer to the browser's question before (CORS preflight) says so.  Other pages get no ticket, even if their browser
sends a cookie along.
"""

import time
from typing import Literal

import structlog
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
from gateway.admin.applications.requests import fields_of, origin_headers
from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, retry_after
from gateway.auth.tickets import Tickets, TooManyTickets
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity, Upgrade
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway
from gateway.transports.wire.forwarded import ForwardedClient

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


PATH = "/api/v1/tickets"
# Of the examples.
PASSCODE = {"-u": '"alice:$PASSCODE"'}

log = structlog.get_logger("gateway.tickets")

_CORS = {
    "access-control-allow-methods": "POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}


class Ticket(ApiModel):
    """A ticket, which is valid once."""

    ticket: str
    expires_in: float = Field(description="seconds")


class TicketApi(Api):
    """Gives tickets out.  `tickets`: None: no login is needed."""

    def __init__(self, gateway: Gateway, settings: Settings, tickets: Tickets | None, access: AccessControl) -> None:
        self._gateway = gateway
        self._settings = settings
        self._tickets = tickets
        self._access = access

    @Endpoint("OPTIONS", PATH, "login", errors=(400, 403), guarded=False)
    async def preflight(self, request: Request) -> Response:
        """A browser's question before a page of another origin may ask for a ticket."""
        return await self._answer(request)

    @Endpoint("POST", PATH, "login", Ticket, errors=(401, 403, 404, 429, 503), guarded=False, example=PASSCODE)
    async def issue(self, request: Request) -> Response:
        """A ticket for one WebSocket, for a user that shows what a login at the broker needs."""
        return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        fields = fields_of(request)
        headers = NO_STORE | {"vary": "Origin"}
        try:
            client = self._access.client_of(request)
            allowed = tuple(self._gateway.in_force.now.allowed_origins)
            headers |= origin_headers(fields, client, self._settings, allowed)
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers | _CORS)
            answer = await self._issue(fields, client)
        except ApiError as error:
            error.headers |= headers
            return error.response
        return JSONResponse(answer, headers=headers)

    async def _issue(self, fields: dict[str, str], client: ForwardedClient) -> dict[str, object]:
        if self._tickets is None:
            raise ApiError(404, "no login is needed here, so there are no tickets: connect without one")
        if self._gateway.draining:
            sentence = "the gateway is shutting down and takes no logins: ask again when it has been restarted"
            raise ApiError(503, sentence, retry_after(self._settings))
        identity = await self._identity(fields, client)
        try:
            ticket = self._tickets.issue(identity)
        except TooManyTickets as error:
            raise ApiError(503, str(error)) from None
        return {"ticket": ticket, "expires_in": round(self._tickets.lifetime, 3)}

    async def _identity(self, fields: dict[str, str], client: ForwardedClient) -> Identity:
        credentials = _credentials(fields, client)
        identity = await self._access.identify(credentials, lambda refusal: self._tell(refusal, client))
        if identity.method == "ticket":
            raise ApiError(403, "a ticket opens a session and gets no other ticket: log in with a token or passcode")
        return identity

    def _tell(self, error: LoginRefused, client: ForwardedClient) -> None:
        """A line of the log, as for a refused CONNECT: without the detail, and with names of users only."""
        peer = client.address or "unix"
        if self._access.refusals.admit(peer):
            known = {"login": error.user, "method": error.method, "why": error.why}
            shown = {key: text for key, text in known.items() if text}
            log.info("ticket refused", peer=peer, reason=str(error), **shown)


def _credentials(fields: dict[str, str], client: ForwardedClient) -> Credentials:
    """The login of a request, as if it were the upgrade of a WebSocket."""
    shown = Upgrade(
        authorization=fields.get("authorization", ""), cookie=fields.get("cookie", ""), origin=fields.get("origin", "")
    )
    return Credentials(transport="websocket", address=client.address, secure=bool(client.secure), upgrade=shown)
