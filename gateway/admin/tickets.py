"""Tickets for pages: `POST /api/v1/tickets`.

A page shows its token, `Authorization: Bearer`, or login and passcode as `Basic`, or its cookie, and gets

    {"ticket": "ticket-...", "expires_in": 30}

which it puts once into the address of the WebSocket, `wss://host/ws?ticket=...`, or into `passcode`.  Nothing secret
stands in an address then that would be good for a second use.

Pages of another origin may ask where they could open the WebSocket, too: the same host, or allowed_origins.  The answer
to a browser's question before (CORS preflight) says so.  A page of anywhere else gets no ticket, whatever cookie its
browser sends along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import models
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import come_back
from gateway.admin.strangers import Strangers
from gateway.auth.failed_logins import TooManyFailedLogins
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


class _Refused(Exception):
    """No ticket; the arguments are status, sentence and headers."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}


class TicketOffice:
    """Gives tickets out.

    Args:
        tickets: None: nobody has to log in.
        strangers: how many were refused.
    """

    def __init__(self, gateway: Gateway, settings: Settings, tickets: Tickets | None, strangers: Strangers) -> None:
        self._gateway = gateway
        self._settings = settings
        self._tickets = tickets
        self._strangers = strangers

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table.  It is for everybody who can log in at the broker, and guards itself."""
        return [
            Endpoint(
                "POST",
                PATH,
                self.answer,
                "A ticket for whoever shows what he would log in with at the broker: good once, for a WebSocket.",
                "login",
                models.Ticket,
                errors=(401, 403, 404, 429, 503),
                guarded=False,
                example={"-u": '"alice:$PASSCODE"'},
            ),
            Endpoint(
                "OPTIONS",
                PATH,
                self.answer,
                "What a browser asks before a page of another origin may ask for a ticket.",
                "login",
                None,
                status=204,
                errors=(400, 403),
                guarded=False,
            ),
        ]

    async def answer(self, request: Request) -> Response:
        """A ticket, or why there is none."""
        fields = {name: ", ".join(request.headers.getlist(name)) for name in request.headers}
        headers = {"cache-control": "no-store", "vary": "Origin"}
        try:
            client = self._client(request, fields)
            headers |= self._check_origin(fields, client)
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers | _CORS)
            if self._tickets is None:
                raise _Refused(404, "nobody has to log in here, so there are no tickets; connect without one")
            if self._gateway.draining:
                sentence = "the gateway is shutting down and lets nobody in: ask again when it has been restarted"
                raise _Refused(503, sentence, come_back(self._settings))
            identity = await self._identity(fields, client)
            ticket = self._tickets.issue(identity)
        except TooManyTickets as error:
            return JSONResponse({"error": str(error)}, 503, headers)
        except _Refused as error:
            return JSONResponse({"error": str(error)}, error.status, headers | error.headers)
        return JSONResponse({"ticket": ticket, "expires_in": round(self._tickets.lifetime, 3)}, headers=headers)

    def _client(self, request: Request, fields: dict[str, str]) -> ForwardedClient:
        """Who asks, behind trusted proxies; the host name that it asked for is put into the fields."""
        peer = "" if request.client is None else request.client.host
        try:
            client = self._gateway.trusted.client_of(peer, fields)
        except ForwardedError as error:
            raise _Refused(400, str(error)) from None
        if client.host:
            fields["host"] = client.host
        return client

    def _check_origin(self, fields: dict[str, str], client: ForwardedClient) -> dict[str, str]:
        """Refuse pages that could not open the WebSocket; what lets the others read the answer."""
        origin, allowed = fields.get("origin"), self._gateway.in_force.now.allowed_origins
        refusal = check_origin(fields, allowed, open_to_all=self._settings.anonymous, secure=bool(client.secure))
        if refusal is not None:
            raise _Refused(refusal.status, refusal.reason)
        if origin is None:
            return {}
        if ANY in allowed:  # whoever it is has to show something: nothing that a browser sends by itself counts
            return {"access-control-allow-origin": "*"}
        return {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}

    async def _identity(self, fields: dict[str, str], client: ForwardedClient) -> Identity:
        try:
            with trio.fail_after(self._settings.connect_timeout):
                identity = await self._gateway.identify(_credentials(fields, client))
        except TooManyFailedLogins as error:
            self._tell(error, client)
            raise _Refused(429, f"{error}: {error.detail}", {"retry-after": f"{error.seconds:.0f}"}) from None
        except LoginRefused as error:
            self._tell(error, client)
            challenge = {"www-authenticate": 'Bearer realm="gateway"'}
            raise _Refused(401, f"{error}: {error.detail}", challenge) from None
        except trio.TooSlowError:
            sentence = f"nobody said who you are within {self._settings.connect_timeout:g} s (connect_timeout)"
            raise _Refused(503, sentence) from None
        if identity.method == "ticket":
            raise _Refused(403, "a ticket is good for a session, and not for another ticket")
        return identity

    def _tell(self, error: LoginRefused, client: ForwardedClient) -> None:
        """A line of the log, as for a CONNECT that is refused: without the detail, and with names of users only."""
        peer = client.address or "unix"
        if self._strangers.may_tell(peer):
            known = {"login": error.user, "method": error.method, "why": error.why}
            shown = {key: text for key, text in known.items() if text}
            log.info("ticket refused", peer=peer, reason=str(error), **shown)


def _credentials(fields: dict[str, str], client: ForwardedClient) -> Credentials:
    """What a request shows, as if it were the upgrade of a WebSocket."""
    shown = Upgrade(
        authorization=fields.get("authorization", ""),
        cookie=fields.get("cookie", ""),
        origin=fields.get("origin", ""),
    )
    return Credentials(transport="websocket", address=client.address, secure=bool(client.secure), upgrade=shown)
