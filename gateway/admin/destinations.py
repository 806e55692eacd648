"""Destinations: queues, topics and patterns, and the end of a durable subscription by an operator.

The rows and their sort keys are the broker's (`broker.admin.rows`), as in `sessions`.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain, islice
from typing import Annotated, Literal

import trio
from pydantic import Field, JsonValue
from starlette.responses import JSONResponse, Response

from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, Seconds, one_of
from gateway.admin.listing import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    SORT,
    ListKind,
    ListPage,
    ListQuery,
    PageQuery,
    Row,
    Test,
    in_slices,
    orders_of,
    page_of,
)
from gateway.admin.messages import refusal_of, wait_for_store
from gateway.admin.sessions import SubscriptionRow, each_row, equal
from gateway.broker.admin import rows
from gateway.broker.errors import NotAllowed
from gateway.broker.routing.registry import Registry
from gateway.observe.destination_watch import STEP, DestinationWatch
from gateway.runtime.gateway import Gateway

_NO_PRESENCE = "no policy says presence = true for a topic of that name"
_NO_DESTINATION = "there is no such destination; one without subscribers and waiting messages does not exist"

# Of the examples.
BUSIEST = {"kind": "queue", "sort": "-waiting"}
ORDERS = {"name": "/queue/orders"}
DURABLE = {"name": "$DURABLE"}
ROOM = {"destination": "/topic/room.7"}


# Keys that need the registry.
_BY_REGISTRY: dict[str, Callable[[Registry, rows.Target], rows.Key]] = {
    "title": rows.title_of,
    "consumers": rows.consumers_of,
}


def _kind(registry: Registry) -> ListKind[rows.Target]:
    keys = rows.DESTINATION_KEYS | {name: partial(key, registry) for name, key in _BY_REGISTRY.items()}
    return ListKind("destinations", keys, ("name",))


class DestinationListQuery(ListQuery):
    """Which destinations."""

    sort: Annotated[str, orders_of([*rows.DESTINATION_KEYS, *_BY_REGISTRY])] = Field("", description=SORT)
    q: str = Field("", description="a part of name or title, in upper or lower case")
    kind: Annotated[str, one_of("queue", "topic", "pattern")] = Field("", description="only this kind")
    state: Annotated[str, one_of(*rows.DESTINATION_STATES)] = Field(
        "", description="`losing`: one was lost within the last minute"
    )
    series: Annotated[str, one_of("true", "false")] = Field(
        "false", description="whether rows have it; then `limit` is 100 at most"
    )


class DestinationQuery(ApiModel):
    """Which destination."""

    name: str = Field(description="as GET /api/v1/destinations has it")


class StreamRow(ApiModel):
    """What a topic keeps for replay."""

    first: int
    next: int
    messages: int
    octets: int = Field(description="bytes")


class DurableSubscriptionRow(ApiModel):
    """A durable or shared subscription, as its clients name it."""

    topic: str = Field(description="or pattern")
    login: str
    client_id: str
    name: str = Field(description="the name that clients give it, or the id of the SUBSCRIBE")
    shared: bool = Field(description="clients of every login may consume it: `x-queue-name`")


class SeriesRow(ApiModel):
    """The last rates of a destination. The oldest first, one each `step` seconds, 60 at most; before, it was idle."""

    step: float
    at: Seconds = Field(description="the end of the last value")
    published: list[float]
    delivered: list[float]
    acknowledged: list[float]
    lost: list[float]


class DestinationRow(ApiModel):
    """A destination that is in use."""

    name: str
    title: str = Field(description="for people: of a durable subscription its login, or its own name, and its topic")
    durable_subscription: DurableSubscriptionRow | None = Field(description="null: a queue or topic of its own")
    kind: Literal["queue", "topic", "pattern"]
    subscriptions: int
    pattern_subscriptions: int = Field(description="to patterns that match the topic")
    durable_subscriptions: int = Field(description="durable and shared ones that the topic fills, also by a pattern")
    consumers: int = Field(description="subscriptions of these three kinds")
    waiting: int = Field(description="messages that no consumer has")
    oldest_age: float | None = Field(
        description="seconds that the oldest has waited, rounded down; null: none, or all are being read from the store"
    )
    oldest_age_is_least: bool = Field(
        description="it may be much older: it came before the gateway started, or over 60 days ago"
    )
    delayed: int = Field(description="they come back later, after a failure")
    unacknowledged: int
    octets: int = Field(description="memory that waiting messages cost")
    stored: int = Field(description="in the store: they outlive a crash")
    full: bool = Field(description="no room, so publishers wait")
    durable: bool = Field(
        description="stores messages without `persistent`; not a durable subscription whose policy says `as-sent`"
    )
    dead_letters: bool = Field(description="a dead-letter queue, by its name or a policy")
    log: StreamRow | None = Field(description="the topic's stream; null: none")
    published: int = Field(description="since the destination came to be; so are those up to `lost`")
    delivered: int = Field(description="to consumers or subscribers")
    acknowledged: int
    dropped: int = Field(
        description="by a limit or failures; not by an operator, or with the queue. A loss counts in one way only"
    )
    dead_lettered: int
    expired: int
    conflated: int = Field(description="replaced by a newer one of their key")
    lost: int = Field(description="dropped, dead_lettered and expired; a topic's has what its slow subscribers lost")
    published_rate: float = Field(description="per second, of the last five seconds; so are all rates")
    delivered_rate: float
    acknowledged_rate: float
    dropped_rate: float
    dead_lettered_rate: float
    expired_rate: float
    conflated_rate: float
    lost_rate: float
    lost_age: float | None = Field(description="seconds since the last one was lost, to five seconds; null: none was")
    losing: bool = Field(description="one was lost within the last minute")
    present_losses: dict[str, int] = Field(
        description="way, as `dropped` -> how many since it began; a way ends a minute after the last one"
    )
    series: SeriesRow | None = Field(description="null: idle for five minutes, 500 others are busier, or not asked for")


class DestinationPage(ListPage):
    """A page of destinations."""

    destinations: list[DestinationRow]


class DestinationDetail(DestinationRow):
    """A destination, its policy, and its subscriptions."""

    policy: dict[str, JsonValue] = Field(description="key -> value in force")
    policy_of_clients: list[str] = Field(description="keys of it that a client's queue arguments set")
    subscription_list: list[SubscriptionRow] = Field(description="the first 1,000")
    pattern_subscription_list: list[SubscriptionRow] = Field(description="the first 1,000")
    durable_subscription_list: list[DestinationRow] = Field(description="the first 1,000")
    groups: int | None = Field(description="message groups that are known; null: it is not a queue")
    drops: dict[str, int] = Field(
        description="reason -> how many of `dropped`; `queue-full` is a limit: `when_full` or `slow_consumer` of the "
        "policy says which message goes"
    )


class PresenceQuery(PageQuery):
    """Of which topic, and which part of the list."""

    destination: str = Field(description="a topic whose policy says `presence = true`, like `/topic/room.7`")


class PresentUserRow(ApiModel):
    """A user of a topic."""

    id: str = Field(description="`user:LOGIN`, or `guest:NAME` of a client without a login")
    user: str | None = Field(description="the login; null: a guest")
    info: str | None = Field(description="what the client said in `presence-info`; null: nothing")
    sessions: int = Field(description="0: the connection is lost, and the user may come back within `presence_grace`")
    since: int = Field(description="seconds since the epoch")


class PresencePage(ListPage):
    """A page of the users of a topic."""

    destination: str
    settling: bool = Field(description="the gateway has started, and users may still come back")
    users: list[PresentUserRow]


class DestinationsApi(Api):
    def __init__(self, gateway: Gateway, one_at_a_time: trio.Lock, watch: DestinationWatch) -> None:
        self._gateway = gateway
        self._watch = watch
        self._one_at_a_time = one_at_a_time  # as in `sessions`

    @Endpoint("GET", "/api/v1/destinations", "destinations", DestinationPage, example=BUSIEST)
    async def destinations(self, query: DestinationListQuery) -> Response:
        """Queues, topics and patterns that hold something or have subscribers."""
        tests = equal(query, rows.DESTINATION_KEYS, "kind")
        if query.q:
            tests.append(self._is_called(query.q.lower()))
            query = query.model_copy(update={"q": ""})
        # They are 200 numbers a row, which would hold up the loop where rows are many.
        if query.series == "true" and query.limit > DEFAULT_LIMIT:
            raise ApiError(400, f"limit must be at most {DEFAULT_LIMIT} with series=true")
        if query.state:
            tests.append(rows.DESTINATION_STATES[query.state])
        async with self._one_at_a_time:
            kind, every = _kind(self._gateway.broker.registry), rows.every_destination(self._gateway.broker)
            row_of = each_row(partial(self._row, has_series=query.series == "true"))
            return JSONResponse(await page_of(query, kind, every, row_of, tests))

    def _is_called(self, text: str) -> Test[rows.Target]:
        """Tests if a name has that text in it, the name for people or the gateway's own."""
        registry = self._gateway.broker.registry
        return lambda target: text in target.name.lower() or text in rows.title_of(registry, target).lower()

    @Endpoint("GET", "/api/v1/destination", "destinations", DestinationDetail, errors=(404,), example=ORDERS)
    async def destination(self, query: DestinationQuery) -> Response:
        """One destination, the policy in force there, and its subscriptions."""
        registry = self._gateway.broker.registry
        target = registry.find(query.name) or registry.patterns.get(query.name)
        if target is None:
            raise ApiError(404, _NO_DESTINATION)
        patterns = rows.patterns_of(registry, target)
        by_pattern = islice(chain.from_iterable(pattern.subscriptions for pattern in patterns), MAX_LIMIT)
        durable = list(islice(rows.durable_subscriptions_of(target, patterns), MAX_LIMIT))
        first = list(islice(rows.subscriptions_of(target), MAX_LIMIT))
        of_subscription = each_row(rows.of_subscription)
        lists = {
            "subscription_list": await in_slices(first, of_subscription),
            "pattern_subscription_list": await in_slices(list(by_pattern), of_subscription),
            "durable_subscription_list": await in_slices(durable, each_row(self._row)),
        }
        return JSONResponse(
            {
                **self._row(target, has_series=True),
                "policy": rows.policy_of(target),
                "policy_of_clients": rows.policy_of_clients(target),
                **lists,
                "groups": rows.groups_of(target),
                "drops": rows.drops_of(target),
            }
        )

    @Endpoint("GET", "/api/v1/presence", "destinations", PresencePage, errors=(404,), example=ROOM)
    async def presence(self, query: PresenceQuery) -> Response:
        """The users of a topic, which are subscribed to it, in the order in which they came."""
        presence = self._gateway.broker.router.presence
        if not presence.tells(query.destination):
            raise ApiError(404, _NO_PRESENCE)
        found = islice(presence.users(query.destination), query.offset, query.offset + query.limit)
        return JSONResponse(
            {
                "total": presence.count(query.destination),
                "limit": query.limit,
                "offset": query.offset,
                "destination": query.destination,
                "settling": presence.is_settling(query.destination),
                "users": [user.row() for user in found],
            }
        )

    def _row(self, target: rows.Target, *, has_series: bool = False) -> Row:
        registry = self._gateway.broker.registry
        names = {"title": rows.title_of(registry, target), "durable_subscription": rows.durable_of(registry, target)}
        patterns = rows.patterns_of(registry, target)
        others = {
            "pattern_subscriptions": sum([each.count for each in patterns]),
            "durable_subscriptions": rows.durable_count(target, patterns),
            "consumers": rows.consumers_of(registry, target),
        }
        series = self._watch.series(target.tally) if has_series else None
        at = {"step": STEP, "at": round(self._watch.at, 3)}
        return rows.of_destination(target) | names | others | {"series": None if series is None else at | series}

    @Endpoint(
        "DELETE",
        "/api/v1/destination",
        "destinations",
        errors=(404, 409, 503),
        action="delete durable subscription",
        example=DURABLE,
    )
    async def delete_durable(self, query: DestinationQuery, audit: AuditEntry) -> Response:
        """End a durable subscription that has no consumer, and drop the messages that wait for it."""
        audit.target(query.name)
        done = trio.Event()
        try:
            self._gateway.message_admin.delete_durable(query.name, done.set)
        except NotAllowed as error:
            raise refusal_of(error) from None
        return await wait_for_store(done, "the durable subscription has ended")
