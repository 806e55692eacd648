"""Who is connected, who subscribes to what, and which destinations there are; and the end of a session.

The rows and what they can be sorted by are the broker's (`broker.admin.rows`); this module knows which filters there
are, and adds for what a publisher is held, which only the transports know.

One list is made at a time, the others wait for it: each of those at work would have a slice in every round of the loop,
and so many slices would be what a message waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import asked, models
from gateway.admin.audit import entry_of
from gateway.admin.endpoint import Endpoint, Parameter
from gateway.admin.errors import BadQuery, Refused
from gateway.admin.paging import MAX_LIMIT, SLICE, Listing, page_of
from gateway.admin.queues import PATIENCE, refusal_of
from gateway.broker.admin import rows
from gateway.broker.errors import NotAllowed
from gateway.broker.queue.subscription import Subscription
from gateway.broker.session.session import Session
from gateway.broker.session.subscribe import INTERNAL

if TYPE_CHECKING:
    from gateway.broker.admin.rows import Target
    from gateway.runtime.gateway import Gateway

T = TypeVar("T")

_ENDED = "An operator ended this session"
_LONGEST_REASON = 200
_NO_SESSION = "there is no such session"
_NO_DESTINATION = "there is no such destination; one that nobody subscribes and where nothing waits is none"

_REASON = Parameter("reason", f"what the client is told, of at most {_LONGEST_REASON} characters")

_SESSIONS = Listing("sessions", rows.SESSION_KEYS, ("id", "login", "client_id", "peer"))
_SUBSCRIPTIONS = Listing("subscriptions", rows.SUBSCRIPTION_KEYS, ("id", "destination", "login", "session"))
_DESTINATIONS = Listing("destinations", rows.DESTINATION_KEYS, ("name",))


class Lists:
    """The lists, over one open gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._one_at_a_time = trio.Lock()

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table."""
        return [*self._of_sessions(), *self._of_subscriptions(), *self._of_destinations()]

    def _of_sessions(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/api/v1/sessions",
                self.sessions,
                "Connected clients.",
                "sessions",
                models.Sessions,
                query=(
                    *_SESSIONS.parameters,
                    Parameter("transport", "only those that came by it: tcp, websocket or internal"),
                    Parameter("login", "only those of this user"),
                ),
                example={"sort": "-connected_at", "limit": "10"},
            ),
            Endpoint(
                "GET",
                "/api/v1/sessions/{id}",
                self.session,
                "One session, and what it subscribes to.",
                "sessions",
                models.SessionDetail,
                errors=(404,),
                example={"id": "$SESSION"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/sessions/{id}",
                self.end_session,
                "End a session: its client is told by an ERROR frame.",
                "sessions",
                None,
                query=(_REASON,),
                status=204,
                errors=(404,),
                action="end session",
                example={"id": "$SESSION", "reason": "maintenance"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/sessions",
                self.end_sessions_of,
                "End all sessions that a user has now: their clients are told by ERROR frames, and may come back.",
                "sessions",
                models.Ended,
                query=(Parameter("login", "of whom", required=True), _REASON),
                action="end sessions of user",
                example={"login": "alice", "reason": "maintenance"},
            ),
        ]

    def _of_subscriptions(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/api/v1/subscriptions",
                self.subscriptions,
                "Who subscribes to what.",
                "sessions",
                models.Subscriptions,
                query=(
                    *_SUBSCRIPTIONS.parameters,
                    Parameter("session", "only those of this session"),
                    Parameter("destination", "only those of this destination, as the client or a list names it"),
                    Parameter("login", "only those of this user"),
                ),
                example={"destination": "/queue/orders"},
            ),
        ]

    def _of_destinations(self) -> list[Endpoint]:
        name = Parameter("name", "as GET /api/v1/destinations has it", required=True)
        return [
            Endpoint(
                "GET",
                "/api/v1/destinations",
                self.destinations,
                "Queues, topics and patterns that hold something or have subscribers.",
                "destinations",
                models.Destinations,
                query=(
                    *_DESTINATIONS.parameters,
                    Parameter("kind", "only this kind", enum=("queue", "topic", "pattern")),
                    Parameter("state", "only those in this state", enum=tuple(rows.DESTINATION_STATES)),
                ),
                example={"kind": "queue", "sort": "-waiting"},
            ),
            Endpoint(
                "GET",
                "/api/v1/destination",
                self.destination,
                "One destination, the policy in force there, and who subscribes.",
                "destinations",
                models.DestinationDetail,
                query=(name,),
                errors=(404,),
                example={"name": "/queue/orders"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/destination",
                self.delete_durable,
                "End a durable subscription that nobody consumes, and what waits for it.",
                "destinations",
                None,
                query=(name,),
                status=204,
                errors=(404, 409, 503),
                action="delete durable subscription",
                example={"name": "$DURABLE"},
            ),
        ]

    # sessions

    async def sessions(self, request: Request) -> Response:
        """Connected clients."""
        tests = _equal(request, rows.SESSION_KEYS, "transport", "login")
        async with self._one_at_a_time:
            every = rows.every_session(self._gateway.broker)
            return JSONResponse(await page_of(request, _SESSIONS, every, self._session_rows, tests))

    async def session(self, request: Request) -> Response:
        """One of them."""
        session = self._gateway.broker.sessions.get(request.path_params["id"])
        if session is None:
            raise Refused(404, _NO_SESSION)
        first = islice(session.subscriptions.values(), MAX_LIMIT)
        (row,) = self._session_rows([session])
        return JSONResponse({**row, "subscription_list": _each(rows.of_subscription)(first)})

    def _session_rows(self, sessions: Iterable[Session]) -> list[dict[str, object]]:
        """The broker's rows, and for what each session is held as a publisher; None: it is not."""
        holds = self._gateway.holds.by_session()
        found = []
        for session in sessions:
            hold = holds.get(session.id)
            found.append({**rows.of_session(session), "held": None if hold is None else hold.row()})
        return found

    async def end_session(self, request: Request) -> Response:
        """End one session."""
        reason = _reason(request)
        if not self._gateway.broker.end_session(request.path_params["id"], reason):
            raise Refused(404, _NO_SESSION)
        return Response(status_code=204)

    async def end_sessions_of(self, request: Request) -> Response:
        """End all sessions of a user: a few at a time, for each wakes a task, and these run before anybody else."""
        login, reason = asked.text(request, "login"), _reason(request)
        entry_of(request).target(login)
        broker, ended = self._gateway.broker, 0
        async with self._one_at_a_time:
            for place, session in enumerate(list(rows.every_session(broker)), 1):
                if session.login == login and session.transport != INTERNAL:
                    ended += broker.end_session(session.id, reason)
                    await trio.lowlevel.checkpoint()
                elif place % SLICE == 0:
                    await trio.lowlevel.checkpoint()
        entry_of(request).facts(ended=ended)
        return JSONResponse({"ended": ended})

    async def subscriptions(self, request: Request) -> Response:
        """Subscriptions of all sessions."""
        tests = _equal(request, rows.SUBSCRIPTION_KEYS, "session", "login")
        name = asked.text(request, "destination")
        if name:
            tests.append(lambda each: name in (rows.SUBSCRIPTION_KEYS["destination"](each), rows.target_of(each)))
        async with self._one_at_a_time:
            every = await self._all_subscriptions()
            return JSONResponse(await page_of(request, _SUBSCRIPTIONS, every, _each(rows.of_subscription), tests))

    async def _all_subscriptions(self) -> list[Subscription]:
        """Those of the oldest session first, gathered in slices."""
        found: list[Subscription] = []
        for place, session in enumerate(list(rows.every_session(self._gateway.broker)), 1):
            found += session.subscriptions.values()
            if place % SLICE == 0:
                await trio.lowlevel.checkpoint()
        return found

    # destinations

    async def destinations(self, request: Request) -> Response:
        """Destinations that are in use."""
        tests = _equal(request, rows.DESTINATION_KEYS, "kind")
        state = asked.text(request, "state")
        if state:
            tests.append(rows.DESTINATION_STATES[state])
        async with self._one_at_a_time:
            every = rows.every_destination(self._gateway.broker)
            return JSONResponse(await page_of(request, _DESTINATIONS, every, _each(rows.of_destination), tests))

    async def destination(self, request: Request) -> Response:
        """One of them."""
        target = self._find(asked.text(request, "name"))
        if target is None:
            raise Refused(404, _NO_DESTINATION)
        first = islice(rows.subscriptions_of(target), MAX_LIMIT)
        return JSONResponse(
            {
                **rows.of_destination(target),
                "policy": rows.policy_of(target),
                "policy_of_clients": rows.policy_of_clients(target),
                "subscription_list": _each(rows.of_subscription)(first),
                "groups": rows.groups_of(target),
            }
        )

    def _find(self, name: str) -> Target | None:
        registry = self._gateway.broker.registry
        return registry.find(name) or registry.patterns.get(name)

    async def delete_durable(self, request: Request) -> Response:
        """End a durable subscription."""
        name = asked.text(request, "name")
        entry_of(request).target(name)
        done = trio.Event()
        try:
            self._gateway.broker.administration.delete_durable(name, done.set)
        except NotAllowed as error:
            raise refusal_of(error) from None
        with trio.move_on_after(PATIENCE):
            await done.wait()
        if not done.is_set():
            raise Refused(503, f"it has gone, and the store has not confirmed it within {PATIENCE:g} s")
        return Response(status_code=204)


def _reason(request: Request) -> str:
    """What clients are told whose sessions an operator ends.

    Raises:
        BadQuery: it is no line.
    """
    reason = asked.text(request, "reason") or _ENDED
    if len(reason) > _LONGEST_REASON or not reason.isprintable():
        raise BadQuery(f"reason must be one line of at most {_LONGEST_REASON} characters")
    entry_of(request).facts(told=reason)
    return reason


def _equal(request: Request, keys: Mapping[str, Callable[[T], object]], *names: str) -> list[Callable[[T], bool]]:
    """Tests by the parameters of these names, as far as they are given."""

    def test(name: str, wanted: str) -> Callable[[T], bool]:
        key = keys[name]
        return lambda entry: key(entry) == wanted

    return [test(name, wanted) for name in names if (wanted := asked.text(request, name))]


def _each(row: Callable[[T], dict[str, object]]) -> Callable[[Iterable[T]], list[dict[str, object]]]:
    return lambda entries: [row(each) for each in entries]
