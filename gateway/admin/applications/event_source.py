"""Server-sent events: `GET /sse?destination=/topic/x`, for `EventSource` and curl, as the HTML standard describes them.

    id: 1764000000000001       the number of a message of a stream; a browser sends it back as `Last-Event-ID`
    data: ...                  the body; or with `format=json` destination, headers and body
    event: gap                 messages are missing before the next: data is JSON with the destination
    event: end                 the subscription ends; data is the reason
    :                          a comment, after a while without messages

The reader is a session like others, subscribed in mode auto: slow readers, limits, rules and the drain are those of a
WebSocket.  Of several destinations the id holds the number of each, in their order, so that all go on where they were.
Queues are refused: their messages want an ACK, which this has no way for.
"""

import base64
import json
from collections.abc import Sequence
from typing import Annotated, Any

import trio
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admin.applications.requests import ClientRequests, refusal_of
from gateway.admin.endpoint import EVENT_STREAM, Api, ApiError, ApiModel, Endpoint, one_of
from gateway.admin.streams.events import COMMENT, EventsResponse, Write, awake, one_event
from gateway.broker.errors import NotAllowed
from gateway.broker.model.destinations import canonical_for, is_topic
from gateway.codec import Frame
from gateway.runtime.local_client import LocalClient, SessionRefused
from gateway.transports.wire.link import Remote

MOST = 20  # destinations of one reader
RETRY = 2_000  # milliseconds until a browser connects again
LONGEST_SUBSCRIBE = 30.0  # seconds until all destinations are subscribed
_UNKNOWN = "-"  # in an id: no message of that destination had a number


class EventQuery(ApiModel):
    """Which messages, and from where on."""

    destination: str = Field(description="a topic, or several with commas between them; wildcards are allowed")
    format: Annotated[str, one_of("text", "json")] = Field(
        "text", description="text: data is the body; json: also destination and headers"
    )
    last_event_id: str = Field("", description="goes on behind this id, like the header")
    ticket: str = Field("", description="a ticket, where a page has no cookie: EventSource sends no headers")


class EventApi(Api):
    def __init__(self, requests: ClientRequests) -> None:
        self._requests = requests

    @Endpoint(
        "GET",
        "/sse",
        "applications",
        media_type=EVENT_STREAM,
        errors=(400, 401, 403, 429, 503),
        guarded=False,
        example={"-u": '"alice:$PASSCODE"', "destination": "/topic/prices", "-N": ""},
    )
    async def listen(self, request: Request, query: EventQuery) -> Response:
        """Messages of topics as server-sent events. `Last-Event-ID` goes on behind a message, if the topic has a
        stream."""
        names = _names(query.destination)
        positions = _positions(request.headers.get("last-event-id", "") or query.last_event_id, len(names))
        remote, peer, headers = self._requests.admit(request, query.ticket)
        try:
            client = await self._connect(remote, peer, names, positions)
        except ApiError as refusal:
            refusal.headers |= headers
            raise
        return MessageEvents(client, positions, is_json=query.format == "json", headers=headers)

    async def _connect(self, remote: Remote, peer: str, names: list[str], positions: list[str]) -> LocalClient:
        """A client that is subscribed to all.  Raises ApiError."""
        client = await self._requests.connect(remote, peer)
        try:
            await _subscribe(client, names, positions)
        except SessionRefused as refused:
            client.close()
            raise refusal_of(refused) from None
        except BaseException:
            client.close()
            raise
        return client


def _names(text: str) -> list[str]:
    """The topics of a query.  Raises ApiError: one of them is none."""
    names = text.split(",")
    if len(names) > MOST:
        raise ApiError(400, f"destination: it names {len(names)} topics, and may name {MOST}")
    for name in names:
        try:
            is_fine = is_topic(canonical_for("", name))
        except NotAllowed as error:
            raise ApiError(400, f"destination: {error}: {error.detail}", logged=str(error)) from None
        if not is_fine:
            sentence = "is no topic: messages of a queue want an ACK, for which a STOMP client is needed"
            raise ApiError(400, f"destination: {name[:80]!r} {sentence}", logged="a destination is no topic")
    return names


