"""`POST /publish`: a SEND on an operator's word, answered when its RECEIPT would have been.

The headers mean what they mean in a SEND, and no rule forbids anything: who may administer the gateway may send
everywhere.  What only a session has is refused: transactions, temporary destinations, a `user-id`.

It is carried out on the broker's agenda, as whatever the server does of itself: so what it caused is flushed, and
nobody who publishes at that moment is held for it.  While memory is short it is refused: an operator cannot be held.
While the gateway drains it is refused, too: nobody would get it any more, and only what is durable would be left.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.admin import asked, message_models
from gateway.admin.audit import entry_of
from gateway.admin.endpoint import Endpoint
from gateway.admin.errors import Refused, come_back
from gateway.admin.queues import PATIENCE
from gateway.broker.errors import NotAllowed
from gateway.broker.headers.parse import LEFT_TO_THE_CODEC, send_options
from gateway.broker.model import destinations
from gateway.codec import Head

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.config.settings import Settings
    from gateway.runtime.gateway import Gateway

_NOT_HERE = frozenset(["destination", "user-id", *LEFT_TO_THE_CODEC])
"""Headers that nobody can give here: they are told apart, or the server's, or a session's."""


class Publisher:
    """Publishes for operators."""

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings

    def endpoints(self) -> list[Endpoint]:
        """Its one endpoint."""
        return [
            Endpoint(
                "POST",
                "/api/v1/publish",
                self.publish,
                "Publish a message; answered when it has been routed, and stored if it is to be.",
                "messages",
                message_models.Published,
                body=message_models.Publish,
                errors=(503,),
                action="publish",
            )
        ]

    async def publish(self, request: Request) -> Response:
        """A SEND."""
        asks = asked.body(request, message_models.Publish)
        entry = entry_of(request)
        entry.target(asks.destination)
        body = self._body_of(asks)
        entry.facts(octets=len(body))
        head = self._head_of(asks, request.state.visitor.user)
        if self._gateway.broker.pressed:
            raise Refused(503, "memory is short, and publishers are held back: try again in a moment")
        number = await self._carry_out(asks.destination, head, body)
        with trio.move_on_after(PATIENCE) as waiting:
            if self._gateway.committer is not None:
                await self._gateway.committer.wait_for(number)
        if waiting.cancelled_caught:
            raise Refused(503, f"it was accepted, and the store has not confirmed it within {PATIENCE:g} s")
        return JSONResponse({"published": True})

    def _body_of(self, asks: message_models.Publish) -> bytes:
        """Its body, decoded."""
        try:
            body = asks.body.encode() if asks.body_encoding == "utf-8" else base64.b64decode(asks.body, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(400, "body: the field 'body' is no base64") from None
        if len(body) > self._settings.max_body:
            raise Refused(400, f"body: the message has {len(body)} octets, {self._settings.max_body} may (max_body)")
        return body

    def _head_of(self, asks: message_models.Publish, user: str) -> Head:
        """Its head, if a frame can hold it."""
        settings = self._settings
        for name, value in asks.headers.items():
            if name in _NOT_HERE:
                raise _bad_header(f"headers: {name!r} is not for operators to give")
            if not name or "\0" in name + value:
                raise _bad_header(f"headers: no frame can hold {name[:40]!r}")
            if len(name) + len(value) > settings.max_header_line:
                raise _bad_header(f"headers: {name[:40]!r} is longer than max_header_line, {settings.max_header_line}")
        if len(asks.headers) >= settings.max_headers:
            raise Refused(400, f"headers: there are {len(asks.headers)}, {settings.max_headers} may be (max_headers)")
        if "\0" in asks.destination:
            raise Refused(400, "body: no frame can hold this destination")
        # Functions are told who asks, as of every client.
        of_app = {"user-id": user, "session": user} if destinations.APP in asks.destination else {}
        return Head.of("SEND", {**asks.headers, **of_app, "destination": asks.destination})

    async def _carry_out(self, destination: str, head: Head, body: bytes) -> int:
        """Route it.

        Returns:
            the batch of the store that has what it changed; 0: it changed nothing there.

        Raises:
            Refused: it cannot be carried out.
        """
        done = trio.Event()
        found: list[int | Refused] = []

        def carry_out() -> None:
            try:
                found.append(self._send(destination, head, body))
            except NotAllowed as error:
                found.append(self._refused(error))
            except Refused as error:
                found.append(error)
            finally:
                done.set()

        self._gateway.broker.scheduler.later(carry_out)
        await done.wait()
        (result,) = found
        if isinstance(result, Refused):
            raise result
        return result

    def _send(self, destination: str, head: Head, body: bytes) -> int:
        """The SEND itself; returns the batch of the store, or 0.

        Raises:
            NotAllowed: it cannot be carried out.
            Refused: nothing is carried out any more.
        """
        if self._gateway.draining:
            sentence = "the gateway is shutting down and takes no messages: publish again when it has been restarted"
            raise Refused(503, sentence, come_back(self._settings))
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
        broker.take_strained()  # nobody's doing who could be held for it
        return 0 if broker.storage is None or broker.storage.changes == changes else broker.storage.number

    def _refused(self, error: NotAllowed) -> Refused:
        """400 where the operator should ask for something else, 503 where he may ask again."""
        broker = self._gateway.broker
        is_store = broker.storage is not None and broker.storage.failure
        status = 503 if broker.memory_is_full or is_store else 400
        return Refused(status, f"{error}: {error.detail}", logged=str(error))


def _check_owner(broker: Broker, name: str) -> None:
    """Refuse a temporary destination that has gone with its session, or never was.

    A client's SEND there is nobody's fault, and lost without a word; an operator has most likely mistyped it.

    Raises:
        NotAllowed: nobody can read what is sent there.
    """
    is_temporary = name.startswith((destinations.REPLY_QUEUE, destinations.REPLY_TOPIC))
    if is_temporary and name not in broker.registry.temporaries:
        raise NotAllowed(
            "nobody is there", f"{name[:80]!r} is no session's; a temporary destination goes with who made it"
        )


def _bad_header(sentence: str) -> Refused:
    return Refused(400, sentence, logged="a header cannot be sent")
