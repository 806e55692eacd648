"""Publish over HTTP: `POST /api/v1/messages`, with the rights of a user.

    ?destination=/queue/orders     the body is the message, whatever it is; its content-type goes along
    without                        JSON: a message, or {"messages": [...]}

Several messages are one transaction: all of them are sent, or none, and the error names the first that is refused.  The
answer comes when the RECEIPT would: the messages are accepted, and stored where they are to be.

`Idempotency-Key` becomes the `dedup-id`, with the place of the message behind it in a batch.  So a request that is sent
again is one message, as long as `dedup_window` lasts.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import trio
from pydantic import ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.applications.requests import ClientRequests
from gateway.admin.endpoint import JSON, Api, ApiError, ApiModel, Endpoint
from gateway.admin.routes import MAX_BODY, body_of, sentence_of
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway
from gateway.runtime.local_client import LocalClient, SessionRefused
from gateway.transports.flow.rate_limits import LIMITS

PATH = "/api/v1/messages"
MOST = 1_000  # messages of one request
_LONGEST_KEY = 200  # characters of `Idempotency-Key`
_LONGEST_WAIT = 30.0  # seconds for the RECEIPT

# Of the session, or of the server.
_NOT_HEADERS = frozenset({"destination", "receipt", "transaction", "content-length"})
# Header fields of HTTP that become headers of the message.
_PREFIX = "stomp-"


class OutgoingMessage(ApiModel):
    """A message to publish."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"destination": "/queue/orders", "body": {"tea": 2}, "headers": {"priority": "5"}}
        }
    )

    destination: str
    body: Any = Field("", description="text; any other JSON value goes out as JSON")
    body_encoding: Literal["utf-8", "base64"] = "utf-8"
    headers: dict[str, str] = Field(default_factory=dict, description="those of a SEND")


class OutgoingMessages(ApiModel):
    """Messages to publish together: all of them, or none."""

    messages: list[OutgoingMessage]


class PublishedMessages(ApiModel):
    """The messages are accepted, and stored where they are to be."""

    published: int = Field(description="how many; a repeated one counts, too")


class PublishQuery(ApiModel):
    """Where the body goes, if it is itself the message."""

    destination: str = Field("", description="where the body goes, as it is; without, the body is JSON")


class _Sending(NamedTuple):
    headers: dict[str, str]
    body: bytes


class PublishApi(Api):
    def __init__(self, gateway: Gateway, settings: Settings, requests: ClientRequests) -> None:
        self._gateway = gateway
        self._settings = settings
        self._requests = requests

    @Endpoint(
        "POST",
        PATH,
        "applications",
        PublishedMessages,
        errors=(401, 403, 408, 413, 415, 429, 503),
        guarded=False,
        takes=(OutgoingMessage, OutgoingMessages),
        example={"-u": '"alice:$PASSCODE"', "destination": "/queue/orders", "--data-binary": "'two cups'"},
    )
    async def publish(self, request: Request, query: PublishQuery) -> Response:
        """Publish messages as a user: the login is that of a WebSocket's upgrade, and the rules are the user's.
        Answered when the RECEIPT would come."""
        remote, peer, headers = self._requests.admit(request)
        try:
            sendings = await self._sendings(request, query.destination)
            async with self._requests.session(remote, peer) as client:
                with trio.move_on_after(_LONGEST_WAIT) as waiting:
                    await _send(client, sendings)
                if waiting.cancelled_caught:
                    raise self._late(client)
        except ApiError as error:
            error.headers |= headers
            raise
        return JSONResponse({"published": len(sendings)}, headers=headers)

    def _late(self, client: LocalClient) -> ApiError:
        """What took so long.  The session ends with this, for its answer may still come."""
        block = self._gateway.blocked_publishers.by_session().get(client.session_id)
        client.close()
        why = f" ({block.reason})" if block is not None else ""
        status = 429 if block is not None and block.reason in LIMITS else 503
        sentence = f"no RECEIPT came within {_LONGEST_WAIT:g} s{why}, and the messages may still be accepted"
        return ApiError(status, f"{sentence}: send them again with the same Idempotency-Key", {"retry-after": "1"})

    async def _sendings(self, request: Request, destination: str) -> list[_Sending]:
        """The messages of a request, in order.  Raises ApiError: they cannot be read."""
        key = request.headers.get("idempotency-key", "")
        if len(key) > _LONGEST_KEY or not key.isprintable():
            raise ApiError(400, f"Idempotency-Key must be printable, with at most {_LONGEST_KEY} characters")
        if destination:
            body = await body_of(request, self._settings.max_body)
            sendings = [_Sending({**_of_fields(request), "destination": destination}, body)]
        else:
            media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media_type != JSON:
                raise ApiError(415, f"the body must be {JSON}, or the query must have a destination for it as it is")
            sendings = _read(await body_of(request, MAX_BODY))
        if key:
            for place, each in enumerate(sendings):
                each.headers["dedup-id"] = key if len(sendings) == 1 else f"{key}-{place}"
        return sendings


