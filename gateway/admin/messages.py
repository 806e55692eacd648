"""Messages of queues: an operator looks at them, publishes, deletes, purges, moves and redrives them.

The work on waiting messages is the broker's (`gateway.broker.admin.messages`), in slices.  A change is answered when
the store has it; after `PATIENCE` seconds the work is cancelled, and the error says how far it came.

`POST /publish` is a SEND of an operator, answered when its RECEIPT would have been.  No rule applies.  What only a
session has is refused: transactions, temporary destinations, a `user-id`.  The SEND is a task of the broker's
scheduler, so its deliveries are flushed and no publisher is blocked for it; as an operator cannot be blocked either, it
is refused while memory is short, and while the gateway drains.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import trio
from pydantic import ConfigDict, Field
from starlette.responses import JSONResponse, Response

from gateway.admin.access import Caller
from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, Seconds, retry_after
from gateway.admin.listing import ListPage, PageQuery, Row
from gateway.broker import Broker
from gateway.broker.admin.messages import (
    Busy,
    Outcome,
    Page,
    RedrivePlan,
    RunningOperation,
    Search,
    StreamPage,
    Unknown,
)
from gateway.broker.errors import NotAllowed
from gateway.broker.headers.parse import send_options
from gateway.broker.model import destinations
from gateway.codec import Head
from gateway.codec.encoder import NOT_PASSED_ON
from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway

PATIENCE = 30.0  # seconds
MAX_BODY = 1024 * 1024  # bytes of a body that are shown
MAX_IDS = 10_000  # of one request; a console has 1,000 on a page

T = TypeVar("T")

# Of the examples.
ORDERS = {"destination": "/queue/orders"}
LETTERS = {"destination": "/queue/dlq.orders"}

_RESERVED = frozenset(["destination", "user-id", *NOT_PASSED_ON])
"""Headers that a request cannot give: they have fields of their own, or are the server's or a session's."""

_QUEUE = Field(description="the queue, as a client or a list names it")


class MessageListQuery(PageQuery):
    """Which messages of which queue."""

    destination: str = _QUEUE
    selector: str = Field("", description="only messages that it selects")


class MessageQuery(ApiModel):
    """Which message of which queue."""

    destination: str = _QUEUE
    id: str = Field(description="its message-id")


class MessageContent(ApiModel):
    """Headers and body of a message."""

    headers: dict[str, str] = Field(description="those that fit; secret values are hidden")
    body: str
    body_encoding: Literal["utf-8", "base64"]
    truncated: bool = Field(description="the body is longer, or there are other headers")


class DeadLetterRow(ApiModel):
    """Why a message is a dead letter."""

    destination: str = Field(description="of its SEND")
    source: str = Field(description="the queue or durable subscription before")
    reason: str
    failures: int
    first_at: Seconds = Field(description="of the first failure, since the epoch")


class MessageRow(MessageContent):
    """A message that waits."""

    id: str
    position: int | None = Field(description="from 0, delayed messages last; null where it was named")
    destination: str = Field(description="as its sender wrote it")
    size: int = Field(description="bytes of the body")
    priority: int
    expires: Seconds | None
    sent: Seconds | None = Field(
        description="when it came into this queue; null: not known without a journal or tracing"
    )
    deliveries: int
    redelivered: bool
    delayed: bool = Field(description="it comes back later, after a failure")
    headers: dict[str, str] = Field(description="those that fit where the body is cut; secret values are hidden")
    dead_letter: DeadLetterRow | None


class MessagePage(ListPage):
    """A page of the messages of a queue."""

    messages: list[MessageRow]
    next: int | None = Field(description="offset of the next page; null: none. A page ends at 512 KiB")


class DestinationName(ApiModel):
    """A destination."""

    destination: str = Field(min_length=1, description="as a client writes it, or as a list shows it")


Ids = Annotated[list[str], Field(min_length=1, max_length=MAX_IDS, description="message-ids")]
Limit = Annotated[int, Field(ge=1, le=10**9, description="most messages")]


class Delete(DestinationName):
    """Messages to delete."""

    model_config = ConfigDict(json_schema_extra={"example": {"destination": "/queue/orders", "ids": ["$MESSAGE"]}})

    ids: Ids


class Deleted(ApiModel):
    """What was deleted."""

    deleted: int
    missing: list[str] = Field(description="ids that do not wait there")


class Purge(DestinationName):
    """A queue to empty."""

    model_config = ConfigDict(json_schema_extra={"example": {"destination": "/queue/orders", "selector": "size > 10"}})

    selector: str = Field("", description="only messages that it selects; empty: all")


class Purged(ApiModel):
    """What was deleted."""

    purged: int


class Move(ApiModel):
    """Messages to move to another queue.  Either `ids` or `selector`; neither: all."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"source": "/queue/orders", "target": "/queue/parked", "limit": 100}}
    )

    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    ids: Ids | None = None
    selector: str = ""
    limit: Limit | None = None


