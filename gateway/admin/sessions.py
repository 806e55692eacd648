"""Sessions and subscriptions, and the end of sessions by an operator.

The rows and their sort keys are the broker's (`broker.admin.rows`); why a publisher is blocked only the transports
know.  One list is made at a time: each list at work has a slice in every round of the loop.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Annotated, Literal, TypeVar

import trio
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, Seconds, one_line
from gateway.admin.listing import MAX_LIMIT, SLICE, SORT, ListKind, ListPage, ListQuery, Row, Test, page_of
from gateway.broker.admin import rows
from gateway.broker.core.ports import INTERNAL
from gateway.broker.queue.subscription import Subscription
from gateway.broker.session.session import Session
from gateway.runtime.gateway import Gateway

T = TypeVar("T")

# Of the examples.
SESSION = {"id": "$SESSION"}
REASON = {"reason": "maintenance"}
ALICE = {"login": "alice"}

_LONGEST_REASON = 200
_NO_SESSION = "there is no such session"

_SESSIONS = ListKind("sessions", rows.SESSION_KEYS, ("id", "login", "client_id", "peer"))
_SUBSCRIPTIONS = ListKind("subscriptions", rows.SUBSCRIPTION_KEYS, ("id", "destination", "login", "session"))


class SessionListQuery(ListQuery):
    """Which sessions."""

    sort: Annotated[str, _SESSIONS.orders] = Field("", description=SORT)
    q: str = _SESSIONS.q
    transport: str = Field("", description="tcp, websocket or internal")
    login: str = Field("", description="user")


class SubscriptionListQuery(ListQuery):
    """Which subscriptions."""

    sort: Annotated[str, _SUBSCRIPTIONS.orders] = Field("", description=SORT)
    q: str = _SUBSCRIPTIONS.q
    session: str = Field("", description="session")
    destination: str = Field("", description="as the client or a list names it")
    login: str = Field("", description="user")


class EndSessionQuery(ApiModel):
    """How a session ends."""

    reason: Annotated[str, one_line(_LONGEST_REASON)] = Field(
        "", description=f"the text for the client, of at most {_LONGEST_REASON} characters"
    )

    @property
    def text(self) -> str:
        """What the client is told."""
        return self.reason or "An operator ended this session"


class EndSessionsQuery(EndSessionQuery):
    """Which sessions end, and how."""

    login: str = Field(description="the user")


class Held(ApiModel):
    """Why the gateway does not read from a publisher at the moment."""

    reason: str
    since: Seconds
    destination: str | None = Field(description="the queue that has no room")
    receiver: str | None = Field(description="session of the slow subscriber")


class SessionRow(ApiModel):
    """A connected client."""

    id: str
    login: str
    client_id: str
    version: Literal["1.0", "1.1", "1.2"]
    transport: str = Field(description="tcp or websocket; internal: the server's own functions")
    peer: str
    edge: str | None = Field(description="the edge that has its connection; null: the gateway's own process")
    connected_at: Seconds
    subscriptions: int
    unacknowledged: int = Field(description="not settled by it")
    oldest_unacknowledged_age: float | None = Field(description="seconds, at least, of the oldest; null: none")
    transactions: int = Field(description="open ones")
    pending_octets: int = Field(description="bytes that the client has not read")
    frames_in: int
    delivered: int = Field(description="frames handed to its connection")
    heart_beat: list[int] = Field(description="milliseconds, out and in; 0: none")
    held: Held | None


class SubscriptionRow(ApiModel):
    """A subscription."""

    session: str
    login: str
    client_id: str
    id: str | None = Field(description="as the client named it; null: a 1.0 client without one")
    destination: str = Field(description="as the client wrote it")
    target: str = Field(description="the destination's name in the lists")
    ack: Literal["auto", "client", "client-individual"]
    selector: str = Field(description="empty: none")
    prefetch: int | None = Field(description="as the client asked; null: it did not ask")
    unacknowledged: int
    oldest_unacknowledged_age: float | None = Field(description="seconds, at least, of the oldest; null: none")
    waiting: int | None = Field(
        description="messages in its queue, or that of its durable subscription; null: it has none"
    )
    stored: int | None = Field(description="those of that queue that outlive the process, unacknowledged ones too")
    delivered: int | None = Field(description="null: not counted for a topic")
    stalled: bool = Field(description="it gets nothing, for it did not settle a message within `ack_timeout`")
    durable: str | None = Field(description="its name; null: it ends with its session")
    browser: bool


class SessionPage(ListPage):
    """A page of sessions."""

    sessions: list[SessionRow]


class SessionDetail(SessionRow):
    """A session, and its subscriptions."""

    subscription_list: list[SubscriptionRow] = Field(description="the first 1,000")


class SubscriptionPage(ListPage):
    """A page of subscriptions."""

    subscriptions: list[SubscriptionRow]


class Ended(ApiModel):
    """Sessions that an operator has ended."""

    ended: int = Field(description="how many")


class SessionsApi(Api):
    def __init__(self, gateway: Gateway, one_at_a_time: trio.Lock) -> None:
        self._gateway = gateway
        self._one_at_a_time = one_at_a_time

    @Endpoint("GET", "/api/v1/sessions", "sessions", SessionPage, example={"sort": "-connected_at", "limit": "10"})
    async def sessions(self, query: SessionListQuery) -> Response:
        """Connected clients."""
        tests = equal(query, rows.SESSION_KEYS, "transport", "login")
        async with self._one_at_a_time:
            every = rows.every_session(self._gateway.broker)
            return JSONResponse(await page_of(query, _SESSIONS, every, self._rows, tests))

    @Endpoint("GET", "/api/v1/sessions/{id}", "sessions", SessionDetail, errors=(404,), example=SESSION)
    async def session(self, request: Request) -> Response:
        """One session, and its subscriptions."""
        session = self._gateway.broker.sessions.get(request.path_params["id"])
        if session is None:
            raise ApiError(404, _NO_SESSION)
        first = islice(session.subscriptions.values(), MAX_LIMIT)
        (row,) = self._rows([session])
        return JSONResponse({**row, "subscription_list": each_row(rows.of_subscription)(first)})

    def _rows(self, sessions: Iterable[Session]) -> list[Row]:
        """The broker's rows, and what the gateway knows: the edge, and why the session is blocked as a publisher."""
        holds = self._gateway.blocked_publishers.by_session()
        found = []
        for session in sessions:
            hold = holds.get(session.id)
            of_gateway = {"edge": self._gateway.edge_of(session), "held": None if hold is None else hold.row()}
            found.append(rows.of_session(session) | of_gateway)
        return found

    @Endpoint(
        "DELETE", "/api/v1/sessions/{id}", "sessions", errors=(404,), action="end session", example=SESSION | REASON
    )
    async def end(self, request: Request, query: EndSessionQuery, audit: AuditEntry) -> Response:
        """End a session: an ERROR frame tells its client."""
        audit.facts(told=query.text)
        if not self._gateway.broker.end_session(request.path_params["id"], query.text):
            raise ApiError(404, _NO_SESSION)
        return Response(status_code=204)

    @Endpoint("DELETE", "/api/v1/sessions", "sessions", Ended, action="end sessions of user", example=ALICE | REASON)
    async def end_of_user(self, query: EndSessionsQuery, audit: AuditEntry) -> Response:
        """End all sessions that a user has now: ERROR frames tell their clients, which may come back."""
        audit.target(query.login)
        audit.facts(told=query.text)
        broker, ended = self._gateway.broker, 0
        async with self._one_at_a_time:
            for place, session in enumerate(list(rows.every_session(broker)), 1):
                if session.login == query.login and session.transport != INTERNAL:
                    ended += broker.end_session(session.id, query.text)
                    # Each end wakes a task, and these tasks must not all run before those of other clients.
                    await trio.lowlevel.checkpoint()
                elif place % SLICE == 0:
                    await trio.lowlevel.checkpoint()
        audit.facts(ended=ended)
        return JSONResponse({"ended": ended})

    @Endpoint("GET", "/api/v1/subscriptions", "sessions", SubscriptionPage, example={"destination": "/queue/orders"})
    async def subscriptions(self, query: SubscriptionListQuery) -> Response:
        """Subscriptions of all sessions."""
        tests = equal(query, rows.SUBSCRIPTION_KEYS, "session", "login")
        name = query.destination
        if name:
            tests.append(lambda each: name in (rows.SUBSCRIPTION_KEYS["destination"](each), rows.target_of(each)))
        async with self._one_at_a_time:
            every = await self._all_subscriptions()
            return JSONResponse(await page_of(query, _SUBSCRIPTIONS, every, each_row(rows.of_subscription), tests))

    async def _all_subscriptions(self) -> list[Subscription]:
        """Those of the oldest session first, gathered in slices."""
        found: list[Subscription] = []
        for place, session in enumerate(list(rows.every_session(self._gateway.broker)), 1):
            found += session.subscriptions.values()
            if place % SLICE == 0:
                await trio.lowlevel.checkpoint()
        return found


def equal(query: ListQuery, keys: Mapping[str, Callable[[T], object]], *names: str) -> list[Test[T]]:
    """Tests by the parameters of these names, as far as they are given."""

    def test(name: str, wanted: str) -> Test[T]:
        key = keys[name]
        return lambda entry: key(entry) == wanted

    return [test(name, wanted) for name in names if (wanted := getattr(query, name))]


def each_row(row: Callable[[T], Row]) -> Callable[[Iterable[T]], list[Row]]:
    """Makes the rows of several entries."""
    return lambda entries: [row(each) for each in entries]