async def _send(client: LocalClient, sendings: Sequence[_Sending]) -> None:
    """Send all of them, or none.  Raises SessionRefused; ApiError: one of several is refused."""
    if len(sendings) == 1:
        await client.perform("SEND", *sendings[0])
        return
    client.send("BEGIN", {"transaction": "t"})
    for place, (headers, body) in enumerate(sendings):
        client.send("SEND", {**headers, "transaction": "t", "receipt": f"message-{place}"}, body)
    try:
        await client.perform("COMMIT", {"transaction": "t"})
    except SessionRefused as refused:
        if refused.error is not None and refused.receipt.startswith("message-"):
            which = f"message {refused.receipt.removeprefix('message-')} of {len(sendings)}, so none is sent"
            refused.error.args = (f"{which}: {refused.error}",)
        raise
    client.waiting()  # the receipts of the SENDs


def _of_fields(request: Request) -> dict[str, str]:
    """The headers of a message whose body is that of the request."""
    found = {name.removeprefix(_PREFIX): text for name, text in request.headers.items() if name.startswith(_PREFIX)}
    _check(found)
    if "content-type" in request.headers:
        found["content-type"] = request.headers["content-type"]
    return found


def _read(data: bytes) -> list[_Sending]:
    """The messages of a body that is JSON.  Raises ApiError: it has another shape."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise ApiError(400, "body: it is not JSON") from None
    try:
        if isinstance(value, dict) and "messages" in value:
            messages = OutgoingMessages.model_validate(value).messages
        else:
            messages = [OutgoingMessage.model_validate(value)]
    except ValidationError as error:
        raise ApiError(400, f"body: {sentence_of(error)}", logged="the body does not fit its model") from None
    if not 0 < len(messages) <= MOST:
        raise ApiError(400, f"body: it has {len(messages):,} messages, and must have 1 to {MOST:,}")
    return [_sending(each, place) for place, each in enumerate(messages)]


def _sending(message: OutgoingMessage, place: int) -> _Sending:
    headers = {**message.headers, "destination": message.destination}
    _check(message.headers)
    if not isinstance(message.body, str):
        return _Sending({"content-type": JSON, **headers}, json.dumps(message.body).encode())
    try:
        if message.body_encoding == "base64":
            return _Sending(headers, base64.b64decode(message.body, validate=True))
        return _Sending(headers, message.body.encode())
    except (binascii.Error, ValueError):
        raise ApiError(400, f"body: message {place}: the field 'body' is no {message.body_encoding}") from None


def _check(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if name in _NOT_HEADERS:
            raise ApiError(400, f"headers: {name!r} cannot be set here, leave it out")
        if not name or "\0" in name + value:
            raise ApiError(400, f"headers: no frame can hold {name[:40]!r}")
