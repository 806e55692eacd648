"""What is kept and stands in no queue: messages that come later, values that topics retain, and the places where
clients who resume by a name go on.  An operator looks at them, and takes them away.

The rows are the broker's (`broker.admin.stored_rows`).  One that goes leaves the store, too, and the answer comes when
it has.  Of those for one destination some hundred are called off in a turn, and none while the store is behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import asked, kept_models
from gateway.admin.audit import entry_of
from gateway.admin.endpoint import Endpoint, Parameter
from gateway.admin.errors import Refused
from gateway.admin.paging import ROWS, Listing, Test, page_of
from gateway.admin.queues import MOST_BODY, PATIENCE
from gateway.broker.admin import stored_rows
from gateway.broker.routing.scheduled import ScheduledSend
from gateway.broker.topic.offsets import Offset
from gateway.broker.topic.retained import RetainedMessage as Value

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.runtime.gateway import Gateway

_NOT_SCHEDULED = "no message waits for its time under that id: it has come, was cancelled, or never was"
_NOT_RETAINED = "that topic retains nothing"
_NO_CURSOR = "there is no such cursor"

_SCHEDULED = Listing("scheduled", stored_rows.SCHEDULED_KEYS, ("id", "destination"))
_RETAINED = Listing("retained", stored_rows.RETAINED_KEYS, ("topic",))
_CURSORS = Listing("cursors", stored_rows.CURSOR_KEYS, ("name", "topic"))

_TOPIC = Parameter("topic", "as GET /api/v1/retained has it", required=True)


class Kept:
    """The endpoints, over one open gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._one_at_a_time = trio.Lock()  # as in `lists`

    @property
    def _broker(self) -> Broker:
        return self._gateway.broker

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table."""
        return [*self._of_scheduled(), *self._of_retained(), *self._of_cursors()]

    def _of_scheduled(self) -> list[Endpoint]:
        destination = "as a client or a list names it"
        return [
            Endpoint(
                "GET",
                "/api/v1/scheduled",
                self.scheduled,
                "Messages that wait for their time: they were sent with a delay, or with a date.",
                "messages",
                kept_models.Scheduled,
                query=(*_SCHEDULED.parameters, Parameter("destination", f"only those for this one, {destination}")),
                example={"destination": "/queue/orders", "sort": "due"},
            ),
            Endpoint(
                "GET",
                "/api/v1/scheduled/{id}",
                self.scheduled_one,
                f"One of them, with its headers, and up to {MOST_BODY} octets of its body.",
                "messages",
                kept_models.ScheduledDetail,
                errors=(404,),
                example={"id": "$SCHEDULED"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/scheduled/{id}",
                self.cancel,
                "Cancel one: it never comes, wherever it was sent to.",
                "messages",
                None,
                status=204,
                errors=(404, 503),
                action="cancel scheduled message",
                example={"id": "$SCHEDULED"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/scheduled",
                self.cancel_all,
                "Cancel all that wait for their time to go to a destination.",
                "messages",
                kept_models.Cancelled,
                query=(Parameter("destination", f"which, {destination}", required=True),),
                errors=(503,),
                action="cancel scheduled messages",
                example={"destination": "/queue/orders"},
            ),
        ]

    def _of_retained(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/api/v1/retained",
                self.retained,
                "Topics that retain a value, for those who subscribe later.",
                "messages",
                kept_models.Retained,
                query=_RETAINED.parameters,
                example={"q": "prices", "sort": "-size"},
            ),
            Endpoint(
                "GET",
                "/api/v1/retained/message",
                self.retained_one,
                f"The value that a topic retains, with its headers, and up to {MOST_BODY} octets of its body.",
                "messages",
                kept_models.RetainedDetail,
                query=(_TOPIC,),
                errors=(404,),
                example={"topic": "/topic/prices"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/retained/message",
                self.forget,
                "Have a topic retain nothing, as `retain:remove` does; nobody is told.",
                "messages",
                None,
                query=(_TOPIC,),
                status=204,
                errors=(404, 503),
                action="delete retained message",
                example={"topic": "/topic/prices"},
            ),
        ]

    def _of_cursors(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                "/api/v1/cursors",
                self.cursors,
                "How far clients have read that resume by a name.",
                "sessions",
                kept_models.Cursors,
                query=_CURSORS.parameters,
                example={"sort": "topic"},
            ),
            Endpoint(
                "DELETE",
                "/api/v1/cursor",
                self.delete_cursor,
                "Forget how far a client has read: under that name it begins anew.  One that reads goes on.",
                "sessions",
                None,
                query=(Parameter("name", "as GET /api/v1/cursors has it", required=True),),
                status=204,
                errors=(404, 503),
                action="delete cursor",
                example={"name": "$CURSOR"},
            ),
        ]

    # messages that come later

    async def scheduled(self, request: Request) -> Response:
        """A page of them."""
        tests: list[Test[ScheduledSend]] = []
        name = asked.text(request, "destination")
        if name:
            tests.append(_goes_to(name))
        broker = self._broker

        def rows(page: list[ScheduledSend]) -> list[dict[str, object]]:
            return [stored_rows.of_scheduled(broker, each) for each in page]

        async with self._one_at_a_time:
            return JSONResponse(await page_of(request, _SCHEDULED, broker.router.delayed.every(), rows, tests))

    def _find(self, request: Request) -> ScheduledSend:
        found = self._broker.administration.scheduled(request.path_params["id"])
        if found is None:
            raise Refused(404, _NOT_SCHEDULED)
        return found

    async def scheduled_one(self, request: Request) -> Response:
        """One of them."""
        return JSONResponse(stored_rows.whole_scheduled(self._broker, self._find(request), MOST_BODY))

    async def cancel(self, request: Request) -> Response:
        """It never comes."""
        found = self._find(request)
        entry_of(request).facts(destination=",".join(stored_rows.targets_of(found)))
        self._broker.router.delayed.call_off(found)
        return await self._gone("it is cancelled")

    async def cancel_all(self, request: Request) -> Response:
        """None for that destination comes, of those that wait now."""
        name = asked.text(request, "destination")
        entry_of(request).target(name)
        delayed, goes_there = self._broker.router.delayed, _goes_to(name)
        done = 0
        with trio.move_on_after(PATIENCE) as patience:
            async with self._one_at_a_time:
                left = delayed.every()
                while left:
                    # Out of the list, too: what is called off is freed in this turn, and not all of it in the last.
                    each = left.pop()
                    done += goes_there(each) and delayed.call_off(each)
                    if len(left) % ROWS == 0:
                        await self._pause()
            await self._stored()
        entry_of(request).facts(done=done)
        if patience.cancelled_caught:
            raise Refused(503, f"called off after {PATIENCE:g} s; cancelled so far: {done}")
        return JSONResponse({"cancelled": done})

    # what topics retain

    async def retained(self, request: Request) -> Response:
        """A page of topics."""
        broker = self._broker

        def rows(page: list[Value]) -> list[dict[str, object]]:
            return [stored_rows.of_retained(broker, each) for each in page]

        async with self._one_at_a_time:
            return JSONResponse(await page_of(request, _RETAINED, broker.router.retained.every(), rows))

    def _value(self, request: Request) -> Value:
        found = self._broker.router.retained.find(asked.text(request, "topic"))
        if found is None:
            raise Refused(404, _NOT_RETAINED)
        return found

    async def retained_one(self, request: Request) -> Response:
        """What one topic retains."""
        return JSONResponse(stored_rows.whole_retained(self._broker, self._value(request), MOST_BODY))

    async def forget(self, request: Request) -> Response:
        """A topic retains nothing any more."""
        entry_of(request).target(asked.text(request, "topic"))
        self._broker.router.retained.forget(self._value(request).name)
        return await self._gone("the topic retains nothing any more")

    # where clients go on

    async def cursors(self, request: Request) -> Response:
        """A page of them."""
        broker = self._broker

        def rows(page: list[Offset]) -> list[dict[str, object]]:
            return [stored_rows.of_cursor(broker, each) for each in page]

        async with self._one_at_a_time:
            return JSONResponse(await page_of(request, _CURSORS, broker.router.replay.offsets.every(), rows))

    async def delete_cursor(self, request: Request) -> Response:
        """One is known no more."""
        name = asked.text(request, "name")
        entry_of(request).target(name)
        offsets = self._broker.router.replay.offsets
        found = offsets.get(name)
        if found is None:
            raise Refused(404, _NO_CURSOR)
        offsets.forget(found)
        return await self._gone("it is forgotten")

    # the store

    async def _gone(self, what: str) -> Response:
        """The answer to a change, when the store has it.

        Raises:
            Refused: it is not written in time.
        """
        with trio.move_on_after(PATIENCE) as patience:
            await self._stored()
        if patience.cancelled_caught:
            raise Refused(503, f"{what}, and the store has not confirmed it within {PATIENCE:g} s")
        return Response(status_code=204)

    async def _stored(self) -> None:
        """Wait until all that was changed so far is in the store."""
        done = trio.Event()
        self._broker.administration.when_stored(done.set)
        await done.wait()

    async def _pause(self) -> None:
        """Others first; a store that is behind catches up first."""
        storage = self._broker.storage
        if storage is not None and storage.is_behind:
            await self._stored()
        await trio.lowlevel.checkpoint()


def _goes_to(name: str) -> Callable[[ScheduledSend], bool]:
    """Whether a message goes there, among others perhaps."""
    wanted = stored_rows.names_of(name)
    return lambda waiting: not wanted.isdisjoint(stored_rows.targets_of(waiting))