def _positions(last: str, count: int) -> list[str]:
    """The number of the last message of each destination, as an event's id has them; empty: none is known."""
    found = last.split(",") if last else [_UNKNOWN] * count
    is_known = all(each == _UNKNOWN or (each.isascii() and each.isdigit() and len(each) < 20) for each in found)
    if len(found) != count or not is_known:
        raise ApiError(400, "Last-Event-ID is none of these destinations in this order")
    return ["" if each == _UNKNOWN else each for each in found]


async def _subscribe(client: LocalClient, names: Sequence[str], positions: Sequence[str]) -> None:
    """Subscribe to all.  Raises SessionRefused; ApiError: no RECEIPT comes in time."""
    for place, (name, last) in enumerate(zip(names, positions, strict=True)):
        start = {"from-seq": str(int(last) + 1)} if last else {}
        client.send("SUBSCRIBE", {"destination": name, "id": str(place), "receipt": f"subscribed-{place}", **start})
    with trio.move_on_after(LONGEST_SUBSCRIBE) as waiting:
        await client.confirmed(f"subscribed-{len(names) - 1}")
    if waiting.cancelled_caught:
        sentence = f"destination: its subscription was not confirmed within {LONGEST_SUBSCRIBE:g} s; try again"
        raise ApiError(503, sentence, logged="a subscription was not confirmed")


class MessageEvents(EventsResponse):
    """Writes the messages of a client until one side ends it."""

    def __init__(self, client: LocalClient, positions: list[str], *, is_json: bool, headers: dict[str, str]) -> None:
        super().__init__(headers)
        self._client = client
        self._positions = positions
        self._is_json = is_json

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._client.close()

    async def write_all(self, write: Write) -> None:
        await write(f"retry: {RETRY}\n{COMMENT}")  # a proxy may wait for it before it passes the headers on
        try:
            while True:
                first = await awake(write, self._client.receive)
                await write("".join(map(self._events_of, [first, *self._client.waiting()])))
        except SessionRefused as refused:
            await write(self._last_event(refused))

    def _last_event(self, refused: SessionRefused) -> str:
        error = refusal_of(refused)
        retry = f"retry: {int(error.headers['retry-after']) * 1000}\n" if "retry-after" in error.headers else ""
        return retry + one_event("end", {"reason": str(error)})

    def _events_of(self, frame: Frame) -> str:
        if frame.command != "MESSAGE":
            return ""  # a RECEIPT
        headers = frame.headers
        number, text = headers.get("seq", ""), ""
        if headers.get("gap") == "true":
            facts = {"destination": headers["destination"], "first-seq": headers.get("first-seq")}
            text = one_event("gap", facts)
            if not number:
                return text  # it says no more than that
        if number:
            self._positions[int(headers["subscription"])] = number
            text += f"id: {','.join(each or _UNKNOWN for each in self._positions)}\n"
        return text + _data(self._shown(frame)) + "\n"

    def _shown(self, frame: Frame) -> str:
        try:
            body, encoding = frame.body.decode(), "utf-8"
        except UnicodeDecodeError:
            body, encoding = base64.b64encode(frame.body).decode(), "base64"
        if not self._is_json:
            return body
        headers = {name: text for name, text in frame.headers.items() if name not in ("subscription", "destination")}
        found: dict[str, Any] = {"destination": frame.headers["destination"], "headers": headers, "body": body}
        return json.dumps(found if encoding == "utf-8" else {**found, "body_encoding": encoding})


def _data(text: str) -> str:
    """The field `data` of an event: each line of the text is one; CR ends a line of the stream, too."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join([f"data: {line}\n" for line in lines])
