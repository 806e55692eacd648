"""What waits in queues, and what an operator does to it: look, delete, purge, move, redrive.

The work is the broker's (`gateway.broker.admin.messages`): in slices, so that a purge of a million messages holds
nobody up, and what changes something is answered when the store has it.  This module waits for that, but not for ever:
after `PATIENCE` seconds the work is called off, and the error says how far it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import asked, message_models
from gateway.admin.audit import entry_of
from gateway.admin.endpoint import Endpoint, Parameter
from gateway.admin.errors import Refused
from gateway.admin.paging import WINDOW
from gateway.broker.admin.messages import Busy, Outcome, Page, RunningOperation, Search, Unknown
from gateway.broker.errors import NotAllowed

if TYPE_CHECKING:
    from gateway.runtime.gateway import Gateway

PATIENCE = 30.0
"""Seconds."""

MOST_BODY = 1024 * 1024
"""Octets of a body that are shown."""

T = TypeVar("T")
Row = dict[str, object]

_ORDERS = "/queue/orders"


class Queues:
    """Messages of queues, over one open gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def endpoints(self) -> list[Endpoint]:
        """Its part of the table."""
        return [*self._that_look(), *self._that_change()]

    def _that_look(self) -> list[Endpoint]:
        destination = Parameter("destination", "the queue, as a client or a list names it", required=True)
        return [
            Endpoint(
                "GET",
                "/api/v1/messages",
                self.messages,
                "Messages that wait in a queue, also those in the store alone, with the first 4 KiB of each body.",
                "messages",
                message_models.Messages,
                query=(*WINDOW, destination, Parameter("selector", "only messages that it takes")),
                errors=(404, 503),
                example={"destination": _ORDERS, "limit": "10"},
            ),
            Endpoint(
                "GET",
                "/api/v1/message",
                self.message,
                f"One message that waits, with up to {MOST_BODY} octets of its body.",
                "messages",
                message_models.MessageRow,
                query=(destination, Parameter("id", "its message-id", required=True)),
                errors=(404, 503),
                example={"destination": _ORDERS, "id": "$MESSAGE"},
            ),
        ]

    def _that_change(self) -> list[Endpoint]:
        return [
            Endpoint(
                "POST",
                "/api/v1/messages/delete",
                self.delete,
                "Delete single messages.",
                "messages",
                message_models.Deleted,
                body=message_models.Delete,
                errors=(404, 409, 503),
                action="delete messages",
            ),
            Endpoint(
                "POST",
                "/api/v1/queues/purge",
                self.purge,
                "Delete all messages that wait in a queue, or those that a selector takes.",
                "destinations",
                message_models.Purged,
                body=message_models.Purge,
                errors=(404, 409, 503),
                action="purge",
            ),
            Endpoint(
                "POST",
                "/api/v1/queues/move",
                self.move,
                "Move messages to another queue, or publish them to a topic.",
                "destinations",
                message_models.Moved,
                body=message_models.Move,
                errors=(404, 409, 503),
                action="move",
            ),
            Endpoint(
                "POST",
                "/api/v1/queues/redrive",
                self.redrive,
                "Send dead letters back to where they came from, with a fresh count of failures.",
                "destinations",
                message_models.Redriven,
                body=message_models.Redrive,
                errors=(404, 409, 503),
                action="redrive",
            ),
        ]

    # looking

    async def messages(self, request: Request) -> Response:
        """A page of what waits."""
        name, selector = asked.text(request, "destination"), asked.text(request, "selector")
        limit, offset = asked.number(request, "limit"), asked.number(request, "offset")
        browse = self._gateway.broker.administration.browse
        page = await _Waiting[Page]().result_of(lambda then: browse(name, offset, limit, selector, then))
        window = {"total": page.total, "limit": limit, "offset": offset, "next": page.next}
        return JSONResponse({"messages": page.messages, **window})

    async def message(self, request: Request) -> Response:
        """One message."""
        name, identifier = asked.text(request, "destination"), asked.text(request, "id")
        find = self._gateway.broker.administration.find
        row = await _Waiting[Row | None]().result_of(lambda then: find(name, identifier, MOST_BODY, then))
        if row is None:
            raise Refused(404, "no such message waits there: a consumer has it, or it has gone")
        return JSONResponse(row)

    # changing

    async def delete(self, request: Request) -> Response:
        """Delete some."""
        asks = asked.body(request, message_models.Delete)
        entry_of(request).target(asks.destination)
        delete = self._gateway.broker.administration.delete
        outcome = await _changed(request, lambda then: delete(asks.destination, asks.ids, then))
        return JSONResponse({"deleted": outcome.done, "missing": outcome.missing})

    async def purge(self, request: Request) -> Response:
        """Delete all, or those that a selector takes."""
        asks = asked.body(request, message_models.Purge)
        entry_of(request).target(asks.destination)
        purge = self._gateway.broker.administration.purge
        outcome = await _changed(request, lambda then: purge(asks.destination, asks.selector, then))
        return JSONResponse({"purged": outcome.done})

    async def move(self, request: Request) -> Response:
        """Move some, or all."""
        asks = asked.body(request, message_models.Move)
        entry_of(request).target(f"{asks.source} -> {asks.target}")
        if asks.ids is not None and asks.selector:
            raise Refused(400, "body: it may have ids or a selector, and not both")
        move = self._gateway.broker.administration.move
        outcome = await _changed(
            request, lambda then: move(asks.source, asks.target, asks.ids, asks.selector, asks.limit, then)
        )
        return JSONResponse({"moved": outcome.done, **_refusals(outcome)})

    async def redrive(self, request: Request) -> Response:
        """Send dead letters back."""
        asks = asked.body(request, message_models.Redrive)
        entry_of(request).target(asks.destination)
        redrive = self._gateway.broker.administration.redrive
        outcome = await _changed(request, lambda then: redrive(asks.destination, asks.ids, asks.limit, then))
        return JSONResponse({"redriven": outcome.done, **_refusals(outcome)})


