"""Scheduled messages, retained messages and offsets: an operator lists them and deletes them.

The rows are the broker's (`broker.admin.stored_rows`).  A deletion is answered when the store has it.  Scheduled
messages of a destination are cancelled some hundred in a turn, and none while the store is behind.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import trio
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, Seconds
from gateway.admin.listing import ROWS, SORT, ListKind, ListPage, ListQuery, Row, Test, page_of
from gateway.admin.messages import MAX_BODY, PATIENCE, MessageContent, wait_for_store
from gateway.broker.admin import stored_rows
from gateway.broker.broker import Broker
from gateway.broker.routing.scheduled import ScheduledSend
from gateway.broker.topic.retained import RetainedMessage
from gateway.runtime.gateway import Gateway

T = TypeVar("T")

_NOT_SCHEDULED = "no scheduled message has that id: it was sent, was cancelled, or never existed"
_NOT_RETAINED = "that topic retains no message"
_NO_OFFSET = "there is no such offset"

_SCHEDULED = ListKind("scheduled", stored_rows.SCHEDULED_KEYS, ("id", "destination"))
_RETAINED = ListKind("retained", stored_rows.RETAINED_KEYS, ("topic",))
_OFFSETS = ListKind("cursors", stored_rows.OFFSET_KEYS, ("name", "topic"))

# Of the examples.
ORDERS = {"destination": "/queue/orders"}
PRICES = {"topic": "/topic/prices"}
ID = {"id": "$SCHEDULED"}
OFFSET = {"name": "$OFFSET"}

_OUTLIVES = Field(description="it outlives the process")


class ScheduledListQuery(ListQuery):
    """Which scheduled messages."""

    sort: Annotated[str, _SCHEDULED.orders] = Field("", description=SORT)
    q: str = _SCHEDULED.q
    destination: str = Field("", description="as a client or a list names it")


class CancelQuery(ApiModel):
    """Which scheduled messages to cancel."""

    destination: str = Field(description="as a client or a list names it")


class RetainedListQuery(ListQuery):
    """Which topics."""

    sort: Annotated[str, _RETAINED.orders] = Field("", description=SORT)
    q: str = _RETAINED.q


class TopicQuery(ApiModel):
    """Which topic."""

    topic: str = Field(description="as GET /api/v1/retained has it")


class OffsetListQuery(ListQuery):
    """Which offsets."""

    sort: Annotated[str, _OFFSETS.orders] = Field("", description=SORT)
    q: str = _OFFSETS.q


class OffsetQuery(ApiModel):
    """Which offset."""

    name: str = Field(description="as GET /api/v1/cursors has it")


class ScheduledRow(ApiModel):
    """A scheduled message."""

    id: str = Field(description="the message that is sent gets another")
    destination: str = Field(description="as the lists name it; several are separated by commas")
    due: Seconds = Field(description="when it is sent, since the epoch")
    size: int = Field(description="bytes of the body")
    priority: int
    session: str = Field(description="of the sender; it may have ended")
    stored: bool = _OUTLIVES
    expires: Seconds | None
    schedule: str | None = Field(description="in words; null: it is sent once")


class ScheduledPage(ListPage):
    """A page of scheduled messages."""

    scheduled: list[ScheduledRow]


class ScheduledDetail(MessageContent, ScheduledRow):
    """A scheduled message with headers and body."""


class Cancelled(ApiModel):
    """Messages that will not be sent."""

    cancelled: int


class RetainedRow(ApiModel):
    """The message that a topic retains."""

    topic: str
    id: str = Field(description="message-id")
    size: int = Field(description="bytes of the body")
    age: float = Field(description="seconds since it came, like `oldest_age`")
    age_is_least: bool = Field(description="it may be much older")
    stored: bool = _OUTLIVES
    expires: Seconds | None


class RetainedPage(ListPage):
    """A page of retained messages."""

    retained: list[RetainedRow]


class RetainedDetail(MessageContent, RetainedRow):
    """A retained message with headers and body."""


class OffsetRow(ApiModel):
    """How far a client has read that resumes by name."""

    name: str = Field(description="made of login, client_id and resume")
    login: str
    client_id: str
    resume: str = Field(description="the name that the client gives")
    topic: str = Field(description="or pattern")
    position: int = Field(description="number of the last finished message, up to 5 s ago, or 60 s without a store")
    behind: int | None = Field(description="messages of the stream after that; null: of a pattern")
    session: str = Field(description="that reads now; empty: none")


class OffsetPage(ListPage):
    """A page of offsets."""

    cursors: list[OffsetRow]


class StoredApi(Api):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._one_at_a_time = trio.Lock()  # as in `sessions`

    @property
    def _broker(self) -> Broker:
        return self._gateway.broker

    @Endpoint("GET", "/api/v1/scheduled", "messages", ScheduledPage, example=ORDERS | {"sort": "due"})
    async def scheduled(self, query: ScheduledListQuery) -> Response:
        """Scheduled messages: they were sent with a delay, or with a date."""
        tests: list[Test[ScheduledSend]] = [_goes_to(query.destination)] if query.destination else []
        every = self._broker.router.delayed.every
        return await self._page(query, _SCHEDULED, every, stored_rows.of_scheduled, tests)

    def _find(self, request: Request) -> ScheduledSend:
        found = self._gateway.message_admin.scheduled(request.path_params["id"])
        if found is None:
            raise ApiError(404, _NOT_SCHEDULED)
        return found

    @Endpoint("GET", "/api/v1/scheduled/{id}", "messages", ScheduledDetail, errors=(404,), example=ID)
    async def scheduled_one(self, request: Request) -> Response:
        """One scheduled message, with its headers, and up to 1 MiB of its body."""
        return JSONResponse(stored_rows.whole_scheduled(self._broker, self._find(request), MAX_BODY))

    @Endpoint(
        "DELETE", "/api/v1/scheduled/{id}", "messages", errors=(404, 503), action="cancel scheduled message", example=ID
    )
    async def cancel(self, request: Request, audit: AuditEntry) -> Response:
        """Cancel a scheduled message: it is sent to none of its destinations."""
        found = self._find(request)
        audit.facts(destination=",".join(stored_rows.targets_of(found)))
        self._broker.router.delayed.call_off(found)
        return await self._deleted("it is cancelled")

    @Endpoint(
        "DELETE",
        "/api/v1/scheduled",
        "messages",
        Cancelled,
        errors=(503,),
        action="cancel scheduled messages",
        example=ORDERS,
    )
    async def cancel_all(self, query: CancelQuery, audit: AuditEntry) -> Response:
        """Cancel all messages that are scheduled for a destination."""
        audit.target(query.destination)
        delayed, goes_there = self._broker.router.delayed, _goes_to(query.destination)
        done = 0
        with trio.move_on_after(PATIENCE) as patience:
            async with self._one_at_a_time:
                left = delayed.every()
                while left:
                    # Taken out of the list, too: so what is cancelled is freed bit by bit, and not all at the end.
                    each = left.pop()
                    done += goes_there(each) and delayed.call_off(each)
                    if len(left) % ROWS == 0:
                        await self._pause()
            await self._written().wait()
        audit.facts(done=done)
        if patience.cancelled_caught:
            raise ApiError(503, f"stopped after {PATIENCE:g} s; cancelled so far: {done}")
        return JSONResponse({"cancelled": done})

    @Endpoint("GET", "/api/v1/retained", "messages", RetainedPage, example={"q": "prices", "sort": "-size"})
    async def retained(self, query: RetainedListQuery) -> Response:
        """Topics that retain a message for later subscribers."""
        return await self._page(query, _RETAINED, self._broker.router.retained.every, stored_rows.of_retained)

    def _retained(self, topic: str) -> RetainedMessage:
        found = self._broker.router.retained.find(topic)
        if found is None:
            raise ApiError(404, _NOT_RETAINED)
        return found

    @Endpoint("GET", "/api/v1/retained/message", "messages", RetainedDetail, errors=(404,), example=PRICES)
    async def retained_one(self, query: TopicQuery) -> Response:
        """The message that a topic retains, with its headers, and up to 1 MiB of its body."""
        return JSONResponse(stored_rows.whole_retained(self._broker, self._retained(query.topic), MAX_BODY))

    @Endpoint(
        "DELETE",
        "/api/v1/retained/message",
        "messages",
        errors=(404, 503),
        action="delete retained message",
        example=PRICES,
    )
    async def forget(self, query: TopicQuery, audit: AuditEntry) -> Response:
        """Delete the retained message of a topic, as `retain:remove` does; subscribers are not told."""
        audit.target(query.topic)
        self._broker.router.retained.forget(self._retained(query.topic).name)
        return await self._deleted("the topic retains no message any more")

    @Endpoint("GET", "/api/v1/cursors", "sessions", OffsetPage, example={"sort": "topic"})
    async def offsets(self, query: OffsetListQuery) -> Response:
        """The offsets: how far clients have read that resume by name."""
        return await self._page(query, _OFFSETS, self._broker.router.replay.offsets.every, stored_rows.of_offset)

    @Endpoint("DELETE", "/api/v1/cursor", "sessions", errors=(404, 503), action="delete cursor", example=OFFSET)
    async def delete_offset(self, query: OffsetQuery, audit: AuditEntry) -> Response:
        """Delete an offset: the next client of that name begins anew.  A client that reads goes on."""
        audit.target(query.name)
        offsets = self._broker.router.replay.offsets
        found = offsets.get(query.name)
        if found is None:
            raise ApiError(404, _NO_OFFSET)
        offsets.forget(found)
        return await self._deleted("the offset is deleted")

    async def _page(
        self,
        query: ListQuery,
        kind: ListKind[T],
        every: Callable[[], Iterable[T]],
        row: Callable[[Broker, T], Row],
        tests: Iterable[Test[T]] = (),
    ) -> Response:
        async with self._one_at_a_time:
            found = await page_of(query, kind, every(), lambda page: [row(self._broker, each) for each in page], tests)
        return JSONResponse(found)

    async def _deleted(self, what: str) -> Response:
        return await wait_for_store(self._written(), what)

    def _written(self) -> trio.Event:
        """Set when all that was changed so far is in the store."""
        done = trio.Event()
        self._gateway.message_admin.when_stored(done.set)
        return done

    async def _pause(self) -> None:
        """Let other tasks run; a store that is behind catches up first."""
        storage = self._broker.storage
        if storage is not None and storage.is_behind:
            await self._written().wait()
        await trio.lowlevel.checkpoint()


def _goes_to(name: str) -> Test[ScheduledSend]:
    """Tests if a message goes there; it may go to others besides."""
    wanted = stored_rows.names_of(name)
    return lambda waiting: not wanted.isdisjoint(stored_rows.targets_of(waiting))
