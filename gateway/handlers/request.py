"""Requests: one message of a client, or one SUBSCRIBE, as its function sees it.

A function's messages are checked at once, so that the function gets the error.  They are sent after it has returned,
together with the ACK, in one step: a function that fails has sent nothing, and its next attempt sends nothing twice.

A function's messages have no user, except for messages to another function, which have the user of the first request.
So no client gains rights by a function that sends for it (`reply-to:/app/...`).
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import trio

from gateway.broker import Broker
from gateway.broker.errors import NotAllowed
from gateway.broker.headers.parse import send_options
from gateway.broker.model import destinations
from gateway.broker.model.message import PreparedSend
from gateway.codec import Frame, Head

Body = bytes | bytearray | memoryview | str

# Headers for the session of the functions, which a function does not need.
_OF_THE_DELIVERY = frozenset({"ack", "subscription", "content-length"})
# Headers for the session of a sender; a function has no session.
_OF_SESSIONS = ("transaction", "receipt")


class Reject(Exception):
    """Raised by a function: the request can never succeed, so it is not retried.

    `reason`: the header `reason` of the dead letter, which other clients may read.
    """


class CannotSend(Exception):
    """The broker refuses a function's message; `str()` says why."""


class Request:
    """A client's request, for the function until it has returned.

    Attributes:
        destination: `/app/...` as the client wrote it.
        headers: all headers of the client, and the server's `message-id`; read-only.
        body: bytes; empty for a SUBSCRIBE.
        user: the verified user of the client, or the id of its session where clients have no users.
        session: the verified id of its session.
        reply_to: the destination of the reply; None: the client wants none.
        attempt: 1, or more after failed attempts.
        is_subscribe: True for a SUBSCRIBE.
    """

    __slots__ = (
        *("_broker", "_done", "_sendings"),
        *("attempt", "body", "destination", "headers", "is_subscribe", "message_id", "reply_to", "session", "user"),
    )

    def __init__(self, broker: Broker, frame: Frame, *, is_subscribe: bool) -> None:
        headers = frame.headers
        self.destination = headers["destination"]
        self.headers: Mapping[str, str] = MappingProxyType(
            {name: value for name, value in headers.items() if name not in _OF_THE_DELIVERY}
        )
        self.body = frame.body
        self.user = headers["user-id"]
        self.session = headers["session"]
        self.reply_to = headers.get("reply-to")
        self.message_id = headers["message-id"]
        self.attempt = int(headers.get("delivery-count", "1"))
        self.is_subscribe = is_subscribe
        self._broker = broker
        self._sendings: list[PreparedSend] = []
        self._done = False

    # the client's message

    @property
    def text(self) -> str:
        """The body as text.  Raises Reject: it is not UTF-8."""
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            raise Reject("the body is not UTF-8") from None

    def json(self) -> Any:
        """The body as JSON.  Raises Reject: it is not JSON."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            raise Reject("the body is not JSON") from None

    # the function's messages

    def send(self, destination: str, body: Body = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a message when the function has returned.

        `headers`: besides the destination; headers for the broker, like `x-delay`, `expires` or `retain`, work as in a
        SEND.  Raises CannotSend: the broker would refuse it: the destination, a header, or a limit; RuntimeError: the
        function has returned, or the call comes from a thread.
        """
        self._check_place()
        data = _encoded(body)
        asked = _checked(destination, headers or {})
        try:
            found = [
                self._prepared(part, {**asked, "destination": part}, data) for part in destinations.split(destination)
            ]
        except NotAllowed as error:
            raise _refused(error) from None
        self._keep(found)

    def reply(self, body: Body = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a reply to `reply_to`, with the client's `correlation-id`; without `reply_to`, nothing is sent.

        Raises CannotSend, RuntimeError: as `send`; Reject: `reply-to` is no destination.
        """
        if self.reply_to is None:
            self._check_place()
            return
        correlation = {"correlation-id": self.headers["correlation-id"]} if "correlation-id" in self.headers else {}
        said = {**correlation, **(headers or {})}
        try:
            for part in destinations.split(self.reply_to):
                destinations.canonical(part)
        except NotAllowed as error:
            raise Reject(f"reply-to: {error}") from None
        if self.is_subscribe:
            self._answer(self.reply_to, body, said)
        else:
            self.send(self.reply_to, body, said)

    def _answer(self, reply_to: str, body: Body, headers: Mapping[str, str]) -> None:
        """Reply to a subscriber, under the destination of its SUBSCRIBE."""
        self._check_place()
        data = _encoded(body)
        try:
            self._keep([self._prepared(reply_to, _checked(self.destination, headers), data)])
        except NotAllowed as error:
            raise _refused(error) from None

    def _check_place(self) -> None:
        if self._done:
            raise RuntimeError("the function has returned, so its request is done; await all work before that")
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError("a thread cannot use the broker; return the message to the function, and send it there")

    def _prepared(self, target: str, headers: dict[str, str], body: bytes) -> PreparedSend:
        options = send_options(headers)
        if options.temporary_reply is not None:
            raise NotAllowed("functions have no temporary destinations", "reply-to must name one of another kind")
        if options.passed_on is not None:
            headers = dict(options.passed_on)
        if target.startswith(destinations.APP):
            headers |= {"user-id": self.user, "session": self.session}
        head = Head.of("SEND", headers)
        largest = self._broker.quotas.max_outbound // 2
        if head.size + len(body) > largest:
            raise NotAllowed("message too large", f"it must fit into half of max_outbound, {largest} bytes")
        return self._broker.router.prepare(head, body, target, options, None)

    def _keep(self, sendings: list[PreparedSend]) -> None:
        self._sendings += sendings
        for sending in sendings:
            self._broker.memory.keep(sending.nbytes)

    # the end

    def check(self) -> None:
        """Check again that all messages can be sent together: other messages may have come first.

        Raises CannotSend: they cannot.
        """
        try:
            self._broker.router.check(self._sendings)
        except NotAllowed as error:
            raise _refused(error) from None

    def carry_out(self) -> None:
        sendings = self._let_go()
        for sending in sendings:
            self._broker.router.send(sending)

    def close(self) -> None:
        """The function has returned or failed; unsent messages are dropped."""
        self._done = True
        self._let_go()

    def _let_go(self) -> list[PreparedSend]:
        sendings, self._sendings = self._sendings, []
        self._broker.memory.release(sum([sending.nbytes for sending in sendings]))
        return sendings


def _refused(error: NotAllowed) -> CannotSend:
    return CannotSend(f"{error}: {error.detail}")


def _encoded(body: Body) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise TypeError(f"a body is bytes or str, not {type(body).__name__}; json.dumps(...) makes a str of most others")


def _checked(destination: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Destination and headers, if a frame can hold them."""
    for name, value in (*headers.items(), ("destination", destination)):
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"names and values of headers must be str, not {name!r}: {value!r}")
        if not name or "\0" in name or "\0" in value or not _is_unicode(name + value):
            raise CannotSend(f"no frame can hold the header {name[:80]!r}: {value[:80]!r}")
    for name in ("destination", *_OF_SESSIONS):
        if name in headers:
            raise CannotSend(f"a function cannot set the header {name!r}")
    return {**headers, "destination": destination}


def _is_unicode(text: str) -> bool:
    """True if UTF-8 can encode it; a str may hold lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