def _refusals(outcome: Outcome) -> dict[str, object]:
    """What stayed where it was, and why."""
    missing = [(each, "it does not wait there: a consumer has it, or it has gone") for each in outcome.missing]
    refused = [{"id": identifier, "error": sentence} for identifier, sentence in [*outcome.refused, *missing]]
    return {"refused": refused, "stopped": outcome.stopped or None}


async def _changed(request: Request, start: Callable[[Callable[[Outcome], None]], RunningOperation]) -> Outcome:
    """Wait for a change, and tell the audit log what came of it."""
    entry = entry_of(request)
    outcome = await _Waiting[Outcome]().result_of(start)
    entry.facts(done=outcome.done, missing=len(outcome.missing), refused=outcome.refusals)
    if outcome.stopped:
        entry.facts(stopped=outcome.stopped)
    return outcome


class _Waiting(Generic[T]):
    """For the result of some work of the broker."""

    def __init__(self) -> None:
        self._found: list[T] = []
        self._done = trio.Event()

    def _then(self, result: T) -> None:
        self._found.append(result)
        self._done.set()

    async def result_of(self, start: Callable[[Callable[[T], None]], RunningOperation | Search]) -> T:
        """Start the work, and wait for what comes of it.

        Raises:
            Refused: it cannot be done, or takes too long.
        """
        try:
            work = start(self._then)
        except NotAllowed as error:
            raise refusal_of(error) from None
        try:
            with trio.move_on_after(PATIENCE):
                await self._done.wait()
        finally:
            work.cancel()  # also where the client has gone, and nobody wants it any more
        if not self._found:
            done = f", when {work.done} messages were done" if isinstance(work, RunningOperation) else ""
            raise Refused(503, f"called off after {PATIENCE:g} s{done}")
        return self._found[0]


def refusal_of(error: NotAllowed) -> Refused:
    """What the broker does not allow, as the API says it."""
    known = ((Unknown, 404), (Busy, 409))
    status = next((status for kind, status in known if isinstance(error, kind)), 400)
    # The detail may repeat what somebody wrote: a selector, a header.
    return Refused(status, f"{error}: {error.detail}" if error.detail else str(error), logged=str(error))
