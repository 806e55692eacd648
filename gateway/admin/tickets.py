"""Tickets for pages: `POST /api/v1/tickets`.

A page sends its token, `Authorization: Bearer`, or login and passcode as `Basic`, or its cookie, and gets

    {"ticket": "ticket-...", "expires_in": 30}

which it puts once into the address of the WebSocket, `wss://host/ws?ticket=...`, or into `passcode`.  So the address
has no secret in it that could be used a second time.

A page of another origin may ask if it could open the WebSocket, too: from the same host, or from `allowed_origins`.
The answer to the browser's question before (CORS preflight) says so.  Other pages get no ticket, even if their browser
sends a cookie along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
import trio
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.access import CHALLENGE, too_many
from gateway.admin.audit import RefusalLimiter
from gateway.admin.endpoint import ApiError, ApiModel, Endpoint, retry_after
from gateway.admin.login import NO_STORE, too_slow
from gateway.auth.failures import TooManyFailures
from gateway.auth.tickets import Tickets, TooManyTickets
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity, Upgrade
from gateway.net.origins import ANY
from gateway.transports.accept.websocket import check_origin
from gateway.transports.wire.forwarded import ForwardedClient, ForwardedError

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway

PATH = "/api/v1/tickets"

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


class TicketApi:
    """Gives tickets out.

    Args:
        tickets: None: no login is needed.
        refusals: limits the lines of the log about refused clients.
    """

    def __init__(self, gateway: Gateway, settings: Settings, tickets: Tickets | None, refusals: RefusalLimiter) -> None:
        self._gateway = gateway
        self._settings = settings
        self._tickets = tickets
        self._refusals = refusals

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table.  It is for all users of the broker, and checks their logins itself."""
        refusals, login = (401, 403, 404, 429, 503), {"-u": '"alice:$PASSCODE"'}
        return [
            Endpoint("POST", PATH, self.issue, "login", Ticket, errors=refusals, guarded=False, example=login),
            Endpoint("OPTIONS", PATH, self.preflight, "login", status=204, errors=(400, 403), guarded=False),
        ]

    async def preflight(self, request: Request) -> Response:
        """A browser's question before a page of another origin may ask for a ticket."""
        return await self._answer(request)

    async def issue(self, request: Request) -> Response:
        """A ticket for one WebSocket, for a user that shows what a login at the broker needs."""
        return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        fields = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
        headers = NO_STORE | {"vary": "Origin"}
        try:
            client = self._client(request, fields)
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

    def _client(self, request: Request, fields: dict[str, str]) -> ForwardedClient:
        """The client behind trusted proxies; the host name that it asked for is put into the fields."""
        peer = "" if request.client is None else request.client.host
        try:
            client = self._gateway.trusted.client_of(peer, fields)
        except ForwardedError as error:
            raise ApiError(400, str(error)) from None
        if client.host:
            fields["host"] = client.host
        return client

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
        try:
            with trio.fail_after(self._settings.connect_timeout):
                identity = await self._gateway.identify(_credentials(fields, client))
        except TooManyFailures as error:
            self._tell(error, client)
            raise too_many(error) from None
        except LoginRefused as error:
            self._tell(error, client)
            raise ApiError(401, f"{error}: {error.detail}", CHALLENGE) from None
        except trio.TooSlowError:
            raise too_slow(self._settings) from None
        if identity.method == "ticket":
            raise ApiError(403, "a ticket opens a session and gets no other ticket: log in with a token or passcode")
        return identity

    def _tell(self, error: LoginRefused, client: ForwardedClient) -> None:
        """A line of the log, as for a refused CONNECT: without the detail, and with names of users only."""
        peer = client.address or "unix"
        if self._refusals.admit(peer):
            known = {"login": error.user, "method": error.method, "why": error.why}
            shown = {key: text for key, text in known.items() if text}
            log.info("ticket refused", peer=peer, reason=str(error), **shown)


def _credentials(fields: dict[str, str], client: ForwardedClient) -> Credentials:
    """The login of a request, as if it were the upgrade of a WebSocket."""
    shown = Upgrade(
        authorization=fields.get("authorization", ""),
        cookie=fields.get("cookie", ""),
        origin=fields.get("origin", ""),
    )
    return Credentials(transport="websocket", address=client.address, secure=bool(client.secure), upgrade=shown)