class Redrive(DestinationName):
    """Dead letters to send back to where they came from."""

    model_config = ConfigDict(json_schema_extra={"example": {"destination": "/queue/dlq.orders"}})

    ids: Ids | None = None
    limit: Limit | None = None


class RedriveQuery(ApiModel):
    """Which dead letters."""

    destination: str = _QUEUE


class NotMoved(ApiModel):
    """A message that stayed where it was."""

    id: str
    error: str


class Moved(ApiModel):
    """What went to the target."""

    moved: int
    refused: list[NotMoved] = Field(description="the first 1,000")
    stopped: str | None = Field(description="why it ended before all were moved; null: it did not")


class Redriven(ApiModel):
    """What went back."""

    redriven: int
    refused: list[NotMoved] = Field(description="the first 1,000")
    stopped: str | None = Field(description="why it ended before all went back; null: it did not")


class Plan(ApiModel):
    """Where dead letters would go."""

    targets: dict[str, int] = Field(description="destination -> how many go there, if it has room, of the first 100")
    others: int = Field(description="how many go elsewhere")
    complete: bool = Field(description="all dead letters were looked at; false: the first 10,000")
    refusals: int = Field(description="how many would stay")
    refused: list[NotMoved] = Field(description="the first 1,000 of these")


class Publish(DestinationName):
    """A message."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"destination": "/queue/orders", "body": "an order", "headers": {"persistent": "true"}}
        }
    )

    body: str
    headers: dict[str, str] = Field({}, description="as in a SEND")
    body_encoding: Literal["utf-8", "base64"] = "utf-8"


class Published(ApiModel):
    """It was routed, and stored if its headers ask for that."""

    published: Literal[True]


class MessagesApi(Api):
    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings

    @Endpoint("GET", "/api/v1/messages", "messages", MessagePage, errors=(404, 503), example=ORDERS | {"limit": "10"})
    async def messages(self, query: MessageListQuery) -> Response:
        """Messages that wait in a queue, also those in the store alone, or that a topic keeps for replay, the newest
        first; with the first 4 KiB of each body."""
        browse, limit, offset = self._gateway.message_admin.browse, query.limit, query.offset
        page: Page = await _result(lambda then: browse(query.destination, offset, limit, query.selector, then))
        window = {"total": page.total, "limit": limit, "offset": offset, "next": page.next}
        return JSONResponse({"messages": page.messages, **window})

    @Endpoint("GET", "/api/v1/message", "messages", MessageRow, errors=(404, 503), example=ORDERS | {"id": "$MESSAGE"})
    async def message(self, query: MessageQuery) -> Response:
        """One message that waits, or that a topic keeps for replay, with up to 1 MiB of its body."""
        find = self._gateway.message_admin.find
        row: Row | None = await _result(lambda then: find(query.destination, query.id, MAX_BODY, then))
        if row is None:
            raise ApiError(404, "no such message waits there: a consumer has it, or it has gone")
        return JSONResponse(row)

    @Endpoint("POST", "/api/v1/messages/delete", "messages", Deleted, errors=(404, 409, 503), action="delete messages")
    async def delete(self, body: Delete, audit: AuditEntry) -> Response:
        """Delete single messages."""
        audit.target(body.destination)
        delete = self._gateway.message_admin.delete
        outcome = await _changed(audit, lambda then: delete(body.destination, body.ids, then))
        return JSONResponse({"deleted": outcome.done, "missing": outcome.missing})

    @Endpoint("POST", "/api/v1/queues/purge", "destinations", Purged, errors=(404, 409, 503), action="purge")
    async def purge(self, body: Purge, audit: AuditEntry) -> Response:
        """Delete all messages that wait in a queue, or those of a selector."""
        audit.target(body.destination)
        purge = self._gateway.message_admin.purge
        outcome = await _changed(audit, lambda then: purge(body.destination, body.selector, then))
        return JSONResponse({"purged": outcome.done})

    @Endpoint("POST", "/api/v1/queues/move", "destinations", Moved, errors=(404, 409, 503), action="move")
    async def move(self, body: Move, audit: AuditEntry) -> Response:
        """Move messages to another queue, or publish them to a topic."""
        audit.target(f"{body.source} -> {body.target}")
        if body.ids is not None and body.selector:
            raise ApiError(400, "body: it may have ids or a selector, and not both")
        move = self._gateway.message_admin.move
        outcome = await _changed(
            audit, lambda then: move(body.source, body.target, body.ids, body.selector, body.limit, then)
        )
        return JSONResponse({"moved": outcome.done, **_refusals(outcome)})

    @Endpoint("GET", "/api/v1/queues/redrive", "destinations", Plan, errors=(404, 503), example=LETTERS)
    async def plan(self, query: RedriveQuery) -> Response:
        """Where dead letters would go, if all were sent back now; nothing is moved."""
        plan_redrive = self._gateway.message_admin.plan_redrive
        plan: RedrivePlan = await _result(lambda then: plan_redrive(query.destination, then))
        refused = [{"id": identifier, "error": sentence} for identifier, sentence in plan.refused]
        seen = {"targets": plan.targets, "others": plan.others, "complete": plan.is_complete}
        return JSONResponse({**seen, "refusals": plan.refusals, "refused": refused})

    @Endpoint("POST", "/api/v1/queues/redrive", "destinations", Redriven, errors=(404, 409, 503), action="redrive")
    async def redrive(self, body: Redrive, audit: AuditEntry) -> Response:
        """Send dead letters back to where they came from, with a fresh count of failures."""
        audit.target(body.destination)
        redrive = self._gateway.message_admin.redrive
        outcome = await _changed(audit, lambda then: redrive(body.destination, body.ids, body.limit, then))
        return JSONResponse({"redriven": outcome.done, **_refusals(outcome)})

    @Endpoint("POST", "/api/v1/publish", "messages", Published, errors=(503,), action="publish")
    async def publish(self, body: Publish, audit: AuditEntry, caller: Caller) -> Response:
        """Publish a message; answered when it has been routed, and stored if its headers ask for that."""
        audit.target(body.destination)
        data = self._data_of(body)
        audit.facts(octets=len(data))
        head = self._head_of(body, caller.user)
        if self._gateway.broker.memory.pressed:
            raise ApiError(503, "memory is short, and publishers are held back: try again in a moment")
        number = await self._carry_out(body.destination, head, data)
        with trio.move_on_after(PATIENCE) as waiting:
            if self._gateway.committer is not None:
                await self._gateway.committer.wait_for(number)
        if waiting.cancelled_caught:
            raise _not_confirmed("the message was accepted")
        return JSONResponse({"published": True})

    def _data_of(self, asked: Publish) -> bytes:
        try:
            data = asked.body.encode()
            if asked.body_encoding == "base64":
                data = base64.b64decode(asked.body, validate=True)
        except (binascii.Error, ValueError):
            raise ApiError(400, "body: the field 'body' is no base64") from None
        if len(data) > self._settings.max_body:
            raise ApiError(400, f"body: the message has {len(data)} bytes, max_body is {self._settings.max_body}")
        return data

    def _head_of(self, asked: Publish, user: str) -> Head:
        """The head of the message, if a frame can hold it."""
        settings = self._settings
        for name, value in asked.headers.items():
            if name in _RESERVED:
                raise _bad_header(f"headers: {name!r} cannot be set here, leave it out")
            if not name or "\0" in name + value:
                raise _bad_header(f"headers: no frame can hold {name[:40]!r}")
            if len(name) + len(value) > settings.max_header_line:
                raise _bad_header(f"headers: {name[:40]!r} is longer than max_header_line, {settings.max_header_line}")
        if len(asked.headers) >= settings.max_headers:
            raise ApiError(400, f"headers: there are {len(asked.headers)}, max_headers is {settings.max_headers}")
        if "\0" in asked.destination:
            raise ApiError(400, "body: no frame can hold this destination")
        # Functions see the operator as they see the user of any other message.
        of_app = {"user-id": user, "session": user} if destinations.APP in asked.destination else {}
        return Head.of("SEND", {**asked.headers, **of_app, "destination": asked.destination})

    async def _carry_out(self, destination: str, head: Head, body: bytes) -> int:
        """Route it; returns the batch of the store that has what it changed, or 0.  Raises ApiError."""
        done = trio.Event()
        found: list[int | ApiError] = []

        def carry_out() -> None:
            try:
                found.append(self._send(destination, head, body))
            except NotAllowed as error:
                found.append(self._refused(error))
            except ApiError as error:
                found.append(error)
            finally:
                done.set()

        self._gateway.broker.scheduler.later(carry_out)
        await done.wait()
        (result,) = found
        if isinstance(result, ApiError):
            raise result
        return result

    def _send(self, destination: str, head: Head, body: bytes) -> int:
        """The SEND itself; returns the batch of the store, or 0.  Raises NotAllowed; ApiError while it drains."""
        if self._gateway.draining:
            sentence = "the gateway is shutting down and takes no messages: publish again when it has been restarted"
            raise ApiError(503, sentence, retry_after(self._settings))
        broker = self._gateway.broker
        options = send_options(head.headers)
        if options.temporary_reply is not None or destination.startswith(destinations.TEMPORARY):
            raise NotAllowed("operators have no temporary destinations", "name one of another kind")
        if options.passed_on is not None:
            head = Head.of(head.command, dict(options.passed_on))
        changes = 0 if broker.storage is None else broker.storage.changes
        sending = broker.router.prepare(head, body, destination, options, None)
        for name, _ in sending.targets:
            _check_owner(broker, name)
        broker.router.send(sending)
        broker.context.slow_consumers.take_strained()  # no publisher is blocked for this SEND
        return 0 if broker.storage is None or broker.storage.changes == changes else broker.storage.number

    def _refused(self, error: NotAllowed) -> ApiError:
        """400 where the operator should ask for something else, 503 where the same may work later."""
        broker = self._gateway.broker
        is_store = broker.storage is not None and broker.storage.failure
        status = 503 if broker.memory.is_full or is_store else 400
        return ApiError(status, f"{error}: {error.detail}", logged=str(error))


def _check_owner(broker: Broker, name: str) -> None:
    """Refuse a temporary destination that has gone with its session; raises NotAllowed.

    A client's SEND there is lost without an ERROR, because it may be late; an operator has most likely mistyped it.
    """
    is_temporary = name.startswith((destinations.REPLY_QUEUE, destinations.REPLY_TOPIC))
    if is_temporary and name not in broker.registry.temporaries:
        raise NotAllowed(
            "no such temporary destination", f"{name[:80]!r} has no session; it ended with the session that made it"
        )


def _bad_header(sentence: str) -> ApiError:
    return ApiError(400, sentence, logged="a header cannot be sent")


def _refusals(outcome: Outcome) -> Row:
    missing = [(each, "it does not wait there: a consumer has it, or it has gone") for each in outcome.missing]
    refused = [{"id": identifier, "error": sentence} for identifier, sentence in [*outcome.refused, *missing]]
    return {"refused": refused, "stopped": outcome.stopped or None}


async def _changed(audit: AuditEntry, start: Callable[[Callable[[Outcome], None]], RunningOperation]) -> Outcome:
    """Wait for a change, and add to the audit log what it did."""
    outcome = await _result(start)
    audit.facts(done=outcome.done, missing=len(outcome.missing), refused=outcome.refusals)
    if outcome.stopped:
        audit.facts(stopped=outcome.stopped)
    return outcome


async def _result(start: Callable[[Callable[[T], None]], RunningOperation | RedrivePlan | Search | StreamPage]) -> T:
    """Start some work of the broker, and wait for its result; raises ApiError where it takes too long."""
    found: list[T] = []
    done = trio.Event()

    def then(result: T) -> None:
        found.append(result)
        done.set()

    try:
        work = start(then)
    except NotAllowed as error:
        raise refusal_of(error) from None
    try:
        with trio.move_on_after(PATIENCE):
            await done.wait()
    finally:
        work.cancel()  # also where the client has gone
    if not found:
        progress = f", when {work.done} messages were done" if isinstance(work, RunningOperation) else ""
        raise ApiError(503, f"cancelled after {PATIENCE:g} s{progress}")
    return found[0]


def refusal_of(error: NotAllowed) -> ApiError:
    """What the broker does not allow, as the API says it."""
    known = ((Unknown, 404), (Busy, 409))
    status = next((status for kind, status in known if isinstance(error, kind)), 400)
    # The detail may repeat a text of the client: a selector, a header.
    return ApiError(status, f"{error}: {error.detail}" if error.detail else str(error), logged=str(error))


async def wait_for_store(done: trio.Event, what: str) -> Response:
    """The empty answer to a change, when the store has it; ApiError 503 where it does not confirm it."""
    with trio.move_on_after(PATIENCE):
        await done.wait()
    if not done.is_set():
        raise _not_confirmed(what)
    return Response(status_code=204)


def _not_confirmed(what: str) -> ApiError:
    return ApiError(503, f"{what}, and the store has not confirmed it within {PATIENCE:g} s")
