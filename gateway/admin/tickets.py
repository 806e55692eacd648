"""Tickets for pages: `POST /api/v1/tickets`.

A page sends its token, `Authorization: Bearer`, or login and passcode as `Basic`, or its cookie, and gets

    {"ticket": "ticket-...", "expires_in": 30}

which it puts once into the address of the WebSocket, `wss://host/ws?ticket=...`, or into `passcode`.  A page of another
origin may ask if it could open the WebSocket, too; the answer to the browser's question before (CORS preflight) says
so.  Other pages get no ticket, even if their browser sends a cookie along.
"""

from __future__ import annotations

import structlog
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.access import AccessControl
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, retry_after
from gateway.admin.login import NO_STORE
from gateway.auth.tickets import Tickets, TooManyTickets
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity, Upgrade
from gateway.config.settings import Settings
from gateway.net.origins import ANY
from gateway.runtime.gateway import Gateway
from gateway.transports.accept.websocket import check_origin
from gateway.transports.wire.forwarded import ForwardedClient

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
        fields = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
        headers = NO_STORE | {"vary": "Origin"}
        try:
            client = self._access.client_of(request)
            if client.host:
                fields["host"] = client.host  # the proxy's own is not the one that the page asked for
            headers |= self._check_origin(fields, client)
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

    def _check_origin(self, fields: dict[str, str], client: ForwardedClient) -> dict[str, str]:
        """Refuse pages that could not open the WebSocket; the headers that let other pages read the answer."""
        origin, allowed = fields.get("origin"), self._gateway.in_force.now.allowed_origins
        refusal = check_origin(fields, allowed, open_to_all=self._settings.anonymous, secure=bool(client.secure))
        if refusal is not None:
            raise ApiError(refusal.status, refusal.reason)
        if origin is None:
            return {}
        if ANY in allowed:  # a page of any origin must show a login: what a browser sends by itself does not count
            return {"access-control-allow-origin": "*"}
        return {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}

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
