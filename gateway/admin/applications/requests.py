"""Requests of applications: the login of an HTTP request, and the session that carries it out.

The login is that of a WebSocket's upgrade: `Authorization` (Basic or Bearer), the signed cookie, or a ticket.  So are
the origins of pages that may ask.  What the session refuses becomes a status:

    400   the request is wrong              403   the rules forbid it           429   too many: logins, connections
    401   the login is wrong or missing     413   it is too large               503   not now; `Retry-After` says when
"""

import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from starlette.requests import Request

from gateway.admin.access import CHALLENGE, AccessControl
from gateway.admin.endpoint import ApiError
from gateway.broker.model.identity import Upgrade
from gateway.config.settings import Settings
from gateway.net import ANY
from gateway.runtime.gateway import Gateway
from gateway.runtime.local_client import LocalClient, SessionRefused
from gateway.transports.accept.websocket import check_origin
from gateway.transports.wire.forwarded import ForwardedClient
from gateway.transports.wire.link import Remote

log = structlog.get_logger("gateway.http")

_STATUS = {
    "login-refused": 401,
    "access-refused": 403,
    "access-lost": 403,
    "too-large": 413,
    "too-many": 429,
    "memory-full": 503,
    "slow-consumer": 503,
    "ended": 503,
    "internal": 500,
}
_SOON = 1  # seconds of `Retry-After` where the gateway has no better guess

# Sessions that wait for the next request of the same login: a login costs ten times a message.
_MOST_IDLE = 64
_LONGEST_IDLE = 10.0  # seconds


def fields_of(request: Request) -> dict[str, str]:
    """The header fields of a request; those that come several times are joined."""
    return {name: ", ".join(request.headers.getlist(name)) for name in request.headers}


def origin_headers(
    fields: dict[str, str], client: ForwardedClient, settings: Settings, allowed: tuple[str, ...]
) -> dict[str, str]:
    """The headers that let a page of another origin read the answer; raises ApiError where it may not ask.

    A page may ask that could open the WebSocket.  `fields`: of the request.  `allowed`: the setting `allowed_origins`.
    """
    if client.host:
        fields["host"] = client.host  # the proxy's own is not the one that the page asked for
    origin = fields.get("origin")
    refusal = check_origin(fields, allowed, open_to_all=settings.anonymous, secure=bool(client.secure))
    if refusal is not None:
        raise ApiError(refusal.status, refusal.reason)
    if origin is None:
        return {}
    if ANY in allowed:  # a page of any origin must show a login: what a browser sends by itself does not count
        return {"access-control-allow-origin": "*"}
    return {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}


def refusal_of(refused: SessionRefused) -> ApiError:
    """The answer to a request that the session refuses."""
    error = refused.error
    if error is None:
        return ApiError(503, "the gateway ended the session: ask again", {"retry-after": str(_SOON)})
    retry: int | None = getattr(error, "retry_after", None)
    status = 503 if retry is not None else _STATUS.get(error.cause, 400)
    if error.cause == "login-refused" and retry is not None:
        status = 429
    headers = dict(CHALLENGE) if status == 401 else {}
    if status in (429, 503):
        headers["retry-after"] = str(_SOON if retry is None else math.ceil(retry / 1000))
    return ApiError(status, f"{error}: {error.detail}" if error.detail else str(error), headers, logged=str(error))


class ClientRequests:
    """The sessions of HTTP requests."""

    def __init__(self, gateway: Gateway, settings: Settings, access: AccessControl) -> None:
        self._gateway = gateway
        self._settings = settings
        self._access = access
        self._idle: dict[bytes, list[tuple[float, LocalClient]]] = {}  # by login, the newest last

    def admit(self, request: Request, ticket: str = "") -> tuple[Remote, str, dict[str, str]]:
        """The other end with its credentials, its address for lists, and headers for the answer.

        Raises ApiError: a page of this origin may not ask.
        """
        fields = fields_of(request)
        client = self._access.client_of(request)
        allowed = tuple(self._gateway.in_force.now.allowed_origins)
        headers = {"vary": "Origin", **origin_headers(fields, client, self._settings, allowed)}
        origin = fields.get("origin", "")
        if not origin and fields.get("sec-fetch-site") == "same-origin":  # a browser sends no Origin along with a GET
            origin = f"{request.url.scheme}://{fields.get('host', '')}"
        shown = Upgrade(fields.get("authorization", ""), fields.get("cookie", ""), ticket, origin)
        port = f":{request.client.port}" if request.client is not None and request.client.port else ""
        return Remote(client.address, bool(client.secure), upgrade=shown), f"{client.address or 'unix'}{port}", headers

    async def connect(self, remote: Remote, peer: str) -> LocalClient:
        """A session of that login, to be closed.  Raises ApiError: it is refused."""
        try:
            return await self._gateway.connect_local(remote, peer)
        except SessionRefused as refused:
            raise refusal_of(refused) from None

    @asynccontextmanager
    async def session(self, remote: Remote, peer: str) -> AsyncIterator[LocalClient]:
        """A session of that login, for the block; it may have served requests before.

        Raises ApiError: the login is refused, or the session refuses what the block does.
        """
        key, client = _key(remote), None
        while waiting := self._idle.get(key):
            _, client = waiting.pop()
            if not client.has_ended:
                break
            client.close()
            client = None
        client = client or await self.connect(remote, peer)
        is_fine = False
        try:
            yield client
            is_fine = not client.has_ended
        except SessionRefused as refused:
            raise refusal_of(refused) from None
        finally:
            if is_fine and sum(map(len, self._idle.values())) < _MOST_IDLE:
                self._keep(key, client)
            else:
                client.close()

    def _keep(self, key: bytes, client: LocalClient) -> None:
        scheduler = self._gateway.broker.scheduler
        if not self._idle:
            scheduler.at(scheduler.clock() + _LONGEST_IDLE, self._sweep)
        self._idle.setdefault(key, []).append((scheduler.clock(), client))

    def _sweep(self) -> None:
        """End the sessions that have waited too long."""
        scheduler = self._gateway.broker.scheduler
        late = scheduler.clock() - _LONGEST_IDLE
        for key, waiting in [*self._idle.items()]:
            for _, client in [pair for pair in waiting if pair[0] <= late]:
                client.close()
            self._idle[key] = [pair for pair in waiting if pair[0] > late]
            if not self._idle[key]:
                del self._idle[key]
        if self._idle:
            oldest = min(pairs[0][0] for pairs in self._idle.values())
            scheduler.at(oldest + _LONGEST_IDLE, self._sweep)


def _key(remote: Remote) -> bytes:
    """By which requests of one login are known; it holds no secret that could be read back."""
    shown = remote.upgrade or Upgrade()
    parts = (remote.address, str(remote.secure), shown.origin, shown.authorization, shown.cookie)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).digest()
